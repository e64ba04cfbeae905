//! Reclaims abandoned runs, at the start and periodically: runs of an earlier server, of other servers that share the
//! database, and of commands.

use std::collections::HashSet;

use flowloom_core::id::RunId;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::AbandonedRun;
use tokio_util::sync::CancellationToken;

use super::service::RunService;
use crate::error::AppError;

/// Number of runs reclaimed before the next poll, so that several servers share the runs of a dead one.
const RECOVERY_BATCH_RUNS: u32 = 64;

/// The recovery task of a server.
pub struct RecoveryTask {
    runs: RunService,
    /// Runs that cannot be resumed here and were reported.
    failed_runs: HashSet<RunId>,
}

impl RecoveryTask {
    /// A task that resumes the runs that it finds with `runs`.
    pub fn new(runs: RunService) -> RecoveryTask {
        RecoveryTask { runs, failed_runs: HashSet::new() }
    }

    /// Reclaims runs periodically until the server stops.
    pub async fn run_periodically(mut self, shutdown: CancellationToken) {
        let pause = self.runs.app.config.recovery_interval;
        while shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            // Failures of the database are transient and retried.
            let _ = self.reclaim_runs().await;
        }
    }

    /// Reclaims runs that no worker drives, as far as there is capacity.
    pub async fn reclaim_runs(&mut self) -> Result<(), AppError> {
        let mut tried = HashSet::new();
        while self.runs.live.check_capacity().is_ok() {
            let store = self.runs.app.store.clone();
            let limit =
                RECOVERY_BATCH_RUNS + u32::try_from(self.failed_runs.len()).unwrap_or(u32::MAX - RECOVERY_BATCH_RUNS);
            let found = tokio::task::spawn_blocking(move || store.abandoned_runs(limit)).await;
            let Ok(found) = found else { return Ok(()) };
            let mut found = found?;
            // A run without progress is left to the next poll.
            found.retain(|orphan| !self.failed_runs.contains(&orphan.id) && tried.insert(orphan.id));
            if found.is_empty() {
                return Ok(());
            }
            for orphan in found {
                if self.runs.live.check_capacity().is_err() {
                    return Ok(());
                }
                self.reclaim_run(orphan).await?;
            }
        }
        Ok(())
    }

    async fn reclaim_run(&mut self, orphan: AbandonedRun) -> Result<(), AppError> {
        let id = orphan.id;
        let done = match orphan.is_hopeless {
            true => self.runs.app.store.quarantine_run(id, SystemClock.now_ms()).await.map_err(AppError::from),
            false => self.runs.resume_run(id).await,
        };
        match done {
            Ok(()) if orphan.is_hopeless => {
                tracing::warn!(
                    "the run {id} was reclaimed repeatedly without progress and is quarantined; to try again: flowloom resume {id}"
                );
            }
            Ok(()) => {}
            // Another server reclaimed it first.
            Err(error) if error.is_run_owned() => {}
            Err(error) if error.is_store_unavailable() => return Err(error),
            Err(error) => {
                self.failed_runs.insert(id);
                tracing::warn!("cannot resume the run {id}: {error}");
            }
        }
        Ok(())
    }
}
