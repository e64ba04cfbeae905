//! The claim of a run by a session. Restate can give up an attempt at any time, and then another attempt, perhaps by another
//! worker, must not wait for this process longer than for effects that must not be sent twice: the lease of the attempt is
//! released.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_runtime::JournalError;
use flowloom_runtime::journal::{Journal, Lease};
use flowloom_runtime::remote::ClaimedSession;
use tokio::sync::oneshot;

use crate::session::WorkerHost;

/// Interval at which a run is claimed whose last worker may still be alive.
const CLAIM_INTERVAL: Duration = Duration::from_millis(100);

/// A lease that is released when it is dropped, unless it was given back.
pub(crate) struct HeldLease {
    journal: Arc<dyn Journal>,
    claimed: ClaimedSession,
    is_given_back: bool,
}

impl HeldLease {
    pub(crate) fn lease(&self) -> Lease {
        self.claimed.lease
    }

    /// The state of the run at the time of its claim.
    pub(crate) fn claimed_session(&self) -> ClaimedSession {
        self.claimed
    }

    /// Whether the lease was released, or is kept by someone else.
    pub(crate) fn is_given_back(&self) -> bool {
        self.is_given_back
    }

    /// Notes that the lease was released, or is kept by someone else.
    pub(crate) fn give_back(&mut self) {
        self.is_given_back = true;
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        if !self.is_given_back {
            self.journal.release_run(self.claimed.lease);
        }
    }
}

/// Claims a run. `known` is the epoch of an earlier attempt at this session: Restate has given that one up, so its lease is
/// taken over. Another worker's is waited for.
pub(crate) async fn claim_run(
    host: Arc<dyn WorkerHost>,
    run: RunId,
    known: Option<u64>,
) -> Result<HeldLease, JournalError> {
    let (sender, receiver) = oneshot::channel();
    // A claim that is given up half way would block the run without a worker.
    tokio::spawn(async move {
        let journal = host.journal(run);
        while !sender.is_closed() {
            match host.claim_run(run, known).await {
                Err(JournalError::RunOwned(_)) => tokio::time::sleep(CLAIM_INTERVAL).await,
                claimed => {
                    let held = claimed.map(|claimed| HeldLease { journal, claimed, is_given_back: false });
                    // Dropped if the attempt was given up.
                    drop(sender.send(held));
                    return;
                }
            }
        }
    });
    receiver.await.unwrap_or(Err(JournalError::OwnershipLost))
}
