//! When questions expire, although the clock may be set back: a question that was asked before that expires when it would
//! have, as far as this process can know.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flowloom_store::{QuestionExpiry, WaitingQuestion};

/// How far the clock may be behind what this process expects before it counts as set back. Clocks are adjusted all the time.
const TOLERANCE_MS: u64 = 1000;

/// A moment, by the clock of the machine and by one that is never set back.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// Milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
    /// The same moment by the other clock.
    pub(super) at: Instant,
}

/// Notices that the clock was set back, and knows when earlier questions expire.
#[derive(Default)]
pub(super) struct QuestionClock {
    last: Option<Moment>,
    /// A moment with the time that it really was at least, if the questions that wait must be read.
    unread: Option<Moment>,
    /// Questions that expire later than the time of the clock, with their times.
    held: BTreeMap<QuestionExpiry, Instant>,
}

impl QuestionClock {
    /// Returns whether the questions that wait must be read: at the start, and after the clock was set back.
    pub(super) fn observe_moment(&mut self, moment: Moment) -> bool {
        let expected_ms = self.last.map(|last| add_elapsed(last, moment.at));
        self.last = Some(moment);
        match expected_ms {
            // Another process may have asked questions before the clock was set back.
            None => self.unread = Some(moment),
            Some(expected_ms) if moment.now_ms + TOLERANCE_MS < expected_ms => {
                let known_ms = self.unread.map_or(0, |unread| add_elapsed(unread, moment.at));
                self.unread = Some(Moment { now_ms: expected_ms.max(known_ms), at: moment.at });
            }
            Some(_) => {}
        }
        self.unread.is_some()
    }

    /// Holds the questions that wait, as far as the clock was set back since they were asked.
    pub(super) fn hold_questions(&mut self, waiting: &[WaitingQuestion], moment: Moment) {
        let Some(unread) = self.unread.take() else { return };
        // It may have been read long after the clock was set back.
        let now_ms = add_elapsed(unread, moment.at);
        for WaitingQuestion { expiry, last_event_at } in waiting {
            let known_ms = now_ms.max(*last_event_at);
            if known_ms > moment.now_ms {
                let remaining = Duration::from_millis(expiry.expires_at.saturating_sub(known_ms));
                self.held.entry(*expiry).or_insert(moment.at + remaining);
            }
        }
    }

    /// The held questions whose time has come.
    pub(super) fn list_due(&self, at: Instant) -> Vec<QuestionExpiry> {
        self.held.iter().filter(|(_, due)| **due <= at).map(|(expiry, _)| *expiry).collect()
    }

    /// A question is no longer open.
    pub(super) fn forget_question(&mut self, expiry: QuestionExpiry) {
        self.held.remove(&expiry);
    }
}

/// The time of the clock at `at`, in milliseconds, if it was not set since `last`.
fn add_elapsed(last: Moment, at: Instant) -> u64 {
    let elapsed_ms = at.saturating_duration_since(last.at).as_millis();
    last.now_ms.saturating_add(u64::try_from(elapsed_ms).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use flowloom_core::id::RunId;

    use super::*;

    const ASKED_MS: u64 = 1_000_000_000;

    fn ask_question(timeout_ms: u64) -> [WaitingQuestion; 1] {
        let expiry = QuestionExpiry { expires_at: ASKED_MS + timeout_ms, run: RunId::new(1, [0; 10]) };
        [WaitingQuestion { expiry, last_event_at: ASKED_MS }]
    }

    fn build_moment(start: Instant, now_ms: u64, elapsed_ms: u64) -> Moment {
        Moment { now_ms, at: start + Duration::from_millis(elapsed_ms) }
    }

    #[test]
    fn a_question_of_an_earlier_process_waits_no_longer_than_it_was_to() {
        let (start, mut clock) = (Instant::now(), QuestionClock::default());
        // The clock was set back by an hour while no process ran.
        let first = build_moment(start, ASKED_MS - 3_600_000, 0);
        assert!(clock.observe_moment(first));
        clock.hold_questions(&ask_question(3000), first);
        assert!(clock.list_due(start + Duration::from_millis(2999)).is_empty());
        let due = clock.list_due(start + Duration::from_millis(3000));
        assert_eq!(due, [ask_question(3000)[0].expiry]);
        clock.forget_question(due[0]);
        assert!(clock.list_due(start + Duration::from_secs(9)).is_empty());
    }

    #[test]
    fn time_that_has_passed_counts_when_the_clock_is_set_back() {
        let (start, mut clock) = (Instant::now(), QuestionClock::default());
        assert!(clock.observe_moment(build_moment(start, ASKED_MS, 0)));
        clock.hold_questions(&[], build_moment(start, ASKED_MS, 0));
        assert!(!clock.observe_moment(build_moment(start, ASKED_MS + 50_000, 50_000)), "nothing happened");
        let back = build_moment(start, ASKED_MS + 31_000, 51_000);
        assert!(clock.observe_moment(back));
        // The database does not respond: they are read later.
        assert!(clock.observe_moment(build_moment(start, ASKED_MS + 32_000, 52_000)));
        clock.hold_questions(&ask_question(60_000), build_moment(start, ASKED_MS + 32_000, 52_000));
        assert!(clock.list_due(start + Duration::from_millis(59_999)).is_empty());
        assert_eq!(clock.list_due(start + Duration::from_millis(60_000)).len(), 1);
    }

    #[test]
    fn a_clock_that_is_right_or_set_forward_holds_nothing() {
        let (start, mut clock) = (Instant::now(), QuestionClock::default());
        let first = build_moment(start, ASKED_MS + 10, 0);
        clock.observe_moment(first);
        clock.hold_questions(&ask_question(3000), first);
        for (now_ms, elapsed_ms) in [(ASKED_MS + 1000, 1010), (ASKED_MS + 90_000, 2000), (ASKED_MS + 89_500, 2100)] {
            assert!(!clock.observe_moment(build_moment(start, now_ms, elapsed_ms)), "{now_ms}");
        }
        assert!(clock.list_due(start + Duration::from_secs(900)).is_empty());
    }
}
