//! Writes a batch of the journal in one transaction: events, what they change in other tables, and decisions about
//! commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flowloom_core::event::{Event, MemoryWrite, Record, RunCreated};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::render;
use flowloom_core::status::Status;
use flowloom_runtime::JournalError;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::journal::{Batch, Lease, memory_owner, scope_user, thread_namespace};
use parking_lot::{Mutex, MutexGuard};

use crate::checksum::{RunColumns, StatusColumns, memory_checksum};
use crate::commands::{self, CausedCommand, check_parent, reopens_without_command};
use crate::db::{AssumedRun, DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::event_effects::{is_progress, status_after};
use crate::event_row::EventRow;
use crate::keyed_command::check_still_reserved;
use crate::question_expiry::write_expiry;
use crate::quota_check::QuotaChecker;
use crate::rows::insert_events;
use crate::run_tree::find_next_position;
use crate::worker::{LocalWorker, RunIdentity};

/// Inserts a run.
const INSERT_RUN_SQL: &str = "insert into run (number, id, epoch, worker, created_at, format, name, user_id, bundle, workflow, \
    thread_key, parent, parent_path, checksum, status, finished_at, status_seq, status_checksum, \
    project, config, forked_from, trigger_kind, trigger_id, root, tree_number) \
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
    $20, $21, $22, $23, $24, $25)";

/// One batch, ready to be written.
pub(crate) struct BatchWrite {
    pub(crate) lease: Lease,
    pub(crate) batch: Batch,
    pub(crate) rows: Vec<EventRow>,
    pub(crate) bundle: Option<(Hash, Arc<str>)>,
    pub(crate) worker: Arc<LocalWorker>,
    pub(crate) quotas: QuotaChecker,
    pub(crate) effects: Arc<BatchEffects>,
}

/// Effects of a batch besides storing events. Valid once it is committed.
#[derive(Default)]
pub(crate) struct BatchEffects {
    /// Whether the batch released the lease.
    pub(crate) is_released: AtomicBool,
    caused: Mutex<Vec<CausedCommand>>,
    run: Mutex<Option<RunIdentity>>,
}

impl BatchEffects {
    /// Commands to child runs that the batch stored.
    pub(crate) fn lock_caused(&self) -> MutexGuard<'_, Vec<CausedCommand>> {
        self.caused.lock()
    }

    /// The immutable columns of the run's row.
    pub(crate) fn lock_run(&self) -> MutexGuard<'_, Option<RunIdentity>> {
        self.run.lock()
    }
}

impl BatchWrite {
    pub(crate) fn write(&self, connection: &DbConnection) -> Result<(), StoreError> {
        if let Some((hash, content)) = &self.bundle {
            let sql = "insert into bundle values ($1, $2) on conflict do nothing";
            connection.execute_unchecked(sql, params![&hash.to_string(), &**content])?;
        }
        let records = &self.batch.records;
        let locked = match records.first().map(|record| &record.event) {
            Some(Event::RunCreated(created)) => self.insert_run(connection, &records[0], created)?,
            _ => match self.assume_run(connection) {
                Some(assumed) => assumed,
                None => self.lock_run(connection)?,
            },
        };
        if locked.has_failed_claims && records.iter().any(|record| is_progress(record)) {
            // Progress of a child run is progress of the runs around it.
            let sql = "with recursive around (id, parent) as (select id, parent from run where number = $1 union all \
                       select run.id, run.parent from run join around on run.id = around.parent) \
                       update run set failed_claims = 0 where id in (select id from around)";
            connection.execute_unchecked(sql, params![locked.number])?;
        }
        let mut caused = Vec::new();
        insert_events(connection, locked.number, &self.rows)?;
        for record in records {
            write_memories(connection, &locked.memory_owner, record)?;
            write_expiry(connection, record)?;
            // A new run has no child runs. Most others have none when they end, and the commit verifies the assumption.
            if locked.origin == RowOrigin::Read || !matches!(record.event, Event::RunFinished { .. }) {
                caused.extend(commands::cancel_children(connection, record)?);
            }
        }
        let is_released = self.write_decisions(connection, &locked)?;
        self.write_status(connection, &locked, is_released)?;
        if self.batch.is_announced {
            connection.announce_run(self.lease.run)?;
        }
        flowloom_runtime::failpoint::hit("batch_written");
        self.effects.is_released.store(is_released, Ordering::Relaxed);
        // A transaction that is rolled back runs again.
        *self.effects.lock_caused() = caused;
        *self.effects.lock_run() = Some(RunIdentity { number: locked.number, memory_owner: locked.memory_owner });
        Ok(())
    }

    /// Stores the decisions of the batch, and releases the lease if the batch wants that and no command is left. Returns
    /// whether the lease is released.
    fn write_decisions(&self, connection: &DbConnection, locked: &LockedRun) -> Result<bool, StoreError> {
        let Batch { records, decided, releases_lease, .. } = &self.batch;
        let run = self.lease.run;
        let at = records.last().map_or_else(|| SystemClock.now_ms(), |record| record.at);
        let ended = records.iter().find_map(|record| match record.event {
            Event::RunFinished { status, .. } => Some(status),
            _ => None,
        });
        let decided_count = commands::write_decisions(connection, run, decided, at)?;
        if reopens_without_command(&self.batch, |_| decided_count > 0) {
            return Err(JournalError::OwnershipLost.into());
        }
        let left = locked.pending_commands.saturating_sub(decided_count);
        if let Some(status) = ended.filter(|_| left > 0) {
            commands::decide_pending(connection, run, status, at)?;
        }
        let left = if ended.is_some() { 0 } else { left };
        if left != locked.pending_commands {
            let sql = "update run set pending_commands = $1 where number = $2";
            connection.execute_unchecked(sql, params![left, locked.number])?;
            connection.notify_workers(run)?;
        }
        let is_released = *releases_lease && left == 0;
        if is_released && ended.is_none() && locked.origin == RowOrigin::Read {
            let sql = "update run set worker = null, failed_claims = 0 where number = $1";
            connection.execute_unchecked(sql, params![locked.number])?;
        }
        Ok(is_released || ended.is_some())
    }

    /// Inserts the run with the status that it has after the batch.
    fn insert_run(
        &self,
        connection: &DbConnection,
        record: &Record,
        created: &RunCreated,
    ) -> Result<LockedRun, StoreError> {
        self.check_creation(connection, record, created)?;
        let RunCreated { name, user, workflow, thread_key, parent, project, fork, trigger, .. } = created;
        let (id, bundle) = (record.run.to_string(), created.bundle.to_string());
        let (epoch, worker, format) = (self.lease.epoch, self.worker.name(), created.format.name());
        let (around, origin) = (parent.as_ref().map(|parent| parent.run), fork.as_ref().map(|fork| fork.run));
        let [parent_run, forked_from] = [around, origin].map(|run| run.map(|run| run.to_string()));
        let columns = RunColumns {
            id: record.run,
            created_at: record.at,
            format,
            name,
            user,
            bundle: &bundle,
            workflow: workflow.as_deref(),
            thread_key: thread_key.as_deref(),
            parent: parent.as_ref(),
            project: project.as_ref(),
            forked_from: origin,
            trigger: trigger.as_ref(),
        };
        let queued = StatusColumns { status: Status::Queued.name(), finished_at: None, seq: record.seq };
        let status = find_last_status(&self.batch.records).unwrap_or(queued);
        // It cannot have received a command yet.
        let is_released = status.finished_at.is_some() || self.batch.releases_lease;
        let worker = (!is_released).then_some(worker);
        let (checksum, status_checksum) = (columns.checksum(), status.checksum(record.run));
        let parent_path = parent.as_ref().map(|parent| parent.path.as_str().to_owned());
        let position = parent.as_ref().map(|parent| find_next_position(connection, parent.run)).transpose()?;
        if let Some(parent) = parent {
            check_parent(connection, parent)?;
        }
        let number = connection.reserve_run_number()?;
        let params = params![
            number,
            &id,
            epoch,
            worker,
            record.at,
            format,
            name,
            user,
            &bundle,
            workflow,
            thread_key,
            &parent_run,
            &parent_path,
            checksum,
            status.status,
            status.finished_at.map(|at| at as i64),
            status.seq,
            status_checksum,
            project.as_ref().map(|project| project.name.as_str()),
            project.as_ref().map(|project| project.config.as_str()),
            &forked_from,
            trigger.as_ref().map(|trigger| &*trigger.kind),
            trigger.as_ref().and_then(|trigger| trigger.id.as_deref()),
            position.as_ref().map(|position| position.root.as_str()),
            position.as_ref().map(|position| position.number as i64),
        ];
        connection.execute_unchecked(INSERT_RUN_SQL, params)?;
        let memory_owner = memory_owner(created).into();
        let origin = RowOrigin::Inserted;
        Ok(LockedRun { number, memory_owner, origin, has_failed_claims: false, pending_commands: 0 })
    }

    /// Fails if the run may not be created: its conversation has another turn, the key of its call is not reserved for it any
    /// more, or its user has reached a quota.
    fn check_creation(
        &self,
        connection: &DbConnection,
        record: &Record,
        created: &RunCreated,
    ) -> Result<(), StoreError> {
        if let Some(thread_key) = &created.thread_key {
            self.check_turn(connection, created, thread_key)?;
        }
        if created.trigger.as_ref().is_some_and(|trigger| trigger.call.is_some()) {
            check_still_reserved(connection, &created.user, record.run)?;
        }
        // A child run belongs to a run that has started.
        match created.parent {
            Some(_) => Ok(()),
            None => self.quotas.check_start(connection, &created.user, record.at),
        }
    }

    /// Rejects a second turn of a conversation while a living process drives one, or one needs a decision: its end would
    /// overwrite later messages. A turn that waits for a person does not block others.
    fn check_turn(&self, connection: &DbConnection, created: &RunCreated, thread_key: &str) -> Result<(), StoreError> {
        connection.serialize_changes("starts")?;
        let sql = "select id, case when status in ('queued', 'running') then worker end from run \
                   where user_id = $1 and thread_key = $2 and finished_at is null and coalesce(project, '') = $3 \
                   and (status in ('queued', 'uncertain', 'quarantined') \
                   or (status = 'running' and worker is not null))";
        let project = created.project.as_ref().map_or("", |project| project.name.as_str());
        let params = params![&created.user, thread_key, project];
        let others = connection.query_rows(sql, params, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let living = self.worker.living_workers(connection)?;
        // A run without a worker needs a decision, or another engine is about to drive it.
        let driven = |(id, worker): (String, Option<String>)| {
            let is_driven =
                |run: &RunId| worker.as_deref().is_none_or(|worker| self.worker.is_driven_by(worker, *run, &living));
            RunId::parse(&id).filter(is_driven)
        };
        match others.into_iter().find_map(driven) {
            None => Ok(()),
            Some(run) => Err(StoreError::ThreadBusy(run)),
        }
    }

    /// The expected row of a run that this process has written before: the lease is valid, no command
    /// is pending, the run has made progress since it was claimed, and it has no child runs when it ends. The commit verifies it.
    fn assume_run(&self, connection: &DbConnection) -> Option<LockedRun> {
        let has_decided = !self.batch.decided.is_empty();
        let known = if has_decided { None } else { self.worker.find_stored_run(self.lease.run) };
        let RunIdentity { number, memory_owner } = known.filter(|_| connection.may_assume())?;
        let origin = RowOrigin::Assumed;
        Some(LockedRun { number, memory_owner, origin, has_failed_claims: false, pending_commands: 0 })
    }

    /// Writes the status that the run has after the batch, and, if the row was not read, verifies it and gives up the lease.
    fn write_status(&self, connection: &DbConnection, locked: &LockedRun, is_released: bool) -> Result<(), StoreError> {
        let status = find_last_status(&self.batch.records);
        match locked.origin {
            RowOrigin::Assumed => {
                let status = status.map(|columns| {
                    let checksum = columns.checksum(self.lease.run);
                    (columns, checksum)
                });
                let (number, epoch) = (locked.number, self.lease.epoch);
                let run = AssumedRun { number, epoch, status, is_released };
                connection.write_assumed_run(run, self.worker.name())
            }
            RowOrigin::Inserted => Ok(()),
            RowOrigin::Read => match status {
                Some(columns) => set_status(connection, locked, self.lease.run, &columns),
                None => Ok(()),
            },
        }
    }

    /// Reads and locks the run's row. Fails with `OwnershipLost` if the lease is no longer valid.
    fn lock_run(&self, connection: &DbConnection) -> Result<LockedRun, StoreError> {
        let sql = "select number, user_id, failed_claims, pending_commands, coalesce(project, '') from run \
                   where id = $1 and epoch = $2 and worker = $3";
        let run = self.lease.run.to_string();
        let read = |row: &DbRow<'_>| {
            Ok(LockedRun {
                number: row.get(0)?,
                memory_owner: scope_user(&row.get::<String>(4)?, &row.get::<String>(1)?).into(),
                origin: RowOrigin::Read,
                has_failed_claims: row.get_count(2)? > 0,
                pending_commands: row.get_count(3)?,
            })
        };
        let found =
            connection.query_first_for_update(sql, params![&run, self.lease.epoch, self.worker.name()], read)?;
        found.ok_or_else(|| JournalError::OwnershipLost.into())
    }
}

/// How an append knows the row of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowOrigin {
    /// It inserted the row.
    Inserted,
    /// It read and locked the row.
    Read,
    /// It assumes the content of the row; the commit verifies it.
    Assumed,
}

/// Columns of a run that an append needs.
struct LockedRun {
    number: i64,
    memory_owner: Arc<str>,
    origin: RowOrigin,
    /// Whether the run made no progress since it was claimed.
    has_failed_claims: bool,
    /// Number of commands without a decision.
    pending_commands: u64,
}

/// Writes what an event changes in the memory of the run's user.
fn write_memories(connection: &DbConnection, owner: &str, record: &Record) -> Result<(), StoreError> {
    match &record.event {
        Event::RunFinished { thread: Some(thread), .. } => match has_later_turn(connection, record.run)? {
            true => Ok(()),
            false => write_memory(connection, &thread_namespace(owner), thread),
        },
        Event::StepFinished { memory, reused: false, .. } => {
            memory.iter().try_for_each(|write| write_memory(connection, owner, write))
        }
        _ => Ok(()),
    }
}

/// Whether the conversation of a run has a later turn, which continues the conversation without this one. The run lost its
/// worker, or is an earlier turn that is retried.
fn has_later_turn(connection: &DbConnection, run: RunId) -> Result<bool, StoreError> {
    let sql = "select later.number from run as own join run as later on later.user_id = own.user_id \
               and later.thread_key = own.thread_key and coalesce(later.project, '') = coalesce(own.project, '') \
               and later.number > own.number where own.id = $1 limit 1";
    let later: Option<i64> = connection.query_first(sql, params![&run.to_string()], |row| row.get(0))?;
    Ok(later.is_some())
}

/// The status that a run has after these records; `None` if they do not change it.
fn find_last_status(records: &[Arc<Record>]) -> Option<StatusColumns<'static>> {
    let (record, status) = records.iter().rev().find_map(|record| Some((record, status_after(&record.event)?)))?;
    let finished_at = matches!(record.event, Event::RunFinished { .. }).then_some(record.at);
    Some(StatusColumns { status: status.name(), finished_at, seq: record.seq })
}

fn set_status(
    connection: &DbConnection,
    locked: &LockedRun,
    run: RunId,
    columns: &StatusColumns<'_>,
) -> Result<(), StoreError> {
    let sql = "update run set status = $1, finished_at = $2, worker = case when $2 is null then worker end, \
               status_seq = $3, status_checksum = $4 where number = $5";
    let finished_at = columns.finished_at.map(|at| at as i64);
    let checksum = columns.checksum(run);
    connection.execute_unchecked(sql, params![columns.status, finished_at, columns.seq, checksum, locked.number])
}

pub(crate) fn write_memory(connection: &DbConnection, namespace: &str, write: &MemoryWrite) -> Result<(), StoreError> {
    flowloom_runtime::failpoint::hit("memory_write_before");
    let set = "insert into memory (namespace, key, value, checksum) values ($1, $2, $3, $4) \
               on conflict (namespace, key) do update set value = excluded.value, checksum = excluded.checksum";
    let forget = "delete from memory where namespace = $1 and key = $2";
    match &write.value {
        Some(value) => {
            let text = render::to_json(value);
            let checksum = memory_checksum(namespace, &write.key, &text);
            connection.execute_unchecked(set, params![namespace, &write.key, &text, checksum])
        }
        None => connection.execute_unchecked(forget, params![namespace, &write.key]),
    }
}
