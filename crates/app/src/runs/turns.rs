//! Turns of conversations: a thread has one turn at a time, and keeps the messages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use flowloom_core::event::MemoryWrite;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::status::Status;
use flowloom_runtime::journal::thread_namespace;
use flowloom_store::{RunFilter, RunRow, Store, StoreError};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::finished::read_outcome;
use super::supervisor::RunSupervisor;
use crate::error::AppError;
use crate::runs::stored::StoredRuns;

/// Maximum number of turns of a thread that are read for one request. A thread rarely has more than one that has not ended.
const MAX_OPEN_TURNS: u32 = 100;

/// The newest turns of a thread that have a status. Fails if the database cannot be read.
fn list_turns(store: &Store, user: &str, key: &str, status: Status) -> Result<Vec<RunRow>, StoreError> {
    store.list_runs_matching(&RunFilter {
        user: Some(user.to_owned()),
        thread_key: Some(key.to_owned()),
        status: Some(status.name().to_owned()),
        limit: MAX_OPEN_TURNS,
        ..RunFilter::default()
    })
}

/// The turns of a thread that wait for a person or for a time, the newest first. Fails with `ThreadBusy` if a turn has an
/// answer, and waits for a process with its configuration.
pub fn list_waiting_turns(store: &Store, user: &str, key: &str) -> Result<Vec<RunId>, AppError> {
    if list_turns(store, user, key, Status::Interrupted)?.iter().any(|row| row.is_left) {
        return Err(AppError::ThreadBusy);
    }
    Ok(list_turns(store, user, key, Status::Waiting)?.iter().map(|row| row.id).collect())
}

/// The turns of a thread that wait or need a decision: a caller that replaces their messages cancels them. Fails if the
/// database cannot be read.
pub fn list_open_turns(store: &Store, user: &str, key: &str) -> Result<Vec<RunId>, StoreError> {
    let mut turns = Vec::new();
    for status in [Status::Waiting, Status::Uncertain, Status::Quarantined, Status::Interrupted] {
        let is_open = |row: &RunRow| row.is_left || status != Status::Interrupted;
        turns.extend(list_turns(store, user, key, status)?.into_iter().filter(is_open).map(|row| row.id));
    }
    Ok(turns)
}

/// The threads with a turn in progress, by user and memory key.
pub struct BusyThreads {
    runs: StoredRuns,
    live: Arc<RunSupervisor>,
    taken: Mutex<HashMap<(String, String), HeldThread>>,
}

/// A thread with a turn in progress.
struct HeldThread {
    /// The run of the turn, once it was started.
    run: Option<RunId>,
    /// Closed when the turn is over.
    turn_ended: watch::Receiver<()>,
}

impl BusyThreads {
    /// No thread has a turn under way yet.
    pub fn new(runs: StoredRuns, live: Arc<RunSupervisor>) -> BusyThreads {
        BusyThreads { runs, live, taken: Mutex::default() }
    }

    /// Waits for an ended turn of the thread that still has to store its messages.
    pub async fn wait_until_stored(&self, user: &str, key: &str) {
        let at = (user.to_owned(), key.to_owned());
        let ending = self
            .lock()
            .get(&at)
            .filter(|taken| taken.run.is_some_and(|run| !self.live.is_live(run)))
            .map(|taken| taken.turn_ended.clone());
        if let Some(mut ending) = ending {
            // An error means that the sender was dropped, which ends the turn.
            while ending.changed().await.is_ok() {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), HeldThread>> {
        self.taken.lock()
    }
}

/// A turn in progress. Dropping it releases the thread.
pub struct ThreadTurn {
    busy: Arc<BusyThreads>,
    at: (String, String),
    _over: watch::Sender<()>,
}

impl ThreadTurn {
    /// Acquires a thread. Waits for an ended turn that still has to store its messages; fails with `RunOwned` if a turn
    /// is running.
    pub async fn acquire(busy: &Arc<BusyThreads>, user: &str, key: &str) -> Result<ThreadTurn, AppError> {
        let at = (user.to_owned(), key.to_owned());
        loop {
            let mut before = match busy.lock().entry(at.clone()) {
                Entry::Vacant(free) => {
                    let (over, taken) = watch::channel(());
                    free.insert(HeldThread { run: None, turn_ended: taken });
                    return Ok(ThreadTurn { busy: busy.clone(), at, _over: over });
                }
                Entry::Occupied(taken) => match taken.get().run {
                    Some(run) if !busy.live.is_live(run) => taken.get().turn_ended.clone(),
                    _ => {
                        return Err(AppError::ThreadBusy);
                    }
                },
            };
            // An error means that the sender was dropped, which ends the turn.
            while before.changed().await.is_ok() {}
        }
    }

    /// Holds the thread until the run is over. A waiting run has not stored its messages, so this does.
    pub fn hold_until_end(self, run: RunId) {
        if let Some(taken) = self.busy.lock().get_mut(&self.at) {
            taken.run = Some(run);
        }
        tokio::spawn(async move {
            self.busy.live.wait_for_run(run).await;
            if let Err(error) = self.store_messages(run).await {
                tracing::warn!("cannot store the thread of the run {run}: {}", error);
            }
        });
    }

    async fn store_messages(&self, run: RunId) -> Result<(), AppError> {
        let runs = &self.busy.runs;
        let opened = runs.open_run_by_id(run).await?;
        if opened.state().status != Status::Waiting {
            return Ok(());
        }
        let Some(thread) = &opened.plan.thread else { return Ok(()) };
        let past = read_outcome(runs, &opened).await?;
        let messages = serde_json::to_string(past.env.find_thread(thread).messages()).unwrap_or_default();
        let Ok(messages) = parse_value(&messages) else { return Ok(()) };
        let write = MemoryWrite { key: self.at.1.clone(), value: Some(messages) };
        let namespace = thread_namespace(&runs.store.owner_of(&self.at.0));
        Ok(runs.store.write_memory(namespace, vec![write]).await?)
    }
}

impl Drop for ThreadTurn {
    fn drop(&mut self) {
        self.busy.lock().remove(&self.at);
    }
}
