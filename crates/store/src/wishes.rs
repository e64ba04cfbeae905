//! Signals that other processes send to a run. One thread polls for them while this process drives any runs, and each
//! run has a mailbox.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use flowloom_core::event::Resolution;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::value::Value;
use flowloom_runtime::effects::Boxed;
use flowloom_runtime::journal::Wish;
use serde::{Deserialize, Serialize};

use crate::db::{Connection, Error, Source};

/// Interval at which signals are polled.
const INTERVAL: Duration = Duration::from_millis(100);

/// Mailboxes of the runs that this process drives.
pub(crate) struct Mailboxes {
    source: Source,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    boxes: HashMap<RunId, Mailbox>,
    seen: HashSet<i64>,
    is_watching: bool,
}

#[derive(Default)]
struct Mailbox {
    wishes: Vec<Wish>,
    waker: Option<Waker>,
}

impl Mailboxes {
    pub(crate) fn new(source: Source) -> Mailboxes {
        Mailboxes { source, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next signals of a run.
    pub(crate) fn next(self: Arc<Mailboxes>, run: RunId) -> Boxed<'static, Vec<Wish>> {
        self.watch();
        Box::pin(poll_fn(move |context| {
            let mut state = self.state();
            let mailbox = state.boxes.entry(run).or_default();
            if mailbox.wishes.is_empty() {
                mailbox.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut mailbox.wishes))
        }))
    }

    /// Removes the mailbox of a run that is no longer driven.
    pub(crate) fn close(&self, run: RunId) {
        self.state().boxes.remove(&run);
    }

    fn watch(self: &Arc<Mailboxes>) {
        let mut state = self.state();
        if state.is_watching {
            return;
        }
        let mailboxes = Arc::downgrade(self);
        let watcher = std::thread::Builder::new().name("store-wishes".into());
        state.is_watching = watcher.spawn(move || look(&mailboxes)).is_ok();
    }

    /// Polls once; `false` if the database cannot be read.
    fn deliver(&self, connection: &Connection) -> bool {
        let Ok(found) = read(connection) else { return false };
        let mut woken = Vec::new();
        let mut state = self.state();
        let state = &mut *state;
        for (id, run, wish) in found {
            let Some(mailbox) = state.boxes.get_mut(&run) else { continue };
            if state.seen.insert(id) {
                mailbox.wishes.push(wish);
                woken.extend(mailbox.waker.take());
            }
        }
        woken.into_iter().for_each(Waker::wake);
        true
    }
}

fn look(mailboxes: &Weak<Mailboxes>) {
    let mut connection = None;
    loop {
        std::thread::sleep(INTERVAL);
        let Some(mailboxes) = mailboxes.upgrade() else { return };
        if mailboxes.state().boxes.is_empty() {
            continue;
        }
        if connection.is_none() {
            connection = mailboxes.source.connect().ok();
        }
        let is_fine = connection.as_ref().is_some_and(|connection| mailboxes.deliver(connection));
        if !is_fine {
            connection = None;
        }
    }
}

fn read(connection: &Connection) -> Result<Vec<(i64, RunId, Wish)>, Error> {
    let rows = connection.query("select id, run, body from wish order by id", &[], |row| {
        let (run, body): (String, String) = (row.get(1)?, row.get(2)?);
        let (run, wish) = (RunId::parse(&run), decode(&body));
        Ok((row.get::<i64>(0)?, run, wish))
    })?;
    Ok(rows.into_iter().filter_map(|(id, run, wish)| Some((id, run?, wish?))).collect())
}

/// A signal in its stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wire {
    Cancel { by: String },
    Answer { path: Path, value: Value, by: String },
    Resolve { path: Path, how: Resolution, by: String },
}

pub(crate) fn encode(wish: Wish) -> Result<String, serde_json::Error> {
    serde_json::to_string(&match wish {
        Wish::Cancel { by } => Wire::Cancel { by },
        Wish::Answer { path, value, by } => Wire::Answer { path, value, by },
        Wish::Resolve { path, how, by } => Wire::Resolve { path, how, by },
    })
}

fn decode(body: &str) -> Option<Wish> {
    Some(match serde_json::from_str(body).ok()? {
        Wire::Cancel { by } => Wish::Cancel { by },
        Wire::Answer { path, value, by } => Wish::Answer { path, value, by },
        Wire::Resolve { path, how, by } => Wish::Resolve { path, how, by },
    })
}
