//! The write connection and its thread. A commit contains all jobs that were queued during the previous one, so that
//! many runs share one wait for the disk.
//!
//! If commits do not wait for the disk, a commit is faster than waking the thread and being woken by it. A job that
//! finds the queue empty is then committed on the caller's thread.
//!
//! Checkpoints (moving the log into the database) wait for the disk under every durability except `off`. The thread
//! runs them concurrently with commits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_runtime::effects::Boxed;
use flowloom_runtime::journal::Append;
use tokio::sync::oneshot;

use crate::db::sqlite::Sqlite;
use crate::db::{Connection, Job};

/// Number of commits between two checkpoints: a few megabytes of log.
const CHECKPOINT_EVERY: u64 = 1000;

struct Queued {
    job: Job,
    done: oneshot::Sender<Result<(), StepError>>,
}

enum Order {
    Commit(Queued),
    Checkpoint,
}

/// Handle of the writer thread.
pub(crate) struct Writer {
    queue: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    desk: Arc<Desk>,
    is_quick: bool,
}

/// The write connection; one thread at a time commits on it.
struct Desk {
    connection: Mutex<Connection>,
    /// Jobs that are queued or being committed by the thread. While there are any, no job may overtake them.
    queued: AtomicUsize,
    commits: AtomicU64,
}

impl Writer {
    /// Starts the thread. `background` is a separate connection for checkpoints. `is_quick` states that a commit does
    /// not wait for the disk.
    pub(crate) fn start(
        connection: Connection,
        background: Option<Sqlite>,
        is_quick: bool,
    ) -> Result<Writer, StepError> {
        let (queue, orders) = channel();
        let connection = Mutex::new(connection);
        let desk = Arc::new(Desk { connection, queued: AtomicUsize::new(0), commits: AtomicU64::new(0) });
        let shared = desk.clone();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || write(&shared, background.as_ref(), &orders))
            .map_err(|error| {
                StepError::new(
                    Code::StoreFailed,
                    format!("cannot start the thread that writes to the database: {error}"),
                )
            })?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), desk, is_quick })
    }

    pub(crate) fn commits(&self) -> u64 {
        self.desk.commits.load(Ordering::Relaxed)
    }

    /// Uses the connection between two commits.
    pub(crate) fn between<T>(&self, use_it: impl FnOnce(&Connection) -> T) -> T {
        use_it(&self.desk.connection())
    }

    /// Commits a job at once if that is fast, otherwise queues it.
    pub(crate) fn append(&self, mut job: Job) -> Append {
        match self.is_quick.then(|| self.desk.commit_now(&mut job)).flatten() {
            Some(result) => {
                if self.commits().is_multiple_of(CHECKPOINT_EVERY)
                    && let Some(queue) = &self.queue
                {
                    // If the thread is gone, the store is closed.
                    let _ = queue.send(Order::Checkpoint);
                }
                Append::Done(result)
            }
            None => Append::Later(self.submit(job)),
        }
    }

    /// Queues a job. The future completes when the job is committed or has failed.
    pub(crate) fn submit(&self, job: Job) -> Boxed<'static, Result<(), StepError>> {
        let (done, committed) = oneshot::channel();
        self.desk.queued.fetch_add(1, Ordering::AcqRel);
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(Order::Commit(Queued { job, done })).is_ok());
        Box::pin(async move {
            let gone = || StepError::new(Code::StoreFailed, "the database is closed");
            if !sent {
                return Err(gone());
            }
            committed.await.unwrap_or_else(|_| Err(gone()))
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a job on the caller's thread; `None` if it would have to wait for another job or process.
    fn commit_now(&self, job: &mut Job) -> Option<Result<(), StepError>> {
        let connection = self.connection.try_lock().ok()?;
        if self.queued.load(Ordering::Acquire) > 0 {
            return None;
        }
        let committed = connection.transact_at_once(job)?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Some(committed.map_err(StepError::from))
    }
}

fn write(desk: &Desk, background: Option<&Sqlite>, orders: &Receiver<Order>) {
    while let Ok(first) = orders.recv() {
        let mut batch = Vec::new();
        let mut is_due = false;
        for order in std::iter::once(first).chain(orders.try_iter()) {
            match order {
                Order::Commit(queued) => batch.push(queued),
                Order::Checkpoint => is_due = true,
            }
        }
        if !batch.is_empty() {
            let results = commit(&desk.connection(), &mut batch);
            desk.queued.fetch_sub(batch.len(), Ordering::AcqRel);
            let count = desk.commits.fetch_add(1, Ordering::Relaxed) + 1;
            is_due |= count.is_multiple_of(CHECKPOINT_EVERY);
            for (queued, result) in batch.into_iter().zip(results) {
                // The caller may be gone; the commit is valid anyway.
                let _ = queued.done.send(result);
            }
        }
        if is_due
            && background.is_some_and(Sqlite::checkpoint)
            && let Connection::Sqlite(sqlite) = &*desk.connection()
        {
            sqlite.truncate();
        }
    }
}

/// Commits a batch and returns the result of each job.
fn commit(connection: &Connection, batch: &mut [Queued]) -> Vec<Result<(), StepError>> {
    let mut jobs: Vec<&mut Job> = batch.iter_mut().map(|queued| &mut queued.job).collect();
    match connection.transact(&mut jobs) {
        Ok(()) => jobs.iter().map(|_| Ok(())).collect(),
        Err(error) if jobs.len() == 1 => vec![Err(error.into())],
        // At least one job fails. Committed one by one, only those that fail are refused.
        Err(_) => jobs.iter_mut().map(|job| Ok(connection.transact(&mut [&mut **job])?)).collect(),
    }
}
