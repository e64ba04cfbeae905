//! Reports an outage of something that the program needs: once when it begins, and once when it is over.

use std::fmt::Display;
use std::time::Duration;

use flowloom_core::category::Category;
use flowloom_core::code::Code;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The outages of one thing, such as the database.
#[derive(Debug)]
pub struct OutageLog {
    /// Its name in the log.
    subject: &'static str,
    outage: Mutex<Option<Outage>>,
}

/// How long nothing may fail before a full disk counts as repaired. Small commits succeed on a full disk.
const FULL_DISK_PAUSE: Duration = Duration::from_secs(30);

/// An outage that is not over.
#[derive(Clone, Copy, Debug)]
struct Outage {
    began: Instant,
    last_failure: Instant,
    is_full: bool,
}

impl Outage {
    fn is_over(&self) -> bool {
        !self.is_full || self.last_failure.elapsed() >= FULL_DISK_PAUSE
    }
}

impl OutageLog {
    /// A log without an outage.
    pub const fn new(subject: &'static str) -> OutageLog {
        OutageLog { subject, outage: Mutex::new(None) }
    }

    /// Notes a failure, and reports it if it is the first one. Returns whether it is. The error must not contain a secret.
    pub fn note_failure(&self, code: Code, error: &dyn Display) -> bool {
        let mut outage = self.outage.lock();
        let is_first = outage.is_none();
        let (now, is_full) = (Instant::now(), code.category() == Category::Full);
        let began = outage.map_or(now, |outage| outage.began);
        *outage = Some(Outage { began, last_failure: now, is_full });
        if is_first {
            tracing::warn!(%code, "{error}; work that needs {} waits until it is available again", self.subject);
        }
        is_first
    }

    /// Notes a success, and reports the end of an outage.
    pub fn note_success(&self) {
        let ended = self.outage.lock().take_if(|outage| outage.is_over());
        if let Some(outage) = ended {
            let seconds = outage.began.elapsed().as_secs();
            tracing::info!(seconds, "{} is available again", self.subject);
        }
    }

    /// Whether there is an outage.
    pub fn is_out(&self) -> bool {
        self.outage.lock().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_from_its_first_failure_to_the_next_success() {
        let log = OutageLog::new("the database");
        log.note_success();
        assert!(!log.is_out());
        assert!(log.note_failure(Code::StoreUnreachable, &"refused"));
        assert!(!log.note_failure(Code::StoreUnreachable, &"refused"));
        assert!(log.is_out());
        log.note_success();
        assert!(!log.is_out());
    }

    #[test]
    fn a_full_disk_is_not_repaired_by_a_small_commit() {
        let log = OutageLog::new("the database");
        log.note_failure(Code::StoreFull, &"full");
        log.note_success();
        assert!(log.is_out());
        let earlier = Instant::now().checked_sub(FULL_DISK_PAUSE).expect("the machine runs for longer");
        log.outage.lock().as_mut().expect("an outage").last_failure = earlier;
        log.note_success();
        assert!(!log.is_out());
    }
}
