//! The terms of this process's lease, as it knows them without asking the database. A term ends when the lease may have
//! expired: the process was stopped, or could not renew it in time. Other processes may then have claimed its runs.

use std::time::Duration;

use flowloom_runtime::journal::LeaseTerm;
use parking_lot::{Mutex, MutexGuard};

/// A statement that renewed the lease, at a time of `read_uptime` between these two. So the lease lasts from when it was
/// sent, and had not expired before if it had not when the statement was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Renewal {
    /// When it was sent.
    pub sent_at: Duration,
    /// When its success was known.
    pub acknowledged_at: Duration,
}

/// The terms of a lease.
#[derive(Debug, Default)]
pub struct LeaseTerms {
    state: Mutex<TermState>,
}

#[derive(Debug, Default)]
struct TermState {
    number: u64,
    /// When the last renewal was sent that succeeded; `None` before the first one, and after the lease may have expired.
    renewed_at: Option<Duration>,
}

impl TermState {
    /// Ends the term if the lease may have expired by `now`.
    fn end_expired(&mut self, now: Duration, lease: Duration) {
        if self.renewed_at.take_if(|at| now.saturating_sub(*at) >= lease).is_some() {
            self.number += 1;
        }
    }
}

impl LeaseTerms {
    fn lock_state(&self) -> MutexGuard<'_, TermState> {
        self.state.lock()
    }

    /// Notes that a commit renewed the lease. Commits are noted in their order, so what they append is stored in this term.
    pub fn note_commit(&self, renewal: Renewal, lease: Duration) {
        let mut state = self.lock_state();
        state.end_expired(renewal.acknowledged_at, lease);
        state.renewed_at = state.renewed_at.max(Some(renewal.sent_at));
    }

    /// Notes that the lease was renewed without a commit. Requests that were sent before a term that begins with this
    /// may have been stored long before it.
    pub fn note_heartbeat(&self, renewal: Renewal, lease: Duration) {
        let mut state = self.lock_state();
        state.end_expired(renewal.acknowledged_at, lease);
        if state.renewed_at.is_none() {
            state.number += 1;
        }
        state.renewed_at = state.renewed_at.max(Some(renewal.sent_at));
    }

    /// The term at the time `now` of `read_uptime`.
    pub fn term_at(&self, now: Duration, lease: Duration) -> LeaseTerm {
        let mut state = self.lock_state();
        state.end_expired(now, lease);
        LeaseTerm { number: state.number, is_current: state.renewed_at.is_some() }
    }
}

/// A time that no one sets, and that passes while the process is stopped and, on Linux, while the machine sleeps.
pub(crate) fn read_uptime() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn read_term(terms: &LeaseTerms, second: u64) -> (u64, bool) {
        let LeaseTerm { number, is_current } = terms.term_at(Duration::from_secs(second), LEASE);
        (number, is_current)
    }

    fn build_renewal(sent: u64, acknowledged: u64) -> Renewal {
        Renewal { sent_at: Duration::from_secs(sent), acknowledged_at: Duration::from_secs(acknowledged) }
    }

    #[test]
    fn a_term_lasts_as_long_as_each_renewal_comes_in_time() {
        let terms = LeaseTerms::default();
        assert_eq!(read_term(&terms, 1), (0, false), "the lease begins with its first renewal");
        terms.note_commit(build_renewal(1, 1), LEASE);
        for second in [6, 11, 20] {
            terms.note_heartbeat(build_renewal(second, second), LEASE);
        }
        assert_eq!((read_term(&terms, 29), read_term(&terms, 30)), ((0, true), (1, false)));
    }

    #[test]
    fn a_renewal_after_a_pause_begins_a_new_term() {
        let unseen = LeaseTerms::default();
        unseen.note_commit(build_renewal(1, 1), LEASE);
        unseen.note_commit(build_renewal(11, 11), LEASE);
        assert_eq!(read_term(&unseen, 12), (1, true), "nobody looked while it had expired");
        let seen = LeaseTerms::default();
        seen.note_commit(build_renewal(1, 1), LEASE);
        assert_eq!(read_term(&seen, 11), (1, false));
        seen.note_commit(build_renewal(11, 11), LEASE);
        assert_eq!(read_term(&seen, 12), (1, true), "what is sent in between is stored in the new term");
    }

    /// A batch is sent, stored and acknowledged while the process is stopped, which renews its lease before it reads the
    /// acknowledgement.
    #[test]
    fn a_heartbeat_after_a_pause_says_nothing_about_what_was_sent_before() {
        let terms = LeaseTerms::default();
        let sent = read_term(&terms, 1);
        terms.note_heartbeat(build_renewal(21, 21), LEASE);
        terms.note_commit(build_renewal(1, 22), LEASE);
        let (now, is_current) = read_term(&terms, 22);
        assert!(is_current && now != sent.0, "{sent:?}, {now}");
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent() {
        let terms = LeaseTerms::default();
        terms.note_commit(build_renewal(5, 5), LEASE);
        // It was sent before the last one and is acknowledged after it.
        terms.note_heartbeat(build_renewal(3, 6), LEASE);
        assert_eq!((read_term(&terms, 14), read_term(&terms, 15)), ((0, true), (1, false)));
    }

    #[test]
    fn a_renewal_that_may_have_come_too_late_begins_a_new_term() {
        let terms = LeaseTerms::default();
        terms.note_commit(build_renewal(1, 1), LEASE);
        terms.note_commit(build_renewal(10, 12), LEASE);
        assert_eq!(read_term(&terms, 12), (1, true));
    }

    #[test]
    fn the_uptime_never_goes_back() {
        let first = read_uptime();
        assert!(first > Duration::ZERO && read_uptime() >= first);
    }
}
