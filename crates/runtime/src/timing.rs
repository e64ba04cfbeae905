//! How long an effect waited for its turn, and for the first text of its answer.

use std::sync::OnceLock;
use std::time::Duration;

use flowloom_core::effect::ResponseFacts;
use tokio::time::Instant;

/// A shorter wait is not worth a record, in milliseconds: that is how long any request takes that finds a free place.
const MIN_QUEUED_MS: u64 = 10;

/// Measures one effect. Times count from its creation.
#[derive(Debug)]
pub struct ResponseTimer {
    started: Instant,
    queued: OnceLock<Duration>,
    first_text: OnceLock<Duration>,
}

impl ResponseTimer {
    /// The effect begins to wait for its turn.
    pub fn start() -> ResponseTimer {
        ResponseTimer { started: Instant::now(), queued: OnceLock::new(), first_text: OnceLock::new() }
    }

    /// The effect has its turn. Only the first call counts.
    pub fn end_queue(&self) {
        self.queued.get_or_init(|| self.started.elapsed());
    }

    /// A piece of the answer has arrived. Only the first call counts.
    pub fn note_text(&self) {
        self.first_text.get_or_init(|| self.started.elapsed());
    }

    /// How long the effect waited for its turn; `None` if that is not worth a record.
    pub fn queued_ms(&self) -> Option<u64> {
        self.queued.get().map(to_ms).filter(|ms| *ms >= MIN_QUEUED_MS)
    }

    /// Adds the measurements to the facts about a response.
    pub fn add_to(&self, facts: &mut ResponseFacts) {
        facts.queued_ms = self.queued_ms();
        facts.first_token_ms = self.first_text.get().map(to_ms);
    }
}

fn to_ms(time: &Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timer that measured a wait and the first text.
    fn new_measured_timer(queued_ms: u64, first_text_ms: u64) -> ResponseTimer {
        let [queued, first_text] = [queued_ms, first_text_ms].map(|ms| OnceLock::from(Duration::from_millis(ms)));
        ResponseTimer { queued, first_text, ..ResponseTimer::start() }
    }

    #[test]
    fn a_wait_and_the_first_text_are_measured_once() {
        let mut facts = ResponseFacts::default();
        ResponseTimer::start().add_to(&mut facts);
        assert_eq!(facts, ResponseFacts::default());
        let timer = new_measured_timer(20, 50);
        timer.end_queue();
        timer.note_text();
        timer.add_to(&mut facts);
        assert_eq!((facts.queued_ms, facts.first_token_ms), (Some(20), Some(50)));
    }

    #[test]
    fn a_short_wait_is_not_recorded() {
        assert_eq!(new_measured_timer(9, 50).queued_ms(), None);
        assert_eq!(new_measured_timer(10, 50).queued_ms(), Some(10));
    }
}
