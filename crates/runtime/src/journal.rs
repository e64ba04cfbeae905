//! Storage of events. Implemented in memory ([`crate::memory`]) and on databases (`store`).

use std::sync::Arc;

use flowloom_core::event::{ParentStep, Record, RunCreated};
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};

use crate::command::{DecidedCommand, RunCommand};
use crate::effects::BoxFuture;
use crate::error::JournalError;
use crate::relay::TextRelay;

/// The right to write a run's events. It is lost when another worker claims the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// The fencing number; every append is checked against it.
    pub epoch: u64,
}

/// How long a run in progress waits for a journal that cannot be reached, in milliseconds. Without that the run would break
/// off, and what it did meanwhile might become uncertain.
pub const MAX_OUTAGE_MS: u64 = 600_000;

/// The content of one append: all of it is stored, or nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Events, in order.
    pub records: Vec<Arc<Record>>,
    /// Decisions about commands, each stored with the event that the command causes.
    pub decided: Vec<DecidedCommand>,
    /// Whether to release the lease, unless a command is pending that this batch does not decide. The end of a run
    /// always releases the lease and rejects the commands that are left.
    pub releases_lease: bool,
    /// Whether processes that follow the run are notified when the batch is stored. Those that share a SQLite file look
    /// by themselves.
    pub is_announced: bool,
}

impl Batch {
    /// A batch of events.
    pub fn with_records(records: Vec<Arc<Record>>) -> Batch {
        Batch { records, ..Batch::default() }
    }

    /// Whether there is nothing to store.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.decided.is_empty() && !self.releases_lease
    }
}

/// Whether the lease is still held after an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// This worker drives the run.
    Held,
    /// No worker drives the run.
    Released,
}

/// How long the worker has held its lease without a gap, as far as it knows without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseTerm {
    /// Number of the gaps before: whenever the lease may have expired, another term begins.
    pub number: u64,
    /// Whether the lease has certainly not expired.
    pub is_current: bool,
}

impl LeaseTerm {
    /// The term of a worker that holds its leases as long as it lives.
    pub const ENDLESS: LeaseTerm = LeaseTerm { number: 0, is_current: true };
}

/// The result of an append, available now or later.
pub enum AppendResult {
    /// Stored, or failed.
    Done(Result<LeaseState, JournalError>),
    /// Stored or failed when the future completes.
    Later(BoxFuture<'static, Result<LeaseState, JournalError>>),
}

impl AppendResult {
    /// Waits until the batch is stored. Fails if the lease is lost, or if the journal cannot be written.
    pub async fn wait(self) -> Result<LeaseState, JournalError> {
        match self {
            AppendResult::Done(done) => done,
            AppendResult::Later(later) => later.await,
        }
    }
}

/// The journal of all runs, and the data committed with it.
///
/// # Examples
///
/// ```
/// use flowloom_core::id::RunId;
/// use flowloom_runtime::journal::Journal as _;
/// use flowloom_runtime::memory::MemoryJournal;
///
/// let journal = MemoryJournal::new();
/// let run = RunId::parse("01a20536-48af-7530-b4af-d834a3e9ed5c").expect("an id");
/// let lease = journal.begin_run(run)?;
/// assert_eq!((lease.run, lease.epoch), (run, 1));
/// # Ok::<(), flowloom_runtime::JournalError>(())
/// ```
pub trait Journal: Send + Sync {
    /// Takes the lease of a new run. Its first append holds `RunCreated`. Fails if this process cannot be registered as
    /// its worker.
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError>;

    /// Takes the lease of an existing run under a new epoch. Fails with [`JournalError::RunOwned`] while its worker is alive.
    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>>;

    /// Takes the lease of a child run for the step that drives it. Fails as [`Journal::claim_run`] does, and with
    /// [`JournalError::OwnershipLost`] if the lease of the step is lost. The runs of a journal without leases have no other
    /// worker.
    fn claim_child_run(&self, run: RunId, _parent: ParentStep) -> BoxFuture<'_, Result<Lease, JournalError>> {
        self.claim_run(run)
    }

    /// Releases the lease without checking the inbox, because this worker cannot drive the run. Must not be called after an
    /// append has released the lease: this worker may have claimed the run again.
    fn release_run(&self, lease: Lease);

    /// Stops driving a run because the journal could not be reached. The run keeps its lease, so that recovery finds it: a
    /// run that waits for a timer is indistinguishable from one that waits for a person.
    fn abandon_run(&self, lease: Lease);

    /// Whether runs that only wait for timers are put aside: [`Journal::put_to_sleep`] wakes them.
    fn can_sleep(&self) -> bool {
        false
    }

    /// Stops driving a run that only waits for timers. The run keeps its lease, and is woken at `until` (milliseconds since
    /// the Unix epoch) or by a command.
    fn put_to_sleep(&self, lease: Lease, _until: u64) {
        self.abandon_run(lease);
    }

    /// Whether the run of a claimed lease was put aside by [`Journal::put_to_sleep`].
    fn was_asleep(&self, _lease: Lease) -> bool {
        false
    }

    /// Position of the last event that was stored when a lease was claimed. A journal that had only a part of the events of an
    /// earlier worker knows it: that worker has stored the start of every effect that it sent and that must not be sent twice,
    /// so it has not sent one whose start is later.
    fn stored_at_claim(&self, _lease: Lease) -> u64 {
        u64::MAX
    }

    /// Stores batches in the order of the calls. Memory writes of the records are part of the same transaction.
    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult;

    /// The term of this worker's lease. It costs no I/O. Runs that were claimed in an earlier term may have another worker
    /// by now.
    fn lease_term(&self) -> LeaseTerm {
        LeaseTerm::ENDLESS
    }

    /// Renews this worker's lease. Fails with [`JournalError::OwnershipLost`] if `lease` is not held any more.
    fn confirm_lease(&self, lease: Lease) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move { self.append_batch(lease, Batch::default()).wait().await.map(drop) })
    }

    /// Whether `append` always completes immediately, so that waiting for it costs nothing.
    fn is_immediate(&self) -> bool {
        false
    }

    /// The records of a run after sequence number `after`. Fails if there is no such run, or if one of its records is
    /// damaged.
    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>>;

    /// The whole memory of a namespace, by key: its owner for the memory of a user ([`scope_user`]). Profiles are stored in
    /// the same way, under [`profile_namespace`]. Fails if an entry is damaged.
    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>>;

    /// One value of a namespace. Fails if it is damaged.
    fn read_memory<'a>(
        &'a self,
        namespace: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>>;

    /// The pending commands of a run, in the order in which they were sent. Fails if the journal cannot be read.
    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>>;

    /// Completes with further pending commands of a run that this worker drives. A command may be delivered more than
    /// once.
    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>>;

    /// Carries text between the processes that share this journal, if they can.
    fn text_relay(&self) -> Option<Arc<dyn TextRelay>> {
        None
    }
}

/// The owner of what a user has in a project: in a database that projects share, a user has a memory, conversations and
/// definitions in each project with a name. It cannot collide with a user, because user names contain no control
/// characters.
pub fn scope_user(project: &str, user: &str) -> String {
    if project.is_empty() { user.to_owned() } else { format!("{user}{PROJECT_MARK}{project}") }
}

/// The user and the project of an owner.
pub fn split_owner(owner: &str) -> (&str, &str) {
    owner.split_once(PROJECT_MARK).unwrap_or((owner, ""))
}

/// Separates the user from the project in an owner.
const PROJECT_MARK: &str = "\u{1}project ";

/// The user whose definitions every user may use, and whose runs are the operator's.
pub const SHARED_USER: &str = "local";

/// The owner of the memory of a run.
pub fn memory_owner(created: &RunCreated) -> String {
    scope_user(created.project.as_ref().map_or("", |project| &project.name), &created.user)
}

/// The memory namespace of a user's conversations, each stored under its thread key.
pub fn thread_namespace(user: &str) -> String {
    format!("{user}\u{1}thread")
}

/// The memory namespace of a user's profile. It cannot collide with a user, because user names contain no control
/// characters.
pub fn profile_namespace(user: &str) -> String {
    format!("{user}\u{1}profile")
}
