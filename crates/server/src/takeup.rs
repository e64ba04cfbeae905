//! Reclaims abandoned runs, at the start and periodically: runs of an earlier server, of other servers that share the
//! database, and of commands.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::id::RunId;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::Orphan;
use tokio_util::sync::CancellationToken;

use crate::state::Server;

/// Number of runs reclaimed before the next poll, so that several servers share the runs of a dead one.
const BATCH: u32 = 64;

/// The recovery task of this server.
pub(crate) struct TakeUp {
    server: Server,
    /// Runs that cannot be resumed here and were reported.
    refused: HashSet<RunId>,
}

impl TakeUp {
    pub(crate) fn new(server: Server) -> TakeUp {
        TakeUp { server, refused: HashSet::new() }
    }

    /// Reclaims runs periodically until the server stops.
    pub(crate) async fn keep_looking(mut self, told: CancellationToken) {
        let pause = self.server.app.config.recovery_interval;
        while told.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            // Failures of the database are transient and retried.
            let _ = self.look().await;
        }
    }

    /// Reclaims runs that no worker drives, as far as there is capacity.
    pub(crate) async fn look(&mut self) -> Result<(), StepError> {
        let mut tried = HashSet::new();
        while self.server.live.admit().is_ok() {
            let store = self.server.app.store.clone();
            let limit = BATCH + u32::try_from(self.refused.len()).unwrap_or(u32::MAX - BATCH);
            let found = crate::blocking::blocking(move || store.orphans(limit)).await;
            let Ok(found) = found else { return Ok(()) };
            let mut found = found?;
            // A run without progress is left to the next poll.
            found.retain(|orphan| !self.refused.contains(&orphan.id) && tried.insert(orphan.id));
            if found.is_empty() {
                return Ok(());
            }
            for orphan in found {
                if self.server.live.admit().is_err() {
                    return Ok(());
                }
                self.go_on(orphan).await?;
            }
        }
        Ok(())
    }

    async fn go_on(&mut self, orphan: Orphan) -> Result<(), StepError> {
        let id = orphan.id;
        let done = match orphan.is_hopeless {
            true => self.server.app.store.quarantine(id, SystemClock.now_ms()).await,
            false => self.server.runs.resume(id).await,
        };
        match done {
            Ok(()) if orphan.is_hopeless => {
                tracing::warn!(
                    "the run {id} was reclaimed repeatedly without progress and is quarantined; to try again: flowloom resume {id}"
                );
            }
            Ok(()) => {}
            // Another server reclaimed it first.
            Err(error) if error.code == Code::RunOwned => {}
            Err(error) if is_passing(error.code) => return Err(error),
            Err(error) => {
                self.refused.insert(id);
                tracing::warn!("cannot resume the run {id}: {error}");
            }
        }
        Ok(())
    }
}

/// Whether the error comes from the database rather than from the run.
fn is_passing(code: Code) -> bool {
    matches!(code, Code::StoreFailed | Code::StoreLocked | Code::StoreFull | Code::StoreReadOnly)
}
