//! Reads of the store while a step is performed. They wait while the store cannot be reached, as writes do: a run that broke
//! off would abandon the requests that its other branches have in flight.

use flowloom_core::error::StepFailure;

use super::Interpreter;
use crate::effects::{BoxFuture, EffectFuture};
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
            let read = read().await;
            if !read.as_ref().is_err_and(JournalError::is_outage) {
                return read;
            }
            drop(read);
            self.effects.clock.sleep_for(RETRY_INTERVAL_MS).await;
        }
        read().await
    }

    /// Repeats an effect that read the store, for example for a quota or a definition, and did not reach it, as long as
    /// `may_repeat` states that nothing has happened that must not happen twice.
    pub(super) async fn repeat_in_outage<'a, T>(
        &self,
        may_repeat: impl Fn() -> bool + Send + Sync,
        perform: impl Fn() -> EffectFuture<'a, T> + Send + Sync,
    ) -> Result<T, StepFailure> {
        for _ in 0..MAX_OUTAGE_MS / RETRY_INTERVAL_MS {
            // Moved out of the result, which would have room in the future of every effect.
            let failure = match perform().await {
                Err(failure) if failure.code.is_store_outage() && may_repeat() => failure,
                done => return done,
            };
            self.effects.clock.sleep_for(RETRY_INTERVAL_MS).await;
            // During the outage the lease may have been lost. Then the failure is not stored either.
            if self.log.ensure_lease().await.is_err() {
                return Err(failure);
            }
        }
        perform().await
    }
}
