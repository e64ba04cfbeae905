//! The write connection and the queue of its thread. A commit contains all jobs that were queued during the previous one,
//! so that many runs share one wait for the disk.
//!
//! While another program has locked the database, or it cannot be reached, jobs wait, each as long as its caller can.
//!
//! If commits do not wait for the disk, most of them do not need the thread (`commit_desk.rs`).
//!
//! Checkpoints (moving the log into the database) wait for the disk under every durability except `off`. The thread
//! runs them concurrently with commits.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, LeaseState, MAX_OUTAGE_MS};
use tokio::sync::oneshot;

use crate::commit_desk::CommitDesk;
use crate::commit_thread::CommitThread;
use crate::db::{DbConnection, WriteJob};
use crate::error::StoreError;

/// How long a job waits for the database if someone waits for its result.
pub(crate) const MAX_REQUEST_WAIT: Duration = Duration::from_secs(5);

/// How long an append of a run in progress waits for the database.
pub(crate) const MAX_APPEND_WAIT: Duration = Duration::from_millis(MAX_OUTAGE_MS);

/// How much longer a caller waits than the thread, which may know more of a failure.
const ANSWER_GRACE: Duration = Duration::from_millis(200);

/// How a job is queued.
struct JobTerms {
    /// How long it waits for the database.
    max_wait: Duration,
    /// Whether it is gathered with others.
    may_gather: bool,
    /// Whether the caller waits on if the job may be stored.
    needs_outcome: bool,
}

impl JobTerms {
    /// A job on its own, whose caller waits for so long.
    fn wait_at_most(max_wait: Duration) -> JobTerms {
        JobTerms { max_wait, may_gather: false, needs_outcome: false }
    }
}

/// A job of the thread.
pub(crate) struct QueuedJob {
    pub(crate) job: WriteJob,
    pub(crate) done: oneshot::Sender<Result<(), StoreError>>,
    /// Until when the job waits for the database.
    pub(crate) give_up_at: Instant,
    pub(crate) progress: Arc<JobProgress>,
    /// Whether the caller waits on if the job may be stored: a run that gives up a job that is stored later would be
    /// `uncertain`.
    needs_outcome: bool,
}

impl QueuedJob {
    /// Whether the job waits longer for the database.
    pub(crate) fn may_wait(&self, now: Instant) -> bool {
        // What may be stored is looked up for as long again.
        let is_looked_up = self.needs_outcome && self.progress.is_started();
        now < self.give_up_at + if is_looked_up { MAX_APPEND_WAIT } else { Duration::ZERO }
    }
}

/// Whether a job may be stored: the answer to its caller if a server hangs during the job, or during one before it.
#[derive(Default)]
pub(crate) struct JobProgress(AtomicU8);

impl JobProgress {
    const STATE_WAITING: u8 = 0;
    const STATE_STARTED: u8 = 1;
    const STATE_ABANDONED: u8 = 2;

    /// Starts to store the job; `false` if its caller has given it up.
    pub(crate) fn start(&self) -> bool {
        let started =
            self.0.compare_exchange(Self::STATE_WAITING, Self::STATE_STARTED, Ordering::AcqRel, Ordering::Acquire);
        started.is_ok() || started == Err(Self::STATE_STARTED)
    }

    fn is_started(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::STATE_STARTED
    }

    /// Notes that the job is certainly not stored yet.
    pub(crate) fn set_back(&self) {
        let _ = self.0.compare_exchange(Self::STATE_STARTED, Self::STATE_WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Gives the job up; `false` if it may be stored.
    fn abandon_job(&self) -> bool {
        self.0.compare_exchange(Self::STATE_WAITING, Self::STATE_ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A command to the writer thread.
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
    /// Hands jobs to the thread. If the thread is gone, their callers receive `StoreError::Closed`.
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
    /// `None` while the writer is dropped. No lock of it lasts longer than one send.
    queue: Option<Arc<WriterQueue>>,
    thread: Option<JoinHandle<()>>,
    desk: Arc<CommitDesk>,
    is_quick: bool,
    /// The server that commits, for messages; `None` if there is none that could hang.
    server: Option<Arc<str>>,
}

impl Writer {
    /// Starts the thread. `background` is a separate connection for checkpoints. `is_quick` states that a commit does
    /// not wait for the disk.
    pub(crate) fn start_thread(
        connection: DbConnection,
        background: Option<DbConnection>,
        is_quick: bool,
    ) -> Result<Writer, StoreError> {
        connection.prepare_commits()?;
        let server = connection.server_name();
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
        Ok(Writer { queue: Some(queue), thread: Some(thread), desk, is_quick, server })
    }

    pub(crate) fn commit_count(&self) -> u64 {
        self.desk.checkpoints.commit_count()
    }

    /// The server that commits, for messages; `None` if there is none that could hang.
    pub(crate) fn server_name(&self) -> Option<Arc<str>> {
        self.server.clone()
    }

    /// Whether an outage is not over.
    pub(crate) fn has_outage(&self) -> bool {
        self.desk.has_outage()
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
                let queued = self.queue_job(job, JobTerms { max_wait, may_gather: self.is_quick, needs_outcome: true });
                AppendResult::Later(Box::pin(async move { queued.await.map(|()| read_lease()) }))
            }
        }
    }

    /// Queues a job. The future completes when the job is committed or has failed.
    pub(crate) fn submit_job(&self, job: WriteJob) -> BoxFuture<'static, Result<(), StoreError>> {
        self.queue_job(job, JobTerms::wait_at_most(MAX_REQUEST_WAIT))
    }

    /// Queues a job that may take long, for example because it deletes many rows.
    pub(crate) fn submit_long_job(&self, job: WriteJob) -> BoxFuture<'static, Result<(), StoreError>> {
        self.queue_job(job, JobTerms::wait_at_most(MAX_APPEND_WAIT))
    }

    /// Gathers a job with others if it may be, or hands it to the thread.
    fn queue_job<E: From<StoreError>>(&self, job: WriteJob, terms: JobTerms) -> BoxFuture<'static, Result<(), E>> {
        let JobTerms { max_wait, may_gather, needs_outcome } = terms;
        let (done, committed) = oneshot::channel();
        let progress = Arc::new(JobProgress::default());
        let give_up_at = Instant::now() + max_wait;
        let job = QueuedJob { job, done, give_up_at, progress: progress.clone(), needs_outcome };
        if let Some(queue) = &self.queue {
            match may_gather {
                true => self.desk.gather_job(job, queue).unwrap_or_else(|job| queue.send_gathered(Some(job))),
                false => queue.send_gathered(Some(job)),
            }
        }
        let (desk, server) = (self.desk.clone(), self.server.clone());
        let caller = WaitingCaller { desk, progress, server, give_up_at, needs_outcome };
        Box::pin(async move { caller.wait_for(committed).await.map_err(E::from) })
    }
}

/// A caller who waits for a job.
struct WaitingCaller {
    desk: Arc<CommitDesk>,
    progress: Arc<JobProgress>,
    server: Option<Arc<str>>,
    give_up_at: Instant,
    needs_outcome: bool,
}

impl WaitingCaller {
    /// Waits until the job is committed or has failed. The thread cannot say so while a server hangs.
    async fn wait_for(self, committed: oneshot::Receiver<Result<(), StoreError>>) -> Result<(), StoreError> {
        // Without the thread, the job is gone.
        let mut committed = pin!(async { committed.await.unwrap_or(Err(StoreError::Closed)) });
        let Some(server) = self.server else { return committed.await };
        if let Ok(done) = tokio::time::timeout_at((self.give_up_at + ANSWER_GRACE).into(), &mut committed).await {
            return done;
        }
        let is_abandoned = self.progress.abandon_job();
        let error = StoreError::Unanswered { server, is_commit: !is_abandoned };
        self.desk.note_outage(&error);
        if !is_abandoned && self.needs_outcome { committed.await } else { Err(error) }
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
