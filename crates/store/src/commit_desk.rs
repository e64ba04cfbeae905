//! The write connection, and the commits that do not need the writer's thread.
//!
//! If commits do not wait for the disk, a commit is faster than waking the thread and being woken by it. A lone job is then
//! committed by its caller. As soon as several runs store at the same time, their jobs are gathered and committed together
//! when the tasks that are ready have had their turn: what a commit costs depends little on the number of its jobs.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use flowloom_runtime::failpoint;
use flowloom_runtime::metrics::{ProcessEvent, count_event};
use flowloom_runtime::outage_log::OutageLog;
use parking_lot::{Mutex, MutexGuard};

use crate::checkpoints::CheckpointSchedule;
use crate::db::{DbConnection, WriteJob};
use crate::error::StoreError;
use crate::writer::{QueuedJob, WriterQueue};

/// Number of jobs that their callers commit, after a gathered commit had one job only and before the next is gathered.
const LONE_COMMITS: u32 = 8;

/// Turns of other tasks for which a gathered commit waits until the connection is free. Then the thread waits for it.
const MAX_TURNS: usize = 100;

/// Maximum number of turns in which a gathered commit waits for further jobs. It stops after a turn that adds none.
const MAX_GROWING_TURNS: usize = 4;

/// The write connection; one thread at a time commits on it.
pub(crate) struct CommitDesk {
    connection: Mutex<DbConnection>,
    /// Jobs that are queued or being committed by the thread. While there are any, no job may overtake them.
    pub(crate) queued: AtomicUsize,
    pub(crate) checkpoints: CheckpointSchedule,
    /// The jobs of the next gathered commit. Its task exists as long as there are any.
    gathered: Mutex<Vec<QueuedJob>>,
    /// The number of jobs that their callers commit before the next is gathered.
    lone_commits: AtomicU32,
    outages: OutageLog,
}

impl CommitDesk {
    pub(crate) fn new(connection: DbConnection) -> CommitDesk {
        let log = connection.log_file();
        CommitDesk {
            connection: Mutex::new(connection),
            queued: AtomicUsize::new(0),
            checkpoints: CheckpointSchedule::new(log),
            gathered: Mutex::default(),
            lone_commits: AtomicU32::new(0),
            outages: OutageLog::new("the database"),
        }
    }

    /// Notes that a job could not be stored because of an outage.
    pub(crate) fn note_outage(&self, error: &StoreError) {
        if self.outages.note_failure(error.code(), error) {
            count_event(ProcessEvent::DatabaseOutage);
        }
    }

    /// Notes a commit.
    pub(crate) fn note_commit(&self) {
        self.outages.note_success();
    }

    /// Whether an outage is not over.
    pub(crate) fn has_outage(&self) -> bool {
        self.outages.is_out()
    }

    pub(crate) fn lock_connection(&self) -> MutexGuard<'_, DbConnection> {
        self.connection.lock()
    }

    pub(crate) fn lock_gathered(&self) -> MutexGuard<'_, Vec<QueuedJob>> {
        self.gathered.lock()
    }

    /// Commits a job on the caller's thread; `None` if it would have to wait, or if jobs are to be gathered.
    pub(crate) fn commit_alone(
        &self,
        job: &mut WriteJob,
        queue: Option<&WriterQueue>,
    ) -> Option<Result<(), StoreError>> {
        let take = |left: u32| left.checked_sub(1);
        if tokio::runtime::Handle::try_current().is_ok()
            && self.lone_commits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err()
        {
            return None;
        }
        let Some(connection) = self.connection.try_lock() else {
            self.lone_commits.store(0, Ordering::Relaxed);
            return None;
        };
        self.commit_now(&connection, &mut [job], queue)
    }

    /// Commits jobs on the caller's thread; `None` if they would have to wait for another job or process.
    fn commit_now(
        &self,
        connection: &DbConnection,
        jobs: &mut [&mut WriteJob],
        queue: Option<&WriterQueue>,
    ) -> Option<Result<(), StoreError>> {
        if self.queued.load(Ordering::Acquire) > 0 {
            return None;
        }
        failpoint::hit("commit_now_before");
        let committed = connection.try_transaction_now(jobs)?;
        failpoint::hit("commit_now_after");
        if committed.is_ok() {
            self.note_commit();
        }
        if self.checkpoints.count_commit()
            && let Some(queue) = queue
        {
            queue.request_checkpoint();
        }
        Some(committed)
    }

    /// Adds a job to the next gathered commit, whose task starts with its first job. Returns the job if the thread has
    /// jobs, or if there is no runtime for the task.
    pub(crate) fn gather_job(
        self: &Arc<CommitDesk>,
        job: QueuedJob,
        queue: &Arc<WriterQueue>,
    ) -> Result<(), QueuedJob> {
        let runtime = tokio::runtime::Handle::try_current();
        let Some(runtime) = runtime.ok().filter(|_| self.queued.load(Ordering::Acquire) == 0) else { return Err(job) };
        let is_first = {
            let mut gathered = self.lock_gathered();
            gathered.push(job);
            gathered.len() == 1
        };
        if is_first {
            let commit = GatheredCommit { desk: self.clone(), queue: Arc::downgrade(queue), is_done: false };
            runtime.spawn(commit.commit_after_others());
        }
        Ok(())
    }

    /// Commits the gathered jobs. If the commit fails, the thread tries again and finds the job that fails. Returns
    /// whether the connection was free.
    fn try_commit_gathered(&self, queue: &Weak<WriterQueue>) -> bool {
        let Some(connection) = self.connection.try_lock() else { return false };
        let mut gathered = std::mem::take(&mut *self.lock_gathered());
        // Without the queue, the store is closed.
        let Some(queue) = queue.upgrade().filter(|_| !gathered.is_empty()) else { return true };
        let mut jobs: Vec<&mut WriteJob> = gathered.iter_mut().map(|queued| &mut queued.job).collect();
        if !matches!(self.commit_now(&connection, &mut jobs, Some(&queue)), Some(Ok(()))) {
            queue.send_jobs(gathered);
            return true;
        }
        self.lone_commits.store(if gathered.len() == 1 { LONE_COMMITS } else { 0 }, Ordering::Relaxed);
        drop(connection);
        // The caller may be gone; the commit is valid anyway.
        gathered.into_iter().for_each(|queued| drop(queued.done.send(Ok(()))));
        true
    }
}

/// The task of a gathered commit. If it ends without committing, the jobs are the thread's: the connection was not free
/// for long, or the runtime has ended.
struct GatheredCommit {
    desk: Arc<CommitDesk>,
    queue: Weak<WriterQueue>,
    is_done: bool,
}

impl GatheredCommit {
    /// Commits the gathered jobs when the tasks that are ready have had their turn, and while a turn adds jobs, when those
    /// that became ready meanwhile have had theirs.
    async fn commit_after_others(mut self) {
        let mut count = 1;
        for turn in 1..=MAX_TURNS {
            tokio::task::yield_now().await;
            let last_count = std::mem::replace(&mut count, self.desk.lock_gathered().len());
            if count > last_count && turn < MAX_GROWING_TURNS {
                continue;
            }
            self.is_done = self.desk.try_commit_gathered(&self.queue);
            if self.is_done {
                return;
            }
        }
    }
}

impl Drop for GatheredCommit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.upgrade().filter(|_| !self.is_done) {
            queue.send_gathered(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_runtime::journal::{AppendResult, LeaseState};
    use tempfile::TempDir;

    use super::*;
    use crate::db::params;
    use crate::db::sqlite::Sqlite;
    use crate::writer::{MAX_REQUEST_WAIT, Writer};

    /// A quick writer of a database with an empty table of numbers.
    fn open_writer(folder: &TempDir) -> Writer {
        let connection = Sqlite::open(&folder.path().join("test.db")).expect("a database");
        connection.run_script("create table number (value integer primary key)").expect("a table");
        Writer::start_thread(DbConnection::Sqlite(connection), None, true).expect("a thread")
    }

    fn append_number(writer: &Writer, number: i64) -> AppendResult {
        let insert = move |connection: &DbConnection| {
            connection.execute_sql("insert into number (value) values ($1)", params![number]).map(drop)
        };
        writer.append_job(Box::new(insert), MAX_REQUEST_WAIT, || LeaseState::Held)
    }

    fn count_numbers(folder: &TempDir) -> i64 {
        let connection = rusqlite::Connection::open(folder.path().join("test.db")).expect("the database");
        connection.query_row("select count(*) from number", [], |row| row.get(0)).expect("a count")
    }

    #[test]
    fn without_a_runtime_the_caller_commits() {
        let folder = TempDir::new().expect("a folder");
        let writer = open_writer(&folder);
        assert!((0..20).all(|number| matches!(append_number(&writer, number), AppendResult::Done(Ok(_)))));
        assert_eq!((writer.commit_count(), count_numbers(&folder)), (20, 20));
    }

    #[tokio::test]
    async fn jobs_of_the_same_time_share_a_commit() {
        let folder = TempDir::new().expect("a folder");
        let writer = open_writer(&folder);
        let appends: Vec<_> = (0..50).map(|number| append_number(&writer, number).wait()).collect();
        for append in appends {
            append.await.expect("stored");
        }
        assert_eq!((writer.commit_count(), count_numbers(&folder)), (1, 50));
    }

    #[tokio::test]
    async fn one_run_alone_commits_its_jobs_itself() {
        let folder = TempDir::new().expect("a folder");
        let writer = open_writer(&folder);
        let mut done = 0;
        for number in 0..90 {
            let append = append_number(&writer, number);
            done += usize::from(matches!(append, AppendResult::Done(_)));
            append.wait().await.expect("stored");
        }
        assert_eq!((writer.commit_count(), done), (90, 80));
    }

    #[tokio::test]
    async fn a_job_that_fails_leaves_the_others_of_its_commit() {
        let folder = TempDir::new().expect("a folder");
        let writer = open_writer(&folder);
        let appends: Vec<_> = [1, 2, 1, 3].map(|number| append_number(&writer, number).wait()).into();
        let mut failed = 0;
        for append in appends {
            failed += usize::from(append.await.is_err());
        }
        assert_eq!((failed, count_numbers(&folder)), (1, 3));
    }

    #[tokio::test]
    async fn jobs_wait_while_another_process_has_the_lock() {
        let folder = TempDir::new().expect("a folder");
        let writer = open_writer(&folder);
        let other = rusqlite::Connection::open(folder.path().join("test.db")).expect("the database");
        other.execute_batch("begin immediate").expect("the lock");
        let (first, second) = (append_number(&writer, 1).wait(), append_number(&writer, 2).wait());
        let release = async {
            tokio::task::yield_now().await;
            other.execute_batch("rollback").expect("released");
        };
        let (first, second, ()) = futures_util::join!(first, second, release);
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(count_numbers(&folder), 2);
    }

    #[test]
    fn gathered_jobs_are_committed_when_their_runtime_ends() {
        let folder = TempDir::new().expect("a folder");
        let writer = open_writer(&folder);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let guard = runtime.enter();
        let ended = append_number(&writer, 1).wait();
        drop(guard);
        drop(runtime);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(ended).expect("stored");
        runtime.block_on(async { append_number(&writer, 2).wait().await }).expect("stored");
        assert_eq!(count_numbers(&folder), 2);
    }

    #[tokio::test]
    async fn gathered_jobs_are_committed_when_the_store_is_closed() {
        let folder = TempDir::new().expect("a folder");
        let writer = open_writer(&folder);
        let append = append_number(&writer, 1).wait();
        drop(writer);
        append.await.expect("stored");
        assert_eq!(count_numbers(&folder), 1);
    }
}
