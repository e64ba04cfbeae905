//! A run that is ready to be driven: by this process, or by another engine that this process asks.

use std::sync::Arc;

use flowloom_core::id::RunId;
use flowloom_core::state::RunState;

use crate::drive::{Drive, DriveResult};
use crate::error::RunError;
use crate::interpret::FinalEnv;
use crate::journal::{Journal, Lease};
use crate::log::{Mode, RunLog};
use crate::outcome::RunOutcome;
use crate::publish::{Publisher, SubscribeHandle, Subscription};
use crate::relay::TextRelay;
use crate::remote::RemoteRun;

/// A run that is ready to be driven.
pub enum Run {
    /// This process drives it.
    Local(Box<LocalRun>),
    /// Another engine drives it.
    Remote(Box<RemoteRun>),
}

/// A run that this process drives.
pub struct LocalRun {
    pub(crate) id: RunId,
    pub(crate) user: Arc<str>,
    pub(crate) log: Arc<RunLog>,
    pub(crate) drive: Drive,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) final_env: FinalEnv,
}

impl Run {
    /// The run's id.
    pub fn id(&self) -> RunId {
        match self {
            Run::Local(run) => run.id,
            Run::Remote(run) => run.id(),
        }
    }

    /// The user who owns the run.
    pub fn user(&self) -> &Arc<str> {
        match self {
            Run::Local(run) => &run.user,
            Run::Remote(run) => run.user(),
        }
    }

    /// Whether this process drives it.
    pub fn is_local(&self) -> bool {
        matches!(self, Run::Local(_))
    }

    fn publisher(&self) -> &Publisher {
        match self {
            Run::Local(run) => &run.log.publisher,
            Run::Remote(run) => run.publisher(),
        }
    }

    /// Subscribes to all further events.
    pub fn subscribe(&self) -> Subscription {
        self.publisher().subscribe()
    }

    /// A handle for subscribing later, while the run is driven.
    pub fn subscribe_handle(&self) -> SubscribeHandle {
        self.publisher().subscribe_handle()
    }

    /// Drives the run until it ends or waits for people.
    pub async fn drive_to_end(self) -> RunOutcome {
        match self {
            Run::Local(run) => run.drive_to_end().await,
            // Boxed, since each local run would have room for its 4 KB.
            Run::Remote(run) => Box::pin(run.follow_to_end()).await,
        }
    }

    /// Gives up a run that was started and is not stored yet.
    pub(crate) fn abandon_start(self) {
        if let Run::Local(run) = self {
            run.journal.abandon_run(run.log.lease);
        }
    }

    /// Drives the run on a task of its own.
    pub fn spawn(self) -> tokio::task::JoinHandle<RunOutcome> {
        tokio::spawn(self.drive_to_end())
    }
}

impl LocalRun {
    /// Drives the run. Its box keeps the future small: each run that waits has one.
    pub(crate) async fn drive_to_end(mut self: Box<Self>) -> RunOutcome {
        let (log, journal) = (&self.log, &self.journal);
        // A replay publishes nothing.
        let _announced = (log.mode == Mode::Live).then(|| AnnouncedText::new(&**journal, log.lease, &log.publisher));
        let _panicking =
            (log.mode == Mode::Live).then(|| AbandonOnPanic { journal: journal.clone(), lease: log.lease });
        let driven = (&mut self.drive).await;
        let LocalRun { id, log, drive, journal, final_env, .. } = *self;
        // The future of the plan leaves the final variables in `final_env`.
        drop(drive);
        crate::failpoint::hit("run_release_before");
        // Without the lease, the run may be driven elsewhere in this process. A replay never has it.
        if log.mode == Mode::Live && !log.is_released() {
            match &driven {
                DriveResult::Broken(error) => stop_driving(&*journal, log.lease, error),
                DriveResult::Finished | DriveResult::Suspended => journal.release_run(log.lease),
                DriveResult::Asleep(until) => journal.put_to_sleep(log.lease, *until),
            }
        }
        let records = log.stored_records();
        let (state, illegal) = RunState::up_to_illegal(records.iter().map(|record| &**record));
        let broken = if let DriveResult::Broken(error) = driven { Some(error) } else { illegal.map(RunError::from) };
        RunOutcome { id, state, records, broken, env: final_env.take_env() }
    }
}

/// Gives a run up if driving it panics, so that recovery finds it, and quarantines it if it panics again.
struct AbandonOnPanic {
    journal: Arc<dyn Journal>,
    lease: Lease,
}

impl Drop for AbandonOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.journal.abandon_run(self.lease);
        }
    }
}

/// The text of a run, offered to other processes while this one drives it.
struct AnnouncedText {
    relay: Option<Arc<dyn TextRelay>>,
    lease: Lease,
}

impl AnnouncedText {
    fn new(journal: &dyn Journal, lease: Lease, publisher: &Publisher) -> AnnouncedText {
        let relay = journal.text_relay();
        if let Some(relay) = &relay {
            relay.announce_run(lease, publisher.subscribe_handle());
        }
        AnnouncedText { relay, lease }
    }
}

impl Drop for AnnouncedText {
    fn drop(&mut self) {
        if let Some(relay) = &self.relay {
            relay.withdraw_run(self.lease);
        }
    }
}

/// Gives a run up because of an error: for good, or until recovery finds it.
pub(crate) fn stop_driving(journal: &dyn Journal, lease: Lease, error: &RunError) {
    match error.is_outage() {
        true => journal.abandon_run(lease),
        false => journal.release_run(lease),
    }
}
