//! The journal as one process sees it: a queue of writes that are applied in order and acknowledged later, the runs that
//! the process drives, and their mailboxes. It does what the store does on a database.

use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use flowloom_core::event::{ParentStep, Record};
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::JournalError;
use flowloom_runtime::command::{CommandRecord, RunCommand};
use flowloom_runtime::effects::{BoxFuture, Clock as _};
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease, LeaseState, LeaseTerm};
use flowloom_runtime::remote::DriveState;
use flowloom_store::parts::{CausedCommand, LeaseTerms, Mailboxes, Renewal};
use flowloom_store::{PostedCommand, QuestionExpiry};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::database::{Claim, Database, LEASE_MS, outage_error};
use crate::world::{ProcessId, World};

/// How long a request waits for the database, in milliseconds.
pub(crate) const MAX_REQUEST_WAIT_MS: u64 = 1_500;

/// How long an append waits for the database, in milliseconds.
const MAX_APPEND_WAIT_MS: u64 = 6_000;

/// Longest time on the way to the database, and of its answer, in milliseconds.
const MAX_TRAVEL_MS: u64 = 30;

/// Interval of trying again during an outage, in milliseconds.
const RETRY_MS: u64 = 200;

/// How long a lease lasts.
const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// A write. It is given the database, or nothing if it has waited too long, and returns the notification of the caller.
type Job = Box<dyn FnOnce(Option<&Database>) -> Reply + Send>;
type Reply = Box<dyn FnOnce() + Send>;

struct QueuedJob {
    job: Job,
    give_up_at: u64,
}

#[derive(Default)]
struct WriteQueue {
    waiting: VecDeque<QueuedJob>,
    in_flight: Option<QueuedJob>,
    /// Whether a write was applied and not acknowledged.
    is_answering: bool,
    waker: Option<Waker>,
}

/// The journal of one process.
pub(crate) struct Connection {
    world: Arc<World>,
    process: ProcessId,
    /// The mailboxes of the runs that the process drives.
    pub(crate) mailboxes: Arc<Mailboxes>,
    driven: Mutex<BTreeSet<RunId>>,
    terms: LeaseTerms,
    queue: Mutex<WriteQueue>,
}

impl Connection {
    /// The connection of a process.
    pub(crate) fn new(world: &Arc<World>, process: ProcessId) -> Arc<Connection> {
        Arc::new(Connection {
            world: world.clone(),
            process,
            mailboxes: Mailboxes::without_database(),
            driven: Mutex::default(),
            terms: LeaseTerms::default(),
            queue: Mutex::default(),
        })
    }

    /// Renews the lease of the process, immediately.
    pub(crate) fn renew_lease(&self) {
        let now_ms = self.world.clock.elapsed_ms();
        self.world.database.renew_lease(self.process, now_ms);
        self.terms.note_heartbeat(self.renewal_since(now_ms), LEASE);
    }

    /// A renewal of the lease that is acknowledged now.
    fn renewal_since(&self, sent_at_ms: u64) -> Renewal {
        let acknowledged_at = Duration::from_millis(self.world.clock.elapsed_ms());
        Renewal { sent_at: Duration::from_millis(sent_at_ms), acknowledged_at }
    }

    /// Whether the process drives a run.
    pub(crate) fn is_driving(&self, run: RunId) -> bool {
        self.driven.lock().contains(&run)
    }

    fn register_run(&self, run: RunId) -> Result<(), JournalError> {
        if !self.driven.lock().insert(run) {
            return Err(JournalError::RunOwned(run));
        }
        Ok(())
    }

    fn unregister_run(&self, run: RunId) -> bool {
        self.mailboxes.close_mailbox(run);
        self.driven.lock().remove(&run)
    }

    /// Applies the writes of the process, one after the other, until the process dies.
    pub(crate) async fn apply_writes(self: Arc<Connection>) {
        loop {
            let give_up_at = poll_fn(|context| {
                let mut queue = self.queue.lock();
                let Some(next) = queue.waiting.pop_front() else {
                    queue.waker = Some(context.waker().clone());
                    return Poll::Pending;
                };
                let give_up_at = next.give_up_at;
                queue.in_flight = Some(next);
                Poll::Ready(give_up_at)
            })
            .await;
            self.travel().await;
            while self.world.database.is_down() && self.world.clock.elapsed_ms() < give_up_at {
                self.world.clock.sleep_for(RETRY_MS).await;
                self.refuse_expired_jobs();
            }
            let Some(next) = self.queue.lock().in_flight.take() else { continue };
            let database = (!self.world.database.is_down()).then_some(&self.world.database);
            self.queue.lock().is_answering = true;
            let reply = (next.job)(database);
            self.travel().await;
            self.queue.lock().is_answering = false;
            reply();
        }
    }

    /// Refuses the jobs that have waited too long, also behind one that may wait longer, as the writer of the store does.
    fn refuse_expired_jobs(&self) {
        let now = self.world.clock.elapsed_ms();
        let mut queue = self.queue.lock();
        let jobs = std::mem::take(&mut queue.waiting);
        let (expired, waiting): (Vec<QueuedJob>, _) = jobs.into_iter().partition(|job| job.give_up_at <= now);
        queue.waiting = waiting.into();
        drop(queue);
        expired.into_iter().for_each(|job| (job.job)(None)());
    }

    /// A commit that is on its way when the process dies may still be applied.
    pub(crate) fn abandon_writes(&self) {
        let in_flight = std::mem::take(&mut *self.queue.lock()).in_flight;
        if let Some(next) = in_flight
            && !self.world.database.is_down()
            && self.world.choices.one_in(2)
        {
            drop((next.job)(Some(&self.world.database)));
        }
    }

    async fn travel(&self) {
        if self.world.choices.one_in(2) {
            self.world.sleep_up_to(MAX_TRAVEL_MS).await;
        }
    }

    /// Queues a write. The future completes when it is acknowledged, or has waited too long.
    fn submit<T: Send + 'static>(
        &self,
        max_wait_ms: u64,
        write: impl FnOnce(&Database) -> Result<T, JournalError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, JournalError>> {
        let (done, written) = oneshot::channel();
        let job = move |database: Option<&Database>| -> Reply {
            let result = database.map_or_else(|| Err(outage_error()), write);
            Box::new(move || drop(done.send(result)))
        };
        let give_up_at = self.world.clock.elapsed_ms() + max_wait_ms;
        let mut queue = self.queue.lock();
        queue.waiting.push_back(QueuedJob { job: Box::new(job), give_up_at });
        queue.waker.take().into_iter().for_each(Waker::wake);
        Box::pin(async move { written.await.unwrap_or_else(|_| Err(outage_error())) })
    }

    /// Whether a write can be applied immediately, as on a SQLite that does not wait for the disk.
    fn is_quick(&self) -> bool {
        let queue = self.queue.lock();
        self.world.settings.is_quick
            && queue.waiting.is_empty()
            && queue.in_flight.is_none()
            && !queue.is_answering
            && !self.world.database.is_down()
    }

    async fn read<T>(&self, read: impl FnOnce(&Database) -> T) -> Result<T, JournalError> {
        self.travel().await;
        if self.world.database.is_down() {
            return Err(outage_error());
        }
        let found = read(&self.world.database);
        self.travel().await;
        Ok(found)
    }

    async fn claim_run(&self, claim: Claim) -> Result<Lease, JournalError> {
        let (run, now_ms) = (claim.run, self.world.clock.elapsed_ms());
        let read = |database: &Database| {
            let seen = database.read_lease(run).ok_or(JournalError::RunNotFound(run))?;
            let is_driven = seen.worker.is_some_and(|worker| match worker == self.process {
                true => self.is_driving(run),
                false => database.is_alive(worker, now_ms),
            });
            if is_driven { Err(JournalError::RunOwned(run)) } else { Ok(seen) }
        };
        let seen = self.read(read).await??;
        self.register_run(run)?;
        let (process, clock) = (self.process, self.world.clock.clone());
        let write = move |database: &Database| database.claim_run(&claim, seen, process, clock.elapsed_ms());
        let claimed = self.submit(MAX_REQUEST_WAIT_MS, write).await;
        match &claimed {
            Ok(lease) => self.mailboxes.open_mailbox(*lease),
            Err(_) => drop(self.unregister_run(run)),
        }
        claimed
    }

    /// Stores a command, as the store does.
    pub(crate) async fn post_command(&self, run: RunId, command: RunCommand) -> Result<PostedCommand, JournalError> {
        self.store_command(run, command, None).await
    }

    /// Stores the command with which a step retries its child run, as the store does.
    pub(crate) async fn post_retry_by_step(
        &self,
        run: RunId,
        command: RunCommand,
        parent: ParentStep,
    ) -> Result<PostedCommand, JournalError> {
        self.store_command(run, command, Some(parent)).await
    }

    async fn store_command(
        &self,
        run: RunId,
        command: RunCommand,
        parent: Option<ParentStep>,
    ) -> Result<PostedCommand, JournalError> {
        let at = self.world.clock.now_ms();
        let post = move |database: &Database| Ok(database.runs.post_command(run, command, at, parent.as_ref())?);
        let (posted, caused) = self.submit(MAX_REQUEST_WAIT_MS, post).await?;
        let own = posted.record.outcome.is_none().then(|| CausedCommand {
            run,
            epoch: posted.epoch,
            command: posted.record.command.clone(),
        });
        self.deliver_caused(caused.into_iter().chain(own));
        Ok(posted)
    }

    /// Delivers commands that were stored, to this process immediately and to others by notifications.
    fn deliver_caused(&self, caused: impl IntoIterator<Item = CausedCommand>) {
        for caused in caused {
            self.world.notify_processes(caused.run);
            self.mailboxes.deliver_command(caused);
        }
    }

    /// A command of a run.
    pub(crate) async fn find_command(&self, run: RunId, id: &str) -> Result<Option<CommandRecord>, JournalError> {
        self.read(|database| database.runs.find_command(run, id)).await
    }

    /// The run to drive so that `run` continues.
    pub(crate) async fn find_driving_run(&self, run: RunId) -> Result<RunId, JournalError> {
        self.read(|database| database.runs.find_driving_run(run)).await
    }

    /// Whether a worker drives a run, or a command to it is pending.
    pub(crate) async fn read_drive_state(&self, run: RunId) -> Result<DriveState, JournalError> {
        self.read(|database| database.runs.read_drive_state(run)).await
    }

    /// The unfinished runs within a run that has ended, whose parent run has ended.
    pub(crate) async fn list_orphaned_runs(&self, run: RunId) -> Result<Vec<RunId>, JournalError> {
        self.read(|database| database.runs.list_orphaned_runs(run)).await
    }

    /// Runs that no living worker drives.
    pub(crate) async fn abandoned_runs(&self) -> Result<Vec<RunId>, JournalError> {
        let now_ms = self.world.clock.elapsed_ms();
        self.read(|database| database.abandoned_runs(self.process, now_ms, |run| self.is_driving(run))).await
    }

    /// Gives up the leases of child runs that this process does not drive.
    pub(crate) async fn release_held_children(self: &Arc<Connection>) -> Result<(), JournalError> {
        let connection = self.clone();
        let release = move |database: &Database| {
            database.release_held_children(connection.process, |run| connection.is_driving(run));
            Ok(())
        };
        self.submit(MAX_REQUEST_WAIT_MS, release).await
    }

    /// Questions that have expired by `now`.
    pub(crate) async fn expired_questions(&self, now: u64) -> Result<Vec<QuestionExpiry>, JournalError> {
        self.read(|database| database.runs.list_expired_questions(now, u32::MAX)).await
    }

    /// Removes a question from the list: until its run is reopened if the run has ended, otherwise for good.
    pub(crate) async fn remove_expiry(&self, expiry: QuestionExpiry, has_ended: bool) -> Result<(), JournalError> {
        let remove = move |database: &Database| {
            match has_ended {
                true => database.runs.suspend_expiry(expiry),
                false => database.runs.forget_expiry(expiry),
            }
            Ok(())
        };
        self.submit(MAX_REQUEST_WAIT_MS, remove).await
    }

    /// Whether a run has commands that are not decided.
    pub(crate) async fn has_pending_commands(&self, run: RunId) -> Result<bool, JournalError> {
        self.read(|database| !database.runs.pending_commands(run).is_empty()).await
    }

    /// Reads the pending commands of a run that this process drives, and delivers them.
    pub(crate) async fn deliver_pending(&self, run: RunId) {
        self.mailboxes.wake_waiting(run);
        if !self.mailboxes.has_mailbox(run) {
            return;
        }
        let read = |database: &Database| (database.read_lease(run), database.runs.pending_commands(run));
        if let Ok((Some(row), commands)) = self.read(read).await {
            for command in commands {
                self.mailboxes.deliver_command(CausedCommand { run, epoch: row.epoch, command });
            }
        }
    }

    /// Delivers the pending commands of every run that this process drives.
    pub(crate) async fn deliver_all_pending(&self) {
        let driven: Vec<RunId> = self.driven.lock().iter().copied().collect();
        for run in driven {
            self.deliver_pending(run).await;
        }
    }
}

/// The actions of a process once a batch is stored.
struct AppendFinish {
    connection: ConnectionHandle,
    run: RunId,
    is_decision: bool,
    /// When the batch was sent, in milliseconds.
    sent_at_ms: u64,
}

/// The part of a connection in a future that may outlive it.
#[derive(Clone)]
struct ConnectionHandle(std::sync::Weak<Connection>);

impl AppendFinish {
    fn note_stored(&self, lease_state: LeaseState, caused: Vec<CausedCommand>) {
        let Some(connection) = self.connection.0.upgrade() else { return };
        connection.terms.note_commit(connection.renewal_since(self.sent_at_ms), LEASE);
        if lease_state == LeaseState::Released {
            connection.unregister_run(self.run);
        }
        if self.is_decision || lease_state == LeaseState::Released {
            connection.mailboxes.wake_waiting(self.run);
            connection.world.notify_processes(self.run);
        }
        connection.deliver_caused(caused);
    }
}

/// A connection as a journal. The engine holds it, so that an append can refer to the connection.
pub(crate) struct ConnectionJournal(pub(crate) Arc<Connection>);

impl Journal for ConnectionJournal {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.0.register_run(run)?;
        let lease = Lease { run, epoch: 1 };
        self.0.mailboxes.open_mailbox(lease);
        Ok(lease)
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        Box::pin(self.0.claim_run(Claim { run, parent: None }))
    }

    fn claim_child_run(&self, run: RunId, parent: ParentStep) -> BoxFuture<'_, Result<Lease, JournalError>> {
        Box::pin(self.0.claim_run(Claim { run, parent: Some(parent) }))
    }

    fn release_run(&self, lease: Lease) {
        if self.0.unregister_run(lease.run) {
            let process = self.0.process;
            let release = move |database: &Database| {
                database.release_run(lease, process);
                Ok(())
            };
            drop(self.0.submit(MAX_REQUEST_WAIT_MS, release));
        }
    }

    fn abandon_run(&self, lease: Lease) {
        self.0.unregister_run(lease.run);
    }

    fn lease_term(&self) -> LeaseTerm {
        let connection = &self.0;
        let now = Duration::from_millis(connection.world.clock.elapsed_ms());
        connection.terms.term_at(now, LEASE)
    }

    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        let connection = &self.0;
        let process = connection.process;
        let finish = AppendFinish {
            connection: ConnectionHandle(Arc::downgrade(connection)),
            run: lease.run,
            is_decision: !batch.decided.is_empty(),
            sent_at_ms: connection.world.clock.elapsed_ms(),
        };
        if connection.is_quick() {
            return match connection.world.database.append_batch(
                lease,
                &batch,
                process,
                connection.world.clock.elapsed_ms(),
            ) {
                Ok((lease_state, caused)) => {
                    finish.note_stored(lease_state, caused);
                    AppendResult::Done(Ok(lease_state))
                }
                Err(error) => AppendResult::Done(Err(error.into())),
            };
        }
        let clock = connection.world.clock.clone();
        let append =
            move |database: &Database| Ok(database.append_batch(lease, &batch, process, clock.elapsed_ms())?);
        let appended = connection.submit(MAX_APPEND_WAIT_MS, append);
        AppendResult::Later(Box::pin(async move {
            let (lease_state, caused) = appended.await?;
            finish.note_stored(lease_state, caused);
            Ok(lease_state)
        }))
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        Box::pin(async move { Ok(self.0.read(|database| database.runs.read_records(run, after)).await??) })
    }

    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        Box::pin(self.0.read(|database| database.read_memories(namespace)))
    }

    fn read_memory<'a>(&'a self, user: &'a str, key: &'a str) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        Box::pin(async move { Ok(self.read_memories(user).await?.get(key).cloned()) })
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        Box::pin(self.0.read(move |database| database.runs.pending_commands(run)))
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        self.0.mailboxes.next_commands(run)
    }
}
