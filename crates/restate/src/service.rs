//! The services of a worker: the workflow of a run, and its sessions.
//!
//! The workflow sleeps while its run waits, and is suspended by Restate meanwhile. A session is a call of its own, because
//! Restate must never suspend it: effects are in progress.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flowloom_core::id::RunId;
use restate_sdk::context::RequestTarget;
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use crate::session::{SessionAttempt, WorkerHost};
use crate::sleeping::SleepingRuns;

/// The input of a workflow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct StartRequest {
    pub(crate) run: RunId,
}

/// The input of a session.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SessionRequest {
    pub(crate) run: RunId,
    /// The epoch of the session that has put the run aside, if one has.
    #[serde(default, rename = "parked", skip_serializing_if = "Option::is_none")]
    pub(crate) asleep_epoch: Option<u64>,
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEnd {
    /// The run has ended, or cannot be driven.
    Finished,
    /// The run waits.
    Waiting {
        /// The epoch of the lease that the session had.
        epoch: u64,
        /// When the run continues by itself, in milliseconds since the Unix epoch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
    },
}

/// The workflow of a run. Its key is the id of the run, and the epoch at which the run was reopened.
pub(crate) struct FlowRun {
    /// The name of the service of its sessions.
    pub(crate) session: String,
}

#[restate_sdk::workflow]
impl FlowRun {
    /// Drives a run to its end.
    #[handler]
    pub(crate) async fn run(&self, ctx: WorkflowContext<'_>, request: Json<StartRequest>) -> Result<(), HandlerError> {
        let run = request.into_inner().run;
        let mut asleep_epoch = None;
        loop {
            let target = RequestTarget::service(&self.session, "drive");
            let session = ctx.request::<_, Json<SessionEnd>>(target, Json(SessionRequest { run, asleep_epoch }));
            let SessionEnd::Waiting { epoch, until } = session.call().await?.into_inner() else { return Ok(()) };
            asleep_epoch = until.map(|_| epoch);
            ctx.set(WAIT_KEY, epoch);
            let promise = promise_name(epoch);
            let woken = ctx.promise::<()>(&promise);
            match until {
                None => woken.await?,
                Some(until) => restate_sdk::select! {
                    woken = woken => woken?,
                    slept = ctx.sleep(duration_until(until)) => slept?,
                },
            }
        }
    }

    /// Continues a run whose lease has this epoch, and which waits since that session or an earlier one: a process may have
    /// claimed the run since, and released it.
    #[handler]
    pub(crate) async fn wake(&self, ctx: SharedWorkflowContext<'_>, epoch: Json<u64>) -> Result<(), HandlerError> {
        let epoch = epoch.into_inner();
        let waiting = ctx.get::<u64>(WAIT_KEY).await?;
        if let Some(waiting) = waiting.filter(|waiting| *waiting < epoch) {
            ctx.resolve_promise(&promise_name(waiting), ());
        }
        // The workflow may not know yet that its session has ended.
        let first = waiting.map_or(0, |waiting| waiting + 1).max(epoch.saturating_sub(MAX_LATER_CLAIMS)).min(epoch);
        (first..=epoch).for_each(|ended| ctx.resolve_promise(&promise_name(ended), ()));
        Ok(())
    }
}

/// The key of a workflow's state that holds the epoch of the session since which it waits.
const WAIT_KEY: &str = "waits-since";

/// Number of times that a run may be claimed between the end of its session and a command.
const MAX_LATER_CLAIMS: u64 = 8;

/// The name of the promise that ends a wait. The epoch of a run grows with each session.
fn promise_name(epoch: u64) -> String {
    format!("continue-{epoch}")
}

#[allow(clippy::disallowed_methods, reason = "Restate sleeps by the clock of this machine")]
fn duration_until(until: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_millis(until).saturating_sub(now)
}

/// The sessions of runs.
pub(crate) struct FlowSession {
    host: Arc<dyn WorkerHost>,
    sleeping: Arc<SleepingRuns>,
    draining: TaskTracker,
}

impl FlowSession {
    /// The sessions of runs. Those that end their effects are in `draining`.
    pub(crate) fn new(host: Arc<dyn WorkerHost>, draining: TaskTracker) -> FlowSession {
        FlowSession { host, sleeping: Arc::default(), draining }
    }
}

#[restate_sdk::service]
impl FlowSession {
    /// Drives a run until it ends or waits.
    #[handler]
    pub(crate) async fn drive(
        &self,
        ctx: Context<'_>,
        request: Json<SessionRequest>,
    ) -> Result<Json<SessionEnd>, HandlerError> {
        let SessionRequest { run, asleep_epoch } = request.into_inner();
        let session =
            Arc::new(Mutex::new(SessionAttempt::new(self.host.clone(), run, asleep_epoch, self.draining.clone())));
        loop {
            let name = {
                let mut session = session.lock().await;
                session.await_batch().await;
                session.next_entry_name()
            };
            let next = session.clone();
            let (host, sleeping) = (self.host.clone(), self.sleeping.clone());
            let entry = ctx.run(move || async move {
                // Only a session that goes beyond its record drives the run.
                sleeping.wake_run(&*host, run);
                Ok(Json(next.lock().await.next_entry().await?))
            });
            let entry = entry.name(name).await?.into_inner();
            let Some(end) = session.lock().await.accept_entry(entry).await? else { continue };
            if let (SessionEnd::Waiting { until: Some(until), .. }, Some(lease)) =
                (end, session.lock().await.keep_lease())
            {
                self.sleeping.put_to_sleep(self.host.clone(), lease, duration_until(until));
            }
            return Ok(Json(end));
        }
    }
}
