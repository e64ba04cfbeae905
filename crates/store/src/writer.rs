//! The write connection and the queue of its thread. A commit contains all jobs that were queued during the previous one,
//! so that many runs share one wait for the disk.
//!
//! While another program has locked the database, or it cannot be reached, jobs wait, each as long as its caller can.
//!
//! If commits do not wait for the disk, a commit is faster than waking the thread and being woken by it. A job that
//! finds the queue empty is then committed on the caller's thread.
//!
//! Checkpoints (moving the log into the database) wait for the disk under every durability except `off`. The thread
//! runs them concurrently with commits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, LeaseState, MAX_OUTAGE_MS};
use tokio::sync::oneshot;

use crate::commit_thread::CommitThread;
use crate::db::sqlite::Sqlite;
use crate::db::{DbConnection, WriteJob};
use crate::error::StoreError;

/// Number of commits between two checkpoints: a few megabytes of log.
pub(crate) const COMMITS_PER_CHECKPOINT: u64 = 1000;

/// How long a job waits for the database if someone waits for its result.
pub(crate) const MAX_REQUEST_WAIT: Duration = Duration::from_secs(5);

/// How long an append of a run in progress waits for the database.
pub(crate) const MAX_APPEND_WAIT: Duration = Duration::from_millis(MAX_OUTAGE_MS);

/// A job of the thread.
pub(crate) struct QueuedJob {
    pub(crate) job: WriteJob,
    pub(crate) done: oneshot::Sender<Result<(), StoreError>>,
    /// Until when the job waits for the database.
    pub(crate) give_up_at: Instant,
}

/// What the thread does.
pub(crate) enum WriterCommand {
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
pub(crate) struct CommitDesk {
    connection: Mutex<DbConnection>,
    /// Jobs that are queued or being committed by the thread. While there are any, no job may overtake them.
    pub(crate) queued: AtomicUsize,
    pub(crate) commits: AtomicU64,
}

impl Writer {
    /// Starts the thread. `background` is a separate connection for checkpoints. `is_quick` states that a commit does
    /// not wait for the disk.
    pub(crate) fn start_thread(
        connection: DbConnection,
        background: Option<Sqlite>,
        is_quick: bool,
    ) -> Result<Writer, StoreError> {
        if let DbConnection::Sqlite(sqlite) = &connection {
            sqlite.shorten_busy_timeout()?;
        }
        let (queue, orders) = channel();
        let connection = Mutex::new(connection);
        let desk = Arc::new(CommitDesk { connection, queued: AtomicUsize::new(0), commits: AtomicU64::new(0) });
        let shared = desk.clone();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || CommitThread::new(shared, background, orders).run())
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
        max_wait: Duration,
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
                let queued = self.queue_job(job, max_wait);
                AppendResult::Later(Box::pin(async move { queued.await.map(|()| read_lease()) }))
            }
        }
    }

    /// Queues a job. The future completes when the job is committed or has failed.
    pub(crate) fn submit_job(&self, job: WriteJob) -> BoxFuture<'static, Result<(), StoreError>> {
        self.queue_job(job, MAX_REQUEST_WAIT)
    }

    fn queue_job<E: From<StoreError>>(&self, job: WriteJob, max_wait: Duration) -> BoxFuture<'static, Result<(), E>> {
        let (done, committed) = oneshot::channel();
        self.desk.queued.fetch_add(1, Ordering::AcqRel);
        let queued = QueuedJob { job, done, give_up_at: Instant::now() + max_wait };
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(WriterCommand::Commit(queued)).is_ok());
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
    pub(crate) fn lock_connection(&self) -> MutexGuard<'_, DbConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a job on the caller's thread; `None` if it would have to wait for another job or process.
    fn commit_now(&self, job: &mut WriteJob) -> Option<Result<(), StoreError>> {
        let connection = self.connection.try_lock().ok()?;
        if self.queued.load(Ordering::Acquire) > 0 {
            return None;
        }
        flowloom_runtime::failpoint::hit("commit_now_before");
        let committed = connection.try_transaction_now(job)?;
        flowloom_runtime::failpoint::hit("commit_now_after");
        self.commits.fetch_add(1, Ordering::Relaxed);
        Some(committed)
    }
}
