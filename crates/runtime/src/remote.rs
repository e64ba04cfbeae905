//! Runs that another engine drives. This process stores the creation of a run, asks that engine to drive it, and follows
//! the journal, so that its callers see the run as if it were driven here.

use std::pin::pin;
use std::sync::Arc;

use flowloom_core::event::{Event, Record, RunCreated};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::{Env, Plan};
use flowloom_core::state::RunState;

use crate::effects::BoxFuture;
use crate::engine::Engine;
use crate::engine_semantics;
use crate::error::{JournalError, RunError};
use crate::journal::{Batch, Lease};
use crate::outcome::RunOutcome;
use crate::publish::{Delta, Publisher};
use crate::relay::FollowedText;
use crate::reopen::records_since_reopened;

/// Poll interval of the journal, in milliseconds: at first, while events arrive that a subscriber reads, and at most.
const FIRST_PAUSE_MS: u64 = 20;
const MIN_PAUSE_MS: u64 = 10;
const MAX_PAUSE_MS: u64 = 100;

/// Poll interval, in milliseconds, for a run without subscribers whose end is announced.
const ANNOUNCED_PAUSE_MS: u64 = 250;

/// A run that was claimed for a session of another engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedSession {
    /// Its lease.
    pub lease: Lease,
    /// Whether so many workers have died in a row while they drove it that it is not driven again without a command.
    pub is_hopeless: bool,
    /// Whether commands to it may be pending. Those that come later are delivered.
    pub has_commands: bool,
}

/// An engine that drives runs in other processes. It writes their events to the journal.
pub trait RunDriver: Send + Sync {
    /// Asks the engine to drive a run whose creation is stored, unless it does already. Idempotent.
    /// Fails if the engine is not reachable, or refuses.
    fn wake_run(&self, request: DriveRequest) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Whether [`next_news`](RunDriver::next_news) completes at each end and wait of a run, unless a message is lost.
    fn announces_ends(&self) -> bool {
        false
    }

    /// Completes when the run may have ended or begun to wait. It may miss that.
    fn next_news(&self, run: RunId) -> BoxFuture<'static, ()>;

    /// Whether the engine drives the run now. Fails if the journal cannot be read.
    fn read_drive_state(&self, run: RunId) -> Result<DriveState, JournalError>;
}

/// Whether an engine drives a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveState {
    /// A worker drives it and reads its commands, or must be found for it.
    Driven,
    /// No worker drives it, and a command to it is pending: it must be woken.
    HasCommands,
    /// No worker drives it, and no command to it is pending.
    AtRest,
}

impl DriveState {
    /// The state of a run that a worker drives, or that has pending commands.
    pub fn new(is_driven: bool, has_commands: bool) -> DriveState {
        match (is_driven, has_commands) {
            (true, _) => DriveState::Driven,
            (false, true) => DriveState::HasCommands,
            (false, false) => DriveState::AtRest,
        }
    }
}

/// How the present life of a run began. A life ends with the run; a run that is retried begins another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeStart {
    /// With the run.
    Created,
    /// When the run was reopened after the session with this epoch.
    Reopened(u64),
    /// The run has ended. If a command reopens it, another life begins.
    Ended,
}

/// A run that is to be driven, with what decides which workers may drive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveRequest {
    /// The run.
    pub run: RunId,
    /// How its present life began.
    pub start: LifeStart,
    /// The version of the interpreter that it was created under.
    pub engine_semantics: u32,
    /// The name of its project; empty if it has none.
    pub project: String,
    /// The fingerprint of the configuration under which it was started; empty if nothing was set.
    pub config: String,
}

impl DriveRequest {
    /// The request for a run with these records.
    pub fn from_records(run: RunId, records: &[Arc<Record>]) -> DriveRequest {
        let created = records.iter().find_map(|record| match &record.event {
            Event::RunCreated(created) => Some(created),
            _ => None,
        });
        let engine_semantics = created.map_or_else(engine_semantics, |created| created.engine_semantics);
        let project = created.and_then(|created| created.project.as_ref());
        let (project, config) =
            project.map(|project| (project.name.clone(), project.config.clone())).unwrap_or_default();
        DriveRequest { run, start: find_life(records), engine_semantics, project, config }
    }
}

/// How the present life of a run began, by its records.
fn find_life(records: &[Arc<Record>]) -> LifeStart {
    let recent = records_since_reopened(records);
    let is_over = recent.iter().any(|record| matches!(record.event, Event::RunFinished { .. }));
    let reopened = recent.first().filter(|first| matches!(first.event, Event::RunReopened { .. }));
    let session = recent.iter().find_map(|record| match record.event {
        Event::RunStarted { epoch } => Some(epoch),
        _ => None,
    });
    match (is_over, reopened.and(session)) {
        (true, _) => LifeStart::Ended,
        (false, Some(epoch)) => LifeStart::Reopened(epoch.saturating_sub(1)),
        (false, None) => LifeStart::Created,
    }
}

/// A run that another engine drives.
pub struct RemoteRun {
    engine: Engine,
    driver: Arc<dyn RunDriver>,
    plan: Arc<Plan>,
    id: RunId,
    user: Arc<str>,
    publisher: Publisher,
    /// The creation of a new run, which is not stored yet.
    creation: Option<Arc<Record>>,
    records: Vec<Arc<Record>>,
    /// Number of events that were known when the run was last woken.
    known_when_woken: usize,
    text: FollowedText,
}

impl RemoteRun {
    /// A run that is to be created. This process has the right to write it.
    pub(crate) fn new_created(
        engine: Engine,
        driver: Arc<dyn RunDriver>,
        plan: Arc<Plan>,
        id: RunId,
        created: RunCreated,
    ) -> RemoteRun {
        let user = created.user.as_str().into();
        let (at, event) = (engine.now_ms(), Event::RunCreated(Box::new(created)));
        let creation = Record { run: id, seq: 1, at, path: Path::root(), attempt: 0, event };
        let (publisher, creation) = (Publisher::starting_after(0), Some(Arc::new(creation)));
        let (records, text) = (Vec::new(), FollowedText::default());
        RemoteRun { engine, driver, plan, id, user, publisher, creation, records, known_when_woken: 0, text }
    }

    /// A run that was created. Fails with [`RunError::Ended`] if it has ended and no command may reopen it.
    pub(crate) async fn open(
        engine: Engine,
        driver: Arc<dyn RunDriver>,
        plan: Arc<Plan>,
        id: RunId,
    ) -> Result<RemoteRun, RunError> {
        let records = engine.journal().read(id, 0).await?;
        let state = read_state(&records)?;
        if state.status.is_final() && driver.read_drive_state(id)? == DriveState::AtRest {
            return Err(RunError::Ended(state.status));
        }
        let user = state.created.as_ref().map_or("", |created| &created.user).into();
        let publisher = Publisher::starting_after(records.len() as u64);
        let text = FollowedText::after(&records);
        Ok(RemoteRun { engine, driver, plan, id, user, publisher, creation: None, records, known_when_woken: 0, text })
    }

    pub(crate) fn id(&self) -> RunId {
        self.id
    }

    pub(crate) fn user(&self) -> &Arc<str> {
        &self.user
    }

    pub(crate) fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Has the run driven until it ends or waits for people.
    pub(crate) async fn follow_to_end(mut self) -> RunOutcome {
        let driven = self.drive_elsewhere().await;
        let (state, illegal) = RunState::up_to_illegal(self.records.iter().map(|record| &**record));
        let env = match driven {
            Ok(()) if self.records.is_empty() => Ok(Env::default()),
            Ok(()) => self.engine.final_env(self.records.clone(), self.plan.clone()).await,
            Err(error) => Err(error),
        };
        let (env, broken) = env.map_or_else(|error| (Env::default(), Some(error)), |env| (env, None));
        RunOutcome { id: self.id, state, records: self.records, broken: broken.or(illegal.map(RunError::from)), env }
    }

    async fn drive_elsewhere(&mut self) -> Result<(), RunError> {
        if let Some(creation) = self.creation.take() {
            self.store_creation(creation).await?;
        }
        let mut news = self.driver.next_news(self.id);
        self.wake_driver().await?;
        let mut pause_ms = if self.awaits_announcement() { ANNOUNCED_PAUSE_MS } else { FIRST_PAUSE_MS };
        self.wait_for_news(pause_ms, &mut news).await;
        loop {
            let known = self.records.len();
            // News that arrives while the journal is being read causes another read.
            news = self.driver.next_news(self.id);
            match self.look_further().await {
                Ok(true) => return Ok(()),
                // The engine drives the run on when the journal can be reached again.
                Ok(false) => {}
                Err(error) if error.is_outage() => {}
                Err(error) => return Err(error.into()),
            }
            let is_followed = self.records.len() > known && self.publisher.has_subscribers();
            pause_ms = match is_followed {
                true => MIN_PAUSE_MS,
                false if self.awaits_announcement() => ANNOUNCED_PAUSE_MS,
                false => MAX_PAUSE_MS.min(pause_ms * 2),
            };
            self.wait_for_news(pause_ms, &mut news).await;
        }
    }

    /// Whether only the end of the run is of interest, and it is announced.
    fn awaits_announcement(&self) -> bool {
        self.driver.announces_ends() && !self.publisher.has_subscribers()
    }

    /// Waits until it is time to look at the journal: after the pause, at the news, or when text waits for its events. Publishes
    /// other text meanwhile.
    async fn wait_for_news(&mut self, pause_ms: u64, news: &mut BoxFuture<'static, ()>) {
        let journal = self.engine.journal();
        self.text.follow_while(self.publisher.has_subscribers(), &**journal, self.id);
        let mut pause = pin!(self.engine.sleep_for(pause_ms));
        loop {
            tokio::select! {
                biased;
                () = &mut pause => return,
                () = &mut *news => return,
                deltas = self.text.next() => {
                    publish_text(&self.publisher, deltas);
                    if self.text.is_waiting() {
                        return;
                    }
                }
            }
        }
    }

    /// Stores the creation, and gives up the right to write the run.
    async fn store_creation(&mut self, creation: Arc<Record>) -> Result<(), RunError> {
        let batch = Batch { releases_lease: true, ..Batch::with_records(vec![creation.clone()]) };
        let lease = Lease { run: self.id, epoch: 0 };
        let journal = self.engine.journal();
        if let Err(error) = journal.append_batch(lease, batch).wait().await {
            journal.release_run(lease);
            return Err(error.into());
        }
        self.add_records(vec![creation]);
        Ok(())
    }

    async fn read_further(&mut self) -> Result<(), JournalError> {
        let seen = self.records.last().map_or(0, |last| last.seq);
        let records = self.engine.journal().read(self.id, seen).await?;
        self.add_records(records);
        Ok(())
    }

    fn add_records(&mut self, records: Vec<Arc<Record>>) {
        if !records.is_empty() {
            self.publisher.publish_records(&records);
            self.publisher.wake_subscribers();
            records.iter().for_each(|record| self.text.note_record(record));
            publish_text(&self.publisher, self.text.take_ready());
            self.records.extend(records);
        }
    }

    /// Reads further events. Returns whether the run has ended or waits for people, after what happened since it was woken.
    /// Wakes it again if a command has arrived after its worker released it.
    async fn look_further(&mut self) -> Result<bool, JournalError> {
        self.read_further().await?;
        let is_new = self.records.len() > self.known_when_woken;
        let may_be_over = match self.records.last().map(|last| &last.event) {
            Some(Event::RunFinished { .. }) => true,
            Some(Event::RunSuspended { .. }) => is_new,
            _ => false,
        };
        if !may_be_over {
            return Ok(false);
        }
        let drive_state = self.driver.read_drive_state(self.id)?;
        if drive_state == DriveState::HasCommands && is_new {
            self.wake_driver().await?;
        }
        Ok(drive_state == DriveState::AtRest)
    }

    async fn wake_driver(&mut self) -> Result<(), JournalError> {
        self.driver.wake_run(DriveRequest::from_records(self.id, &self.records)).await?;
        self.known_when_woken = self.records.len();
        Ok(())
    }
}

fn publish_text(publisher: &Publisher, deltas: Vec<Delta>) {
    let sink = publisher.delta_sink();
    deltas.iter().for_each(|delta| sink.push(&delta.path, delta.attempt, &delta.text));
}

fn read_state(records: &[Arc<Record>]) -> Result<RunState, RunError> {
    Ok(RunState::from_records(records.iter().map(|record| &**record))?)
}
