//! Makes sure that no other worker drives the run, before an effect is performed: a process that was stopped for longer than
//! its lease continues as if nothing had happened.

use std::sync::atomic::{AtomicU64, Ordering};

use super::RunLog;
use crate::error::JournalError;

/// The number of a term that never comes.
const NO_TERM: u64 = u64::MAX;

/// The terms of the worker's lease for which it is known that the run's lease was held.
pub(super) struct HeldTerm {
    /// The term in which the last append was sent.
    sent: AtomicU64,
    /// The term in which the run's lease was confirmed.
    held: AtomicU64,
}

impl HeldTerm {
    pub(super) fn new() -> HeldTerm {
        HeldTerm { sent: AtomicU64::new(NO_TERM), held: AtomicU64::new(NO_TERM) }
    }

    /// Notes the term in which an append is sent.
    pub(super) fn note_sent(&self, term: u64) {
        self.sent.store(term, Ordering::Relaxed);
    }

    /// Notes that the last append was stored, so that the lease was held when it was sent.
    pub(super) fn note_stored(&self) {
        self.held.store(self.sent.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl RunLog {
    /// Makes sure that this worker still drives the run. It costs nothing while the worker's lease is renewed in time.
    /// Afterwards, it asks the journal. Fails with `OwnershipLost` if another worker has claimed the run.
    pub(crate) async fn ensure_lease(&self) -> Result<(), JournalError> {
        loop {
            let term = self.journal.lease_term();
            if term.is_current && term.number == self.term.held.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.journal.confirm_lease(self.lease).await?;
            // The lease counts from the beginning of a term that continues: the next round checks whether it does.
            self.term.held.store(term.number, Ordering::Relaxed);
        }
    }
}
