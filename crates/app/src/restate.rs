//! Restate as the engine: this process starts runs there and follows them, or it is a worker that drives them.

use std::collections::{BTreeSet, HashSet};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::Record;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
pub use flowloom_restate::RestateAdmin;
use flowloom_restate::{
    Deployment, Discovery, OpenedRun, RestateClient, RestateError, RunLife, RunServices, StartOutcome, WorkerHost,
};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{BoxFuture, Clock as _};
use flowloom_runtime::journal::{Journal, Lease};
use flowloom_runtime::outage_log::OutageLog;
use flowloom_runtime::remote::{ClaimedSession, DriveRequest, DriveState, LifeStart, RunDriver};
use flowloom_runtime::{JournalError, RunError, RunOutcome, engine_semantics};
use flowloom_store::Store;
use tokio::net::TcpListener;
use url::Url;

use crate::config::Config;
use crate::config::error::{ConfigError, TableProblem};
use crate::error::AppError;
use crate::runs::stored::StoredRuns;

/// Delay before a worker registers again.
const REGISTER_PAUSE: Duration = Duration::from_secs(1);

/// Interval at which a worker looks at the addresses of workers.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Delay before an address at which no worker answered is checked again.
const SECOND_LOOK_PAUSE: Duration = Duration::from_secs(2);

/// Port of the admin API of a Restate server.
const ADMIN_PORT: u16 = 9070;

/// The address of the admin API of the server whose ingress has this address, unless it is configured otherwise. Fails
/// if the address is not a URL with a host.
pub fn admin_address(ingress: &str) -> Result<String, ConfigError> {
    let invalid = || ConfigError::in_table("engine", TableProblem::NoRestateUrl(ingress.to_owned()));
    let mut url = Url::parse(ingress).map_err(|_| invalid())?;
    url.set_port(Some(ADMIN_PORT)).map_err(|()| invalid())?;
    Ok(url.to_string())
}

/// Fails if the Restate server whose ingress has this address does not answer.
pub async fn check_server(ingress: &str) -> Result<(), RestateError> {
    RestateClient::new(ingress).check_health().await
}

/// The address at which a worker answers that may drive runs which start under a configuration; `None` if no worker does. Fails
/// if the admin API of the server at `ingress` has another port than by default, or does not answer.
pub async fn find_worker(config: &Config, store: &Store, ingress: &str) -> Result<Option<String>, AppError> {
    let services = RunServices::new(engine_semantics(), &store.identity()?, &config.project_name, &config.fingerprint);
    let admin = RestateAdmin::new(&admin_address(ingress)?);
    let as_outage = |error| AppError::from(RunError::from(to_outage(error)));
    for deployment in admin.list_deployments().await.map_err(as_outage)? {
        let address = deployment.address();
        if deployment.has_services(&services)
            && admin.look_up_address(address, &services).await.map_err(as_outage)? == Discovery::Services
        {
            // The rest of the address is the name of the service.
            return Ok(Some(address.rsplit_once('/').map_or(address, |(worker, _)| worker).to_owned()));
        }
    }
    Ok(None)
}

/// Starts and wakes runs on a Restate server.
pub struct RestateDriver {
    client: RestateClient,
    store: Arc<Store>,
    /// The identity of the database, once it is read.
    database: OnceLock<String>,
    /// The configuration under which runs continue that were started under another one, if the operator accepts that.
    accepted_config: Option<String>,
    outages: Arc<OutageLog>,
}

impl RestateDriver {
    /// A driver of the runs in `store` on the server whose ingress has this address. Each run is driven by workers that have
    /// the configuration of its start, or `accepted_config`.
    pub fn new(
        ingress: &str,
        store: Arc<Store>,
        accepted_config: Option<String>,
        outages: Arc<OutageLog>,
    ) -> RestateDriver {
        RestateDriver {
            client: RestateClient::new(ingress),
            store,
            database: OnceLock::new(),
            accepted_config,
            outages,
        }
    }

    /// The services of the workers that may drive runs of a version, a project and a configuration.
    fn find_services(&self, engine_semantics: u32, project: &str, config: &str) -> Result<RunServices, JournalError> {
        let database = match self.database.get() {
            Some(database) => database,
            None => {
                let read = self.store.identity()?;
                self.database.get_or_init(|| read)
            }
        };
        Ok(RunServices::new(engine_semantics, database, project, config))
    }

    async fn start_and_wake(&self, request: DriveRequest) -> Result<(), JournalError> {
        let DriveRequest { run, start, engine_semantics, project, config } = request;
        let config = self.accepted_config.as_ref().unwrap_or(&config);
        let services = self.find_services(engine_semantics, &project, config)?;
        let reopened_at = match start {
            LifeStart::Created => None,
            LifeStart::Reopened(epoch) => Some(epoch),
            LifeStart::Ended => Some(self.read_epoch(run)?),
        };
        let (life, outcome) = self.start_life(&services, RunLife { run, reopened_at, lost_count: 0 }).await?;
        if outcome == StartOutcome::Started {
            // Its first session reads all commands.
            return Ok(());
        }
        // A run that does not wait cannot be woken.
        let epoch = self.read_epoch(run)?;
        let waits = |status: &str| {
            [Status::Waiting, Status::Uncertain, Status::Quarantined].iter().any(|wait| wait.name() == status)
        };
        if self.store.get_run(run)?.is_some_and(|row| waits(&row.status)) {
            self.client.wake_workflow(&services, life, epoch).await.map_err(to_outage)?;
        }
        Ok(())
    }

    fn read_epoch(&self, run: RunId) -> Result<u64, JournalError> {
        self.store.find_epoch(run)?.ok_or(JournalError::RunNotFound(run))
    }

    /// Starts the workflow of a life, or finds the one that was started. If that has ended and the run has not, because
    /// the workflow was killed with Restate's tools, the life gets another one.
    async fn start_life(
        &self,
        services: &RunServices,
        mut life: RunLife,
    ) -> Result<(RunLife, StartOutcome), JournalError> {
        loop {
            let outcome = self.client.start_workflow(services, life).await.map_err(to_outage)?;
            let is_lost = outcome == StartOutcome::Known
                && self.client.has_workflow_ended(services, life).await.map_err(to_outage)?
                && !self.is_over(life.run)?;
            if !is_lost {
                return Ok((life, outcome));
            }
            life.lost_count += 1;
        }
    }

    /// Whether a run needs no driver.
    fn is_over(&self, run: RunId) -> Result<bool, JournalError> {
        let is_final = |status: &str| Status::parse(status).is_none_or(Status::is_final);
        Ok(match self.store.get_run(run)? {
            Some(row) => is_final(&row.status) && self.store.read_drive_state(run)? == DriveState::AtRest,
            None => true,
        })
    }
}

/// A run that Restate could not be asked for is asked for again.
fn to_outage(error: RestateError) -> JournalError {
    JournalError::DriverUnreachable(StepFailure::new(Code::RestateUnreachable, error.to_string()))
}

impl RunDriver for RestateDriver {
    fn wake_run(&self, request: DriveRequest) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let woken = self.start_and_wake(request).await;
            match &woken {
                Ok(()) => self.outages.note_success(),
                Err(JournalError::DriverUnreachable(failure)) => {
                    self.outages.note_failure(failure.code, failure);
                }
                Err(_) => {}
            }
            woken
        })
    }

    fn announces_ends(&self) -> bool {
        self.store.has_announcements()
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
    runs: StoredRuns,
    driver: RestateDriver,
    services: RunServices,
}

/// Other addresses of workers.
#[derive(Default)]
struct Suspects {
    /// Those at which no worker answered at the last check: a worker that starts again takes a moment.
    silent: HashSet<String>,
    /// Those that are alive, and were reported.
    reported: HashSet<String>,
}

impl RestateWorker {
    /// A worker of the server whose ingress has this address. Fails if the store cannot be read.
    pub fn new(runs: StoredRuns, outages: Arc<OutageLog>, ingress: &str) -> Result<RestateWorker, AppError> {
        let driver = RestateDriver::new(ingress, runs.store.clone(), None, outages);
        let (project, config) = (&runs.config.project_name, &runs.config.fingerprint);
        let services = driver.find_services(engine_semantics(), project, config).map_err(RunError::from)?;
        Ok(RestateWorker { runs, driver, services })
    }

    /// The address at which Restate finds the services of this worker, if it reaches the worker at `url`. Workers of other
    /// versions, databases and projects have others, although they may share the host and the port.
    pub fn service_address(&self, url: &str) -> String {
        format!("{}/{}", url.trim_end_matches('/'), self.services.workflow_name())
    }

    /// Whether workers that drive other runs have the address at which Restate reaches this one. If Restate cannot be asked,
    /// they may.
    pub async fn finds_strangers(&self, admin: &RestateAdmin, url: &str) -> bool {
        // Without the name of the service, workers of any services answer.
        let found = admin.look_up_address(url.trim_end_matches('/'), &self.services).await;
        matches!(found, Ok(Discovery::OtherServices))
    }

    /// Drives runs until `stop` completes, and those that have begun for the time that they have to end.
    pub async fn serve(self: Arc<RestateWorker>, listener: TcpListener, stop: impl Future<Output = ()>) {
        let services = self.services.clone();
        let drain_time = self.runs.config.server.drain_time();
        flowloom_restate::serve_worker(listener, self, &services, stop, drain_time).await;
    }

    /// Registers this worker at an address with the admin API at `admin`. A server that cannot be reached, or whose ingress
    /// cannot, may be about to start, and is tried again. So is one that cannot reach this worker: a load balancer may wait
    /// until the worker is ready. Fails if the server refuses.
    pub async fn register(&self, admin: &RestateAdmin, address: &str) -> Result<(), AppError> {
        let mut is_reported = false;
        loop {
            match self.try_register(admin, address).await {
                Err(error @ (RestateError::Unreachable { .. } | RestateError::WorkerUnreachable { .. })) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        tracing::warn!("{error}; this worker registers as soon as it can");
                    }
                    tokio::time::sleep(REGISTER_PAUSE).await;
                }
                Ok(()) => {
                    tracing::info!(address, "registered with Restate");
                    return Ok(());
                }
                registered => return registered.map_err(|error| RunError::from(to_outage(error)).into()),
            }
        }
    }

    /// Registers this worker once. Without the ingress it could not start child runs, so it takes no runs.
    async fn try_register(&self, admin: &RestateAdmin, address: &str) -> Result<(), RestateError> {
        self.driver.client.check_health().await?;
        admin.register_address(address).await
    }

    /// Keeps workers registered at an address until the future is dropped: registers them again if the server has
    /// forgotten them, and takes over the runs of other addresses at which no worker answers any more.
    pub async fn keep_registered(&self, admin: &RestateAdmin, address: &str) {
        let mut suspects = Suspects::default();
        loop {
            match self.look_after_addresses(admin, address, &mut suspects).await {
                Ok(()) => self.driver.outages.note_success(),
                Err(error) => {
                    self.driver.outages.note_failure(Code::RestateUnreachable, &error);
                }
            }
            let store = self.runs.store.clone();
            let read = tokio::task::spawn_blocking(move || store.describe_database()).await;
            self.runs.store.watch_for_outage(matches!(read, Ok(Ok(_)))).await;
            let pause = if suspects.silent.is_empty() { LOOK_INTERVAL } else { SECOND_LOOK_PAUSE };
            tokio::time::sleep(pause).await;
        }
    }

    async fn look_after_addresses(
        &self,
        admin: &RestateAdmin,
        address: &str,
        suspects: &mut Suspects,
    ) -> Result<(), RestateError> {
        self.driver.client.check_health().await?;
        let mut deployments = admin.list_deployments().await?;
        deployments.retain(|deployment| deployment.has_services(&self.services));
        if !deployments.iter().any(|deployment| deployment.address() == address) {
            admin.register_address(address).await?;
            tracing::warn!("the address {address} was not registered with Restate, and is registered again");
        }
        let others: BTreeSet<&str> =
            deployments.iter().map(Deployment::address).filter(|other| *other != address).collect();
        for other in others {
            if admin.look_up_address(other, &self.services).await? == Discovery::Services {
                suspects.silent.remove(other);
                if suspects.reported.insert(other.to_owned()) {
                    tracing::warn!(
                        "other workers have the address {other}: new runs go to the address that was registered last; to share \
                         the load, give all workers one URL, such as that of a load balancer"
                    );
                }
            } else if !suspects.silent.insert(other.to_owned()) {
                suspects.silent.remove(other);
                tracing::warn!("no worker answers at {other}; its runs continue at {address}");
                for deployment in deployments.iter().filter(|deployment| deployment.address() == other) {
                    admin.move_deployment(deployment, address).await?;
                }
            }
        }
        Ok(())
    }

    fn open_claimed_run(&self, run: RunId, records: Vec<Arc<Record>>) -> Result<OpenedRun, AppError> {
        let opened = self.runs.load_run(run, records)?;
        self.runs.check_project(&opened)?;
        Ok(OpenedRun { engine: self.runs.engine_for_run(&opened)?, plan: opened.plan.clone() })
    }

    async fn wake_stored_run(&self, run: RunId) -> Result<(), JournalError> {
        let records = self.runs.store.read(run, 0).await?;
        self.driver.wake_run(DriveRequest::from_records(run, &records)).await
    }
}

impl WorkerHost for RestateWorker {
    fn journal(&self, _run: RunId) -> Arc<dyn Journal> {
        self.runs.store.clone()
    }

    fn open_run(&self, run: RunId, records: Vec<Arc<Record>>) -> BoxFuture<'_, Result<OpenedRun, RunError>> {
        Box::pin(async move {
            self.open_claimed_run(run, records).map_err(|error| match error {
                AppError::Run(error) => error,
                AppError::Store(error) => JournalError::from(error).into(),
                // A worker of that project can drive it.
                error @ AppError::RunOfOtherProject { .. } => {
                    JournalError::Unavailable(StepFailure::new(error.code(), error.to_string())).into()
                }
                error => RunError::Rejected(StepFailure::new(error.code(), error.to_string())),
            })
        })
    }

    fn claim_run(&self, run: RunId, given_up: Option<u64>) -> BoxFuture<'_, Result<ClaimedSession, JournalError>> {
        Box::pin(self.runs.store.claim_session(run, given_up))
    }

    fn wake_run(&self, run: RunId) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.wake_stored_run(run))
    }

    fn quarantine_run(&self, lease: Lease) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(self.runs.store.quarantine_claimed(lease, SystemClock.now_ms()))
    }

    fn store_text(&self, hash: Hash, text: String) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.runs.store.store_text(hash, text).await?) })
    }

    fn read_text(&self, hash: Hash) -> BoxFuture<'_, Result<Option<String>, JournalError>> {
        Box::pin(async move { Ok(self.runs.store.read_text(hash)?) })
    }

    fn delete_text(&self, hash: Hash) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { Ok(self.runs.store.delete_text(hash).await?) })
    }

    fn report_outcome(&self, outcome: &RunOutcome) {
        self.runs.report_driven(outcome);
    }
}
