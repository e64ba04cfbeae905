//! The one thread that writes. A commit holds everything that was queued while the previous one ran, so that many runs
//! share one wait for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_runtime::effects::Boxed;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::failure::failed;

/// Changes the database. An error of its own undoes only this job; a database error undoes the whole commit.
pub(crate) type Job = Box<dyn FnMut(&Connection) -> Result<Result<(), StepError>, rusqlite::Error> + Send>;

struct Queued {
    job: Job,
    done: oneshot::Sender<Result<(), StepError>>,
}

/// The handle of the writing thread.
pub(crate) struct Writer {
    queue: Option<Sender<Queued>>,
    thread: Option<JoinHandle<()>>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    pub(crate) fn start(connection: Connection) -> Result<Writer, StepError> {
        let (queue, jobs) = channel();
        let commits = Arc::new(AtomicU64::new(0));
        let counter = commits.clone();
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || write(connection, &jobs, &counter))
            .map_err(|error| StepError::new(Code::StoreFailed, format!("the writer cannot start: {error}")))?;
        Ok(Writer { queue: Some(queue), thread: Some(thread), commits })
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Queues a job; ready when it is committed, or could not be.
    pub(crate) fn submit(&self, job: Job) -> Boxed<'static, Result<(), StepError>> {
        let (done, committed) = oneshot::channel();
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(Queued { job, done }).is_ok());
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

fn write(connection: Connection, jobs: &Receiver<Queued>, commits: &AtomicU64) {
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        batch.extend(jobs.try_iter());
        let results = commit(&connection, &mut batch);
        commits.fetch_add(1, Ordering::Relaxed);
        for (queued, result) in batch.into_iter().zip(results) {
            // Whoever asked may be gone; the commit stands.
            let _ = queued.done.send(result);
        }
    }
}

/// Commits a batch; the result of each job.
fn commit(connection: &Connection, batch: &mut [Queued]) -> Vec<Result<(), StepError>> {
    match transact(connection, batch) {
        Ok(results) => results,
        Err(error) => {
            let _ = connection.execute_batch("ROLLBACK");
            let error = failed(error);
            batch.iter().map(|_| Err(error.clone())).collect()
        }
    }
}

fn transact(connection: &Connection, batch: &mut [Queued]) -> rusqlite::Result<Vec<Result<(), StepError>>> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut results = Vec::with_capacity(batch.len());
    for queued in batch.iter_mut() {
        results.push((queued.job)(connection)?);
    }
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(results)
}
