//! Reads of the store while a step is performed. They wait while the store cannot be reached, as writes do: a run that broke
//! off would abandon the requests that its other branches have in flight.

use super::Interpreter;
use crate::effects::BoxFuture;
use crate::error::JournalError;
use crate::journal::MAX_OUTAGE_MS;

/// Pause between two attempts, in milliseconds.
const RETRY_INTERVAL_MS: u64 = 200;

impl Interpreter {
    /// Repeats a read while the store cannot be reached.
    pub(super) async fn read_store<'a, T>(
        &'a self,
        read: impl Fn() -> BoxFuture<'a, Result<T, JournalError>> + Send,
    ) -> Result<T, JournalError> {
        for _ in 0..MAX_OUTAGE_MS / RETRY_INTERVAL_MS {
            match read().await {
                Err(JournalError::Unavailable(_)) => self.effects.clock.sleep_for(RETRY_INTERVAL_MS).await,
                done => return done,
            }
        }
        read().await
    }
}
