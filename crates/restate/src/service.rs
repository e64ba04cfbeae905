//! The services of a worker: the workflow of a run, and its sessions.
//!
//! The workflow sleeps while its run waits, and is suspended by Restate meanwhile. A session is a call of its own, because
//! Restate must never suspend it: effects are in progress.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flowloom_core::id::RunId;
use restate_sdk::context::RequestTarget;
use restate_sdk::endpoint::{HandlerOptions, ServiceOptions};
use restate_sdk::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::session::{SessionAttempt, WorkerHost};
use crate::sleeping::SleepingRuns;

/// The name of the workflow: one for each version of the interpreter (`ENGINE_SEMANTICS`), so that a run stays with workers
/// that can follow it.
pub(crate) const WORKFLOW_SERVICE: &str = "FlowRun1";

/// The name of the service whose calls are the sessions of runs.
const SESSION_SERVICE: &str = "FlowSession1";

/// Time after which Restate suspends a workflow that sleeps.
const SLEEP_TIMEOUT: Duration = Duration::from_secs(5);

/// Time after which Restate gives a session up from which it hears nothing: longer than any effect takes.
const SESSION_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Delay before Restate tries a session again that has failed, at first and at most.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// How long Restate keeps the key of a workflow that has ended: a request to start it again is ignored so long. After that
/// it does nothing, because the run has ended.
const WORKFLOW_RETENTION: Duration = Duration::from_secs(3600);

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
struct FlowRun;

#[restate_sdk::workflow(name = "FlowRun1")]
impl FlowRun {
    /// Drives a run to its end.
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, request: Json<StartRequest>) -> Result<(), HandlerError> {
        let run = request.into_inner().run;
        let mut asleep_epoch = None;
        loop {
            let target = RequestTarget::service(SESSION_SERVICE, "drive");
            let session = ctx.request::<_, Json<SessionEnd>>(target, Json(SessionRequest { run, asleep_epoch }));
            let SessionEnd::Waiting { epoch, until } = session.call().await?.into_inner() else { return Ok(()) };
            asleep_epoch = until.map(|_| epoch);
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

    /// Continues a run that waits since the session with this epoch.
    #[handler]
    async fn wake(&self, ctx: SharedWorkflowContext<'_>, epoch: Json<u64>) -> Result<(), HandlerError> {
        ctx.resolve_promise(&promise_name(epoch.into_inner()), ());
        Ok(())
    }
}

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
struct FlowSession {
    host: Arc<dyn WorkerHost>,
    sleeping: Arc<SleepingRuns>,
}

#[restate_sdk::service(name = "FlowSession1")]
impl FlowSession {
    /// Drives a run until it ends or waits.
    #[handler]
    async fn drive(&self, ctx: Context<'_>, request: Json<SessionRequest>) -> Result<Json<SessionEnd>, HandlerError> {
        let SessionRequest { run, asleep_epoch } = request.into_inner();
        let session = Arc::new(Mutex::new(SessionAttempt::new(self.host.clone(), run, asleep_epoch)));
        loop {
            let name = session.lock().await.next_entry_name();
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

/// Serves the workflows and the sessions of runs until `stop` completes.
pub async fn serve_worker(listener: TcpListener, host: Arc<dyn WorkerHost>, stop: impl Future<Output = ()>) {
    let [first, most] = RETRY_DELAYS;
    let workflow = HandlerOptions::new().inactivity_timeout(SLEEP_TIMEOUT).workflow_retention(WORKFLOW_RETENTION);
    let session = HandlerOptions::new().inactivity_timeout(SESSION_TIMEOUT).abort_timeout(SESSION_TIMEOUT);
    let options = |handler: &str, driving: HandlerOptions| {
        ServiceOptions::new()
            .journal_retention(Duration::ZERO)
            .retry_policy_initial_interval(first)
            .retry_policy_exponentiation_factor(2.0)
            .retry_policy_max_interval(most)
            .retry_policy_max_attempts(u64::from(u32::MAX))
            .handler(handler, driving)
    };
    let sessions = FlowSession { host, sleeping: Arc::default() };
    let endpoint = Endpoint::builder()
        .bind(FlowRun.into_service_definition().options(options("run", workflow)))
        .bind(sessions.into_service_definition().options(options("drive", session)))
        .build();
    HttpServer::new(endpoint).serve_with_cancel(listener, stop).await;
}
