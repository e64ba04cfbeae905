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

use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, LeaseState};
use tokio::sync::oneshot;

use crate::db::sqlite::Sqlite;
use crate::db::{DbConnection, WriteJob};
use crate::error::StoreError;

/// Number of commits between two checkpoints: a few megabytes of log.
const COMMITS_PER_CHECKPOINT: u64 = 1000;

struct QueuedJob {
    job: WriteJob,
    done: oneshot::Sender<Result<(), StoreError>>,
}

enum WriterCommand {
    Commit(QueuedJob),
    Checkpoint,
}

/// Handle of the writer thread.
pub(crate) struct Writer {
    queue: Option<Sender<WriterCommand>>,
    thread: Option<JoinHandle<()>>,
    desk: Arc<CommitDesk>,
    is_quick: bool,
}

/// The write connection; one thread at a time commits on it.
struct CommitDesk {
    connection: Mutex<DbConnection>,
    /// Jobs that are queued or being committed by the thread. While there are any, no job may overtake them.
    queued: AtomicUsize,
    commits: AtomicU64,
}

impl Writer {
    /// Starts the thread. `background` is a separate connection for checkpoints. `is_quick` states that a commit does
    /// not wait for the disk.
    pub(crate) fn start_thread(
        connection: DbConnection,
        background: Option<Sqlite>,
        is_quick: bool,
    ) -> Result<Writer, StoreError> {
        let (queue, orders) = channel();
        let connection = Mutex::new(connection);
        let desk = Arc::new(CommitDesk { connection, queued: AtomicUsize::new(0), commits: AtomicU64::new(0) });
        let shared = desk.clone();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || run_writer(&shared, background.as_ref(), &orders))
            .map_err(|source| StoreError::Thread { purpose: "writes to the database", source })?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), desk, is_quick })
    }

    pub(crate) fn commit_count(&self) -> u64 {
        self.desk.commits.load(Ordering::Relaxed)
    }

    /// Uses the connection between two commits.
    pub(crate) fn with_connection<T>(&self, use_it: impl FnOnce(&DbConnection) -> T) -> T {
        use_it(&self.desk.lock_connection())
    }

    /// Commits a job at once if that is fast, otherwise queues it. Then reads what became of the lease.
    pub(crate) fn append_job(
        &self,
        mut job: WriteJob,
        read_lease: impl FnOnce() -> LeaseState + Send + 'static,
    ) -> AppendResult {
        match self.is_quick.then(|| self.desk.commit_now(&mut job)).flatten() {
            Some(result) => {
                if self.commit_count().is_multiple_of(COMMITS_PER_CHECKPOINT)
                    && let Some(queue) = &self.queue
                {
                    // If the thread is gone, the store is closed.
                    let _ = queue.send(WriterCommand::Checkpoint);
                }
                AppendResult::Done(result.map(|()| read_lease()).map_err(Into::into))
            }
            None => {
                let queued = self.queue_job(job);
                AppendResult::Later(Box::pin(async move { queued.await.map(|()| read_lease()) }))
            }
        }
    }

    /// Queues a job. The future completes when the job is committed or has failed.
    pub(crate) fn submit_job(&self, job: WriteJob) -> BoxFuture<'static, Result<(), StoreError>> {
        self.queue_job(job)
    }

    fn queue_job<E: From<StoreError>>(&self, job: WriteJob) -> BoxFuture<'static, Result<(), E>> {
        let (done, committed) = oneshot::channel();
        self.desk.queued.fetch_add(1, Ordering::AcqRel);
        let sent =
            self.queue.as_ref().is_some_and(|queue| queue.send(WriterCommand::Commit(QueuedJob { job, done })).is_ok());
        Box::pin(async move {
            if !sent {
                return Err(StoreError::Closed.into());
            }
            committed.await.unwrap_or(Err(StoreError::Closed)).map_err(E::from)
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

impl CommitDesk {
    fn lock_connection(&self) -> MutexGuard<'_, DbConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a job on the caller's thread; `None` if it would have to wait for another job or process.
    fn commit_now(&self, job: &mut WriteJob) -> Option<Result<(), StoreError>> {
        let connection = self.connection.try_lock().ok()?;
        if self.queued.load(Ordering::Acquire) > 0 {
            return None;
        }
        let committed = connection.try_transaction_now(job)?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        Some(committed)
    }
}

fn run_writer(desk: &CommitDesk, background: Option<&Sqlite>, orders: &Receiver<WriterCommand>) {
    while let Ok(first) = orders.recv() {
        let mut batch = Vec::new();
        let mut is_due = false;
        for order in std::iter::once(first).chain(orders.try_iter()) {
            match order {
                WriterCommand::Commit(queued) => batch.push(queued),
                WriterCommand::Checkpoint => is_due = true,
            }
        }
        if !batch.is_empty() {
            let results = commit_batch(&desk.lock_connection(), &mut batch);
            desk.queued.fetch_sub(batch.len(), Ordering::AcqRel);
            let count = desk.commits.fetch_add(1, Ordering::Relaxed) + 1;
            is_due |= count.is_multiple_of(COMMITS_PER_CHECKPOINT);
            for (queued, result) in batch.into_iter().zip(results) {
                // The caller may be gone; the commit is valid anyway.
                let _ = queued.done.send(result);
            }
        }
        if is_due
            && background.is_some_and(Sqlite::run_checkpoint)
            && let DbConnection::Sqlite(sqlite) = &*desk.lock_connection()
        {
            sqlite.truncate_log();
        }
    }
}

/// Commits a batch and returns the result of each job.
fn commit_batch(connection: &DbConnection, batch: &mut [QueuedJob]) -> Vec<Result<(), StoreError>> {
    let mut jobs: Vec<&mut WriteJob> = batch.iter_mut().map(|queued| &mut queued.job).collect();
    match connection.run_transaction(&mut jobs) {
        Ok(()) => jobs.iter().map(|_| Ok(())).collect(),
        Err(error) if jobs.len() == 1 => vec![Err(error)],
        // At least one job fails. Committed one by one, only those that fail are refused.
        Err(_) => jobs.iter_mut().map(|job| connection.run_transaction(&mut [&mut **job])).collect(),
    }
}
