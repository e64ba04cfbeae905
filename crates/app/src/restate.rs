//! Restate as the engine: this process starts runs there and follows them, or it is a worker that drives them.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_restate::{OpenedRun, RestateClient, RestateError, RunLife, WorkerHost};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{BoxFuture, Clock as _};
use flowloom_runtime::journal::{Journal, Lease};
use flowloom_runtime::remote::{DriveState, LifeStart, RunDriver, find_life};
use flowloom_runtime::{JournalError, RunError};
use flowloom_store::Store;
use tokio::net::TcpListener;
use url::Url;

use crate::config::error::{ConfigError, TableProblem};
use crate::engines::App;
use crate::error::AppError;

/// Delay before a worker registers again.
const REGISTER_PAUSE: Duration = Duration::from_secs(1);

/// Port of the admin API of a Restate server.
const ADMIN_PORT: u16 = 9070;

/// The address of the admin API of the server whose ingress has this address, unless it is configured otherwise.
pub fn admin_address(ingress: &str) -> Result<String, ConfigError> {
    let invalid = || ConfigError::in_table("engine", TableProblem::NoRestateUrl(ingress.to_owned()));
    let mut url = Url::parse(ingress).map_err(|_| invalid())?;
    url.set_port(Some(ADMIN_PORT)).map_err(|()| invalid())?;
    Ok(url.to_string())
}

/// Starts and wakes runs on a Restate server.
pub struct RestateDriver {
    client: RestateClient,
    store: Arc<Store>,
}

impl RestateDriver {
    /// A driver of the runs in `store` on the server whose ingress has this address.
    pub fn new(ingress: &str, store: Arc<Store>) -> RestateDriver {
        RestateDriver { client: RestateClient::new(ingress), store }
    }

    async fn start_and_wake(&self, run: RunId, start: LifeStart) -> Result<(), JournalError> {
        let epoch = self.store.find_epoch(run)?.ok_or(JournalError::RunNotFound(run))?;
        let reopened_at = match start {
            LifeStart::Created => None,
            LifeStart::Reopened(epoch) => Some(epoch),
            LifeStart::Ended => Some(epoch),
        };
        let life = RunLife { run, reopened_at };
        self.client.start_workflow(life).await.map_err(to_outage)?;
        // A run that does not wait cannot be woken.
        let waits = |status: &str| {
            [Status::Waiting, Status::Uncertain, Status::Quarantined].iter().any(|wait| wait.name() == status)
        };
        if self.store.get_run(run)?.is_some_and(|row| waits(&row.status)) {
            self.client.wake_workflow(life, epoch).await.map_err(to_outage)?;
        }
        Ok(())
    }
}

/// A run that Restate could not be asked for is asked for again.
fn to_outage(error: RestateError) -> JournalError {
    JournalError::Unavailable(StepFailure::new(Code::RestateUnreachable, error.to_string()))
}

impl RunDriver for RestateDriver {
    fn wake_run(&self, run: RunId, start: LifeStart) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.start_and_wake(run, start))
    }

    fn next_news(&self, run: RunId) -> BoxFuture<'static, ()> {
        self.store.next_announcement(run)
    }

    fn read_drive_state(&self, run: RunId) -> Result<DriveState, JournalError> {
        Ok(self.store.read_drive_state(run)?)
    }
}

/// This process as a worker of Restate.
pub struct RestateWorker {
    app: Arc<App>,
    driver: RestateDriver,
}

impl RestateWorker {
    /// A worker of the server whose ingress has this address.
    pub fn new(app: Arc<App>, ingress: &str) -> RestateWorker {
        let driver = RestateDriver::new(ingress, app.store.clone());
        RestateWorker { app, driver }
    }

    /// Drives runs until `stop` completes.
    pub async fn serve(self: Arc<RestateWorker>, listener: TcpListener, stop: impl Future<Output = ()>) {
        flowloom_restate::serve_worker(listener, self, stop).await;
    }

    /// Registers this worker, reachable at `url`, with the admin API at `admin`. A server that cannot be reached may be
    /// about to start, and is tried again. Fails if it refuses.
    pub async fn register(&self, admin: &str, url: &str) -> Result<(), AppError> {
        let mut is_reported = false;
        loop {
            match self.driver.client.register_worker(admin, url).await {
                Err(error @ RestateError::Unreachable { .. }) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        tracing::warn!("{error}; this worker registers when it answers");
                    }
                    tokio::time::sleep(REGISTER_PAUSE).await;
                }
                registered => return registered.map_err(|error| RunError::from(to_outage(error)).into()),
            }
        }
    }

    async fn open_stored_run(&self, run: RunId) -> Result<OpenedRun, AppError> {
        let opened = self.app.open_run_by_id(run).await?;
        Ok(OpenedRun { engine: self.app.engine_for_run(&opened)?, plan: opened.plan.clone() })
    }

    async fn wake_stored_run(&self, run: RunId) -> Result<(), JournalError> {
        let records = self.app.store.read(run, 0).await?;
        self.driver.wake_run(run, find_life(&records)).await
    }
}

impl WorkerHost for RestateWorker {
    fn journal(&self, _run: RunId) -> Arc<dyn Journal> {
        self.app.store.clone()
    }

    fn open_run(&self, run: RunId) -> BoxFuture<'_, Result<OpenedRun, RunError>> {
        Box::pin(async move {
            self.open_stored_run(run).await.map_err(|error| match error {
                AppError::Run(error) => error,
                AppError::Store(error) => JournalError::from(error).into(),
                error => RunError::Rejected(StepFailure::new(error.code(), error.to_string())),
            })
        })
    }

    fn take_over_run(&self, run: RunId, epoch: u64) -> BoxFuture<'_, Result<Option<Lease>, JournalError>> {
        Box::pin(self.app.store.take_over_run(run, epoch))
    }

    fn wake_run(&self, run: RunId) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.wake_stored_run(run))
    }

    fn is_hopeless(&self, run: RunId) -> Result<bool, JournalError> {
        Ok(self.app.store.is_hopeless(run)?)
    }

    fn announce_run(&self, run: RunId) {
        let store = self.app.store.clone();
        // Nobody waits for it, and it may be lost.
        tokio::task::spawn_blocking(move || drop(store.announce_run(run)));
    }

    fn quarantine_run(&self, lease: Lease) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.app.store.quarantine_claimed(lease, SystemClock.now_ms()))
    }

    fn store_text(&self, hash: Hash, text: String) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.app.store.store_text(hash, text).await?) })
    }

    fn read_text(&self, hash: Hash) -> BoxFuture<'_, Result<Option<String>, JournalError>> {
        Box::pin(async move { Ok(self.app.store.read_text(hash)?) })
    }

    fn delete_text(&self, hash: Hash) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.app.store.delete_text(hash).await?) })
    }
}
