//! The thread that commits the queued jobs, and waits with them while the database is locked or cannot be reached.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use crate::commit_desk::CommitDesk;
use crate::db::{DbConnection, WriteJob};
use crate::error::StoreError;
use crate::writer::{QueuedJob, WriterCommand};

/// Pause between two attempts during an outage.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// State of the thread.
pub(crate) struct CommitThread {
    desk: Arc<CommitDesk>,
    /// The connection for checkpoints.
    background: Option<DbConnection>,
    commands: Receiver<WriterCommand>,
    /// Jobs of the next batch.
    next: Vec<QueuedJob>,
    is_checkpoint_due: bool,
    /// Whether no further commands arrive.
    is_closed: bool,
}

impl CommitThread {
    pub(crate) fn new(
        desk: Arc<CommitDesk>,
        background: Option<DbConnection>,
        commands: Receiver<WriterCommand>,
    ) -> CommitThread {
        CommitThread { desk, background, commands, next: Vec::new(), is_checkpoint_due: false, is_closed: false }
    }

    /// Commits until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        loop {
            if self.next.is_empty() {
                match self.commands.recv() {
                    Ok(command) => self.accept_command(command),
                    Err(_) => return,
                }
            }
            self.receive_commands();
            let batch = std::mem::take(&mut self.next);
            if !batch.is_empty() {
                self.commit_batch(batch);
            }
            if std::mem::take(&mut self.is_checkpoint_due) {
                self.run_checkpoint();
            }
        }
    }

    /// Accepts the commands that have arrived.
    fn receive_commands(&mut self) {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.accept_command(command),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }

    fn accept_command(&mut self, command: WriterCommand) {
        match command {
            WriterCommand::Commit(job) => self.next.push(job),
            WriterCommand::Checkpoint => self.is_checkpoint_due = true,
        }
    }

    /// Commits a batch, or refuses its jobs. During an outage it tries again until no job may wait any longer.
    fn commit_batch(&mut self, mut batch: Vec<QueuedJob>) {
        let mut unknown_commit = None;
        loop {
            // A commit whose outcome is unknown is looked up as it was sent.
            if unknown_commit.is_none() {
                batch = self.drop_abandoned(batch);
                if batch.is_empty() {
                    return;
                }
            }
            match self.attempt_commit(&mut batch, &mut unknown_commit) {
                Err(error) if error.is_outage() => {
                    self.desk.note_outage(&error);
                    batch = self.wait_for_database(batch, error);
                    if batch.is_empty() {
                        return;
                    }
                }
                // At least one job fails. Committed one by one, only those that fail are refused.
                Err(_) if batch.len() > 1 => {
                    // Nothing of the batch is stored.
                    batch.iter().for_each(|job| job.progress.set_back());
                    for job in batch {
                        self.commit_batch(vec![job]);
                    }
                    return;
                }
                Err(error) => return self.finish_jobs(batch, std::iter::once(Err(error))),
                Ok(()) => {
                    self.desk.note_commit();
                    return self.finish_jobs(batch, std::iter::repeat_with(|| Ok(())));
                }
            }
        }
    }

    /// Commits a batch, unless the last attempt has committed it. `unknown_commit` is its number as long as that is not
    /// known.
    fn attempt_commit(&mut self, batch: &mut [QueuedJob], unknown_commit: &mut Option<i64>) -> Result<(), StoreError> {
        let desk = self.desk.clone();
        let connection = desk.lock_connection();
        if let Some(number) = *unknown_commit {
            if connection.has_committed(number)? {
                return Ok(());
            }
            *unknown_commit = None;
        }
        let mut jobs: Vec<&mut WriteJob> = batch.iter_mut().map(|queued| &mut queued.job).collect();
        flowloom_runtime::failpoint::hit("commit_queued_before");
        let committed = connection.run_transaction(&mut jobs);
        flowloom_runtime::failpoint::hit("commit_queued_after");
        self.is_checkpoint_due |= self.desk.checkpoints.count_commit();
        if let Err(StoreError::CommitUnknown { number, .. }) = &committed {
            *unknown_commit = Some(*number);
        }
        committed
    }

    /// The jobs that their callers have not given up. From now on they may be stored.
    fn drop_abandoned(&self, jobs: Vec<QueuedJob>) -> Vec<QueuedJob> {
        let (started, abandoned): (Vec<_>, _) = jobs.into_iter().partition(|job| job.progress.start());
        self.desk.queued.fetch_sub(abandoned.len(), Ordering::AcqRel);
        started
    }

    /// Refuses the jobs that may wait no longer, and lets the others wait a moment. Returns those of the batch.
    fn wait_for_database(&mut self, batch: Vec<QueuedJob>, error: StoreError) -> Vec<QueuedJob> {
        self.receive_commands();
        let (cause, next_cause) = match error {
            // The jobs of the next batch were certainly not committed.
            StoreError::CommitUnknown { ref server, .. } => {
                let lost = StoreError::ConnectionLost { server: server.clone() };
                (Arc::new(error), Arc::new(lost))
            }
            error => {
                let cause = Arc::new(error);
                (cause.clone(), cause)
            }
        };
        // Jobs that were certainly not committed may be given up.
        if !matches!(*cause, StoreError::CommitUnknown { .. }) {
            batch.iter().for_each(|job| job.progress.set_back());
        }
        let next = std::mem::take(&mut self.next);
        self.next = self.keep_waiting(next, &next_cause);
        let batch = self.keep_waiting(batch, &cause);
        if !batch.is_empty() {
            std::thread::sleep(RETRY_INTERVAL);
        }
        batch
    }

    /// The jobs that may wait longer; the others are refused.
    fn keep_waiting(&self, jobs: Vec<QueuedJob>, cause: &Arc<StoreError>) -> Vec<QueuedJob> {
        let now = Instant::now();
        let (waiting, expired) = jobs.into_iter().partition(|job| !self.is_closed && job.may_wait(now));
        self.finish_jobs(expired, std::iter::repeat_with(|| Err(StoreError::Outage(cause.clone()))));
        waiting
    }

    fn finish_jobs(&self, jobs: Vec<QueuedJob>, results: impl Iterator<Item = Result<(), StoreError>>) {
        self.desk.queued.fetch_sub(jobs.len(), Ordering::AcqRel);
        for (queued, result) in jobs.into_iter().zip(results) {
            // The caller may be gone; the commit is valid anyway.
            let _ = queued.done.send(result);
        }
    }

    fn run_checkpoint(&self) {
        if self.background.as_ref().is_some_and(DbConnection::run_checkpoint) {
            self.desk.lock_connection().restart_log();
        }
    }
}
