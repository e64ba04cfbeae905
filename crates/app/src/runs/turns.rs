//! Turns of conversations: a thread has one turn at a time, and keeps what was said.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::MemoryWrite;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_formats::present;
use flowloom_runtime::journal::thread_holder;
use tokio::sync::watch;

use super::finished::recorded;
use super::supervisor::Live;
use crate::engines::App;

/// The threads with a turn in progress, by user and memory key.
pub struct Busy {
    app: Arc<App>,
    live: Arc<Live>,
    taken: Mutex<HashMap<(String, String), Taken>>,
}

/// A thread with a turn in progress.
struct Taken {
    /// The run of the turn, once it was started.
    run: Option<RunId>,
    /// Closed when the turn is over.
    over: watch::Receiver<()>,
}

impl Busy {
    /// No thread has a turn under way yet.
    pub fn new(app: Arc<App>, live: Arc<Live>) -> Busy {
        Busy { app, live, taken: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(String, String), Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn in progress. Dropping it releases the thread.
pub struct Turn {
    busy: Arc<Busy>,
    at: (String, String),
    _over: watch::Sender<()>,
}

impl Turn {
    /// Acquires a thread. Waits for an ended turn that still has to store its messages; fails with `RunOwned` if a turn
    /// is running.
    pub async fn begin(busy: &Arc<Busy>, owner: &str, key: &str) -> Result<Turn, StepError> {
        let at = (owner.to_owned(), key.to_owned());
        loop {
            let mut before = match busy.all().entry(at.clone()) {
                Entry::Vacant(free) => {
                    let (over, taken) = watch::channel(());
                    free.insert(Taken { run: None, over: taken });
                    return Ok(Turn { busy: busy.clone(), at, _over: over });
                }
                Entry::Occupied(taken) => match taken.get().run {
                    Some(run) if busy.live.control(run).is_none() => taken.get().over.clone(),
                    _ => {
                        return Err(StepError::new(
                            Code::RunOwned,
                            "the thread has a turn under way; wait for its end",
                        ));
                    }
                },
            };
            // An error means that the sender was dropped, which ends the turn.
            while before.changed().await.is_ok() {}
        }
    }

    /// Holds the thread until the run is over. A waiting run has not stored its messages, so this does.
    pub fn follow(self, run: RunId) {
        if let Some(taken) = self.busy.all().get_mut(&self.at) {
            taken.run = Some(run);
        }
        tokio::spawn(async move {
            self.busy.live.wait(run).await;
            if let Err(error) = self.keep(run).await {
                tracing::warn!("cannot store the thread of the run {run}: {}", error.message);
            }
        });
    }

    async fn keep(&self, run: RunId) -> Result<(), StepError> {
        let app = &self.busy.app;
        let opened = app.open_id(run).await?;
        if opened.state().status != Status::Waiting {
            return Ok(());
        }
        let past = recorded(app, &opened).await?;
        let presented = present(&opened.plan, &past.state, &past.env);
        let Some(said) = presented.result.get("messages").cloned() else { return Ok(()) };
        let write = MemoryWrite { key: self.at.1.clone(), value: Some(said) };
        app.store.remember(thread_holder(&self.at.0), vec![write]).await
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.busy.all().remove(&self.at);
    }
}
