//! Reports an outage of something that the program needs: once when it begins, and once when it is over.

use std::fmt::Display;

use flowloom_core::code::Code;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The outages of one thing, such as the database.
#[derive(Debug)]
pub struct OutageLog {
    /// Its name in the log.
    subject: &'static str,
    /// Since when it is out of reach.
    since: Mutex<Option<Instant>>,
}

impl OutageLog {
    /// A log without an outage.
    pub const fn new(subject: &'static str) -> OutageLog {
        OutageLog { subject, since: Mutex::new(None) }
    }

    /// Notes a failure, and reports it if it is the first one. Returns whether it is. The error must not contain a secret.
    pub fn note_failure(&self, code: Code, error: &dyn Display) -> bool {
        let mut since = self.since.lock();
        let is_first = since.is_none();
        if is_first {
            *since = Some(Instant::now());
            tracing::warn!(%code, "{error}; work that needs {} waits until it is available again", self.subject);
        }
        is_first
    }

    /// Notes a success, and reports the end of an outage.
    pub fn note_success(&self) {
        let began = self.since.lock().take();
        if let Some(began) = began {
            let seconds = began.elapsed().as_secs();
            tracing::info!(seconds, "{} is available again", self.subject);
        }
    }

    /// Whether there is an outage.
    pub fn is_out(&self) -> bool {
        self.since.lock().is_some()
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
}
