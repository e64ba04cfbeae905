//! The write connection and the queue of its thread. A commit contains all jobs that were queued during the previous one,
//! so that many runs share one wait for the disk.
//!
//! While another program has locked the database, or it cannot be reached, jobs wait, each as long as its caller can.
//!
//! If commits do not wait for the disk, most of them do not need the thread (`commit_desk.rs`).
//!
//! Checkpoints (moving the log into the database) wait for the disk under every durability except `off`. The thread
//! runs them concurrently with commits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, LeaseState, MAX_OUTAGE_MS};
use tokio::sync::oneshot;

use crate::commit_desk::CommitDesk;
use crate::commit_thread::CommitThread;
use crate::db::sqlite::Sqlite;
use crate::db::{DbConnection, WriteJob};
use crate::error::StoreError;

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

/// The way to the writer thread.
pub(crate) struct WriterQueue {
    commands: Sender<WriterCommand>,
    desk: Arc<CommitDesk>,
}

impl WriterQueue {
    /// Hands jobs to the thread. If the thread is gone, their callers hear it.
    pub(crate) fn send_jobs(&self, jobs: Vec<QueuedJob>) {
        self.desk.queued.fetch_add(jobs.len(), Ordering::AcqRel);
        jobs.into_iter().for_each(|job| drop(self.commands.send(WriterCommand::Commit(job))));
    }

    /// Hands the gathered jobs to the thread, and then `last`.
    pub(crate) fn send_gathered(&self, last: Option<QueuedJob>) {
        let mut gathered = self.desk.lock_gathered();
        gathered.extend(last);
        self.send_jobs(std::mem::take(&mut *gathered));
    }

    /// Requests a checkpoint. If the thread is gone, the store is closed.
    pub(crate) fn request_checkpoint(&self) {
        let _ = self.commands.send(WriterCommand::Checkpoint);
    }
}

/// Handle of the writer thread.
pub(crate) struct Writer {
    /// `None` while the writer is dropped. Nobody else holds it for longer than it takes to send.
    queue: Option<Arc<WriterQueue>>,
    thread: Option<JoinHandle<()>>,
    desk: Arc<CommitDesk>,
    is_quick: bool,
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
        let (commands, orders) = channel();
        let desk = Arc::new(CommitDesk::new(connection));
        let shared = desk.clone();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || CommitThread::new(shared, background, orders).run())
            .map_err(|source| StoreError::Thread { purpose: "writes to the database", source })?;
        let queue = Arc::new(WriterQueue { commands, desk: desk.clone() });
        if desk.checkpoints.is_log_large() {
            queue.request_checkpoint();
        }
        Ok(Writer { queue: Some(queue), thread: Some(thread), desk, is_quick })
    }

    pub(crate) fn commit_count(&self) -> u64 {
        self.desk.checkpoints.commit_count()
    }

    /// Uses the connection between two commits.
    pub(crate) fn with_connection<T>(&self, use_it: impl FnOnce(&DbConnection) -> T) -> T {
        use_it(&self.desk.lock_connection())
    }

    /// Commits a job without the thread if that is fast, otherwise queues it. Then reads what became of the lease.
    pub(crate) fn append_job(
        &self,
        mut job: WriteJob,
        max_wait: Duration,
        read_lease: impl FnOnce() -> LeaseState + Send + 'static,
    ) -> AppendResult {
        match self.is_quick.then(|| self.desk.commit_alone(&mut job, self.queue.as_deref())).flatten() {
            Some(result) => AppendResult::Done(result.map(|()| read_lease()).map_err(Into::into)),
            None => {
                let queued = self.queue_job(job, max_wait, self.is_quick);
                AppendResult::Later(Box::pin(async move { queued.await.map(|()| read_lease()) }))
            }
        }
    }

    /// Queues a job. The future completes when the job is committed or has failed.
    pub(crate) fn submit_job(&self, job: WriteJob) -> BoxFuture<'static, Result<(), StoreError>> {
        self.queue_job(job, MAX_REQUEST_WAIT, false)
    }

    /// Gathers a job with others if `may_gather`, or hands it to the thread.
    fn queue_job<E: From<StoreError>>(
        &self,
        job: WriteJob,
        max_wait: Duration,
        may_gather: bool,
    ) -> BoxFuture<'static, Result<(), E>> {
        let (done, committed) = oneshot::channel();
        let job = QueuedJob { job, done, give_up_at: Instant::now() + max_wait };
        if let Some(queue) = &self.queue {
            match may_gather {
                true => self.desk.gather_job(job, queue).unwrap_or_else(|job| queue.send_gathered(Some(job))),
                false => queue.send_gathered(Some(job)),
            }
        }
        // Without the thread, the job is gone.
        Box::pin(async move { committed.await.unwrap_or(Err(StoreError::Closed)).map_err(E::from) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.send_gathered(None);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
