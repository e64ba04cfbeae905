//! Runs that wait for timers of Restate. This process keeps their leases, and wakes them when a command arrives.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_runtime::journal::Lease;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;

use crate::session::WorkerHost;

/// How long after its time a run is kept that another worker may have continued.
const FORGET_DELAY: Duration = Duration::from_secs(60);

/// The runs that this process has put aside.
#[derive(Default)]
pub(crate) struct SleepingRuns {
    by_id: Mutex<HashMap<RunId, SleepingRun>>,
}

struct SleepingRun {
    lease: Lease,
    watching: JoinHandle<()>,
}

impl SleepingRuns {
    fn lock_runs(&self) -> MutexGuard<'_, HashMap<RunId, SleepingRun>> {
        self.by_id.lock()
    }

    /// Puts a run aside for `duration`.
    pub(crate) fn put_to_sleep(self: &Arc<SleepingRuns>, host: Arc<dyn WorkerHost>, lease: Lease, duration: Duration) {
        let sleeping = self.clone();
        let watching = tokio::spawn(async move {
            let woken = tokio::time::timeout(duration.saturating_add(FORGET_DELAY), wake_on_command(&*host, lease.run));
            if woken.await.is_err() && sleeping.lock_runs().remove(&lease.run).is_some() {
                host.journal(lease.run).abandon_run(lease);
            }
        });
        self.lock_runs().insert(lease.run, SleepingRun { lease, watching });
    }

    /// Forgets a run that is about to be driven.
    pub(crate) fn wake_run(&self, host: &dyn WorkerHost, run: RunId) {
        if let Some(SleepingRun { lease, watching }) = self.lock_runs().remove(&run) {
            watching.abort();
            host.journal(run).abandon_run(lease);
        }
    }
}

/// Wakes a run when a command to it arrives.
async fn wake_on_command(host: &dyn WorkerHost, run: RunId) {
    let journal = host.journal(run);
    loop {
        let arriving = journal.next_commands(run);
        if journal.pending_commands(run).await.is_ok_and(|commands| commands.is_empty()) {
            arriving.await;
        }
        match host.wake_run(run).await {
            // The session that it starts takes the lease over.
            Ok(()) => return std::future::pending().await,
            Err(error) => {
                tracing::warn!("cannot wake the run {run}: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}
