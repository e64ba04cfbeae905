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
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::Signal;
use serde::{Deserialize, Serialize};

use crate::db::{DbConnection, DbSource};
use crate::error::StoreError;

/// Interval at which signals are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Mailboxes of the runs that this process drives.
pub(crate) struct Mailboxes {
    source: DbSource,
    state: Mutex<MailboxState>,
}

#[derive(Default)]
struct MailboxState {
    boxes: HashMap<RunId, Mailbox>,
    seen: HashSet<i64>,
    is_watching: bool,
}

#[derive(Default)]
struct Mailbox {
    signals: Vec<Signal>,
    waker: Option<Waker>,
}

impl Mailboxes {
    pub(crate) fn new(source: DbSource) -> Mailboxes {
        Mailboxes { source, state: Mutex::default() }
    }

    fn lock_state(&self) -> MutexGuard<'_, MailboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next signals of a run.
    pub(crate) fn next_signals(self: Arc<Mailboxes>, run: RunId) -> BoxFuture<'static, Vec<Signal>> {
        self.start_polling();
        Box::pin(poll_fn(move |context| {
            let mut state = self.lock_state();
            let mailbox = state.boxes.entry(run).or_default();
            if mailbox.signals.is_empty() {
                mailbox.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut mailbox.signals))
        }))
    }

    /// Removes the mailbox of a run that is no longer driven.
    pub(crate) fn close_mailbox(&self, run: RunId) {
        self.lock_state().boxes.remove(&run);
    }

    fn start_polling(self: &Arc<Mailboxes>) {
        let mut state = self.lock_state();
        if state.is_watching {
            return;
        }
        let mailboxes = Arc::downgrade(self);
        let watcher = std::thread::Builder::new().name("store-signals".into());
        state.is_watching = watcher.spawn(move || poll_signals(&mailboxes)).is_ok();
    }

    /// Polls once; `false` if the database cannot be read.
    fn deliver_signals(&self, connection: &DbConnection) -> bool {
        let Ok(found) = read_signals(connection) else { return false };
        let mut woken = Vec::new();
        let mut state = self.lock_state();
        let state = &mut *state;
        for (id, run, signal) in found {
            let Some(mailbox) = state.boxes.get_mut(&run) else { continue };
            if state.seen.insert(id) {
                mailbox.signals.push(signal);
                woken.extend(mailbox.waker.take());
            }
        }
        woken.into_iter().for_each(Waker::wake);
        true
    }
}

fn poll_signals(mailboxes: &Weak<Mailboxes>) {
    let mut connection = None;
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let Some(mailboxes) = mailboxes.upgrade() else { return };
        if mailboxes.lock_state().boxes.is_empty() {
            continue;
        }
        if connection.is_none() {
            connection = mailboxes.source.connect().ok();
        }
        let is_fine = connection.as_ref().is_some_and(|connection| mailboxes.deliver_signals(connection));
        if !is_fine {
            connection = None;
        }
    }
}

fn read_signals(connection: &DbConnection) -> Result<Vec<(i64, RunId, Signal)>, StoreError> {
    let rows = connection.query_rows("select id, run, body from signal order by id", &[], |row| {
        let (run, body): (String, String) = (row.get(1)?, row.get(2)?);
        let (run, signal) = (RunId::parse(&run), decode_signal(&body));
        Ok((row.get::<i64>(0)?, run, signal))
    })?;
    Ok(rows.into_iter().filter_map(|(id, run, signal)| Some((id, run?, signal?))).collect())
}

/// A signal in its stored form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredSignal {
    Cancel { by: String },
    Answer { path: Path, value: Value, by: String },
    Resolve { path: Path, how: Resolution, by: String },
}

pub(crate) fn encode_signal(signal: Signal) -> Result<String, serde_json::Error> {
    serde_json::to_string(&match signal {
        Signal::Cancel { by } => StoredSignal::Cancel { by },
        Signal::Answer { path, value, by } => StoredSignal::Answer { path, value, by },
        Signal::Resolve { path, how, by } => StoredSignal::Resolve { path, how, by },
    })
}

fn decode_signal(body: &str) -> Option<Signal> {
    Some(match serde_json::from_str(body).ok()? {
        StoredSignal::Cancel { by } => Signal::Cancel { by },
        StoredSignal::Answer { path, value, by } => Signal::Answer { path, value, by },
        StoredSignal::Resolve { path, how, by } => Signal::Resolve { path, how, by },
    })
}
