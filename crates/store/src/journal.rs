//! Implementation of the runtime's journal on a database.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flowloom_core::event::{Event, MemoryWrite, ParentStep, Record};
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::JournalError;
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease, LeaseState, LeaseTerm, thread_namespace};
use flowloom_runtime::relay::TextRelay;

use crate::batch::{BatchEffects, BatchWrite, write_memory};
use crate::checksum::memory_checksum;
use crate::commands::{Mailboxes, check_parent};
use crate::db::{DbConnection, DbRow, params};
use crate::error::{Corruption, StoreError};
use crate::event_row::EventRow;
use crate::memory_runs::MemoryRuns;
use crate::store::Store;
use crate::worker::{LocalWorker, NOBODY, build_claim_sql};
use crate::writer::{MAX_APPEND_WAIT, MAX_REQUEST_WAIT};

impl Journal for Store {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.worker.register_run(run)?;
        let lease = Lease { run, epoch: 1 };
        self.mailboxes.open_mailbox(lease);
        Ok(lease)
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        Box::pin(self.claim_run_for(run, None))
    }

    fn claim_child_run(&self, run: RunId, parent: ParentStep) -> BoxFuture<'_, Result<Lease, JournalError>> {
        Box::pin(self.claim_run_for(run, Some(parent)))
    }

    fn release_run(&self, lease: Lease) {
        if !self.unregister_run(lease.run) {
            return;
        }
        match &self.runs {
            Some(runs) => runs.release_run(lease),
            None => {
                let worker = self.worker.name().to_owned();
                // Not awaited: a worker that is gone holds no leases anyway.
                drop(self.writer.submit_job(Box::new(move |connection| {
                    let sql = "update run set worker = null, failed_claims = 0 \
                               where id = $1 and epoch = $2 and worker = $3";
                    connection.execute_unchecked(sql, params![&lease.run.to_string(), lease.epoch, &worker])
                })));
            }
        }
    }

    fn abandon_run(&self, lease: Lease) {
        self.unregister_run(lease.run);
    }

    fn lease_term(&self) -> LeaseTerm {
        self.worker.lease_term()
    }

    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        let is_decision = !batch.decided.is_empty();
        let effects = Arc::new(BatchEffects::default());
        let appended = match &self.runs {
            Some(runs) => self.append_in_memory(runs, lease, &batch, &effects),
            None => self.append_to_database(lease, batch, &effects),
        };
        // Most batches keep the lease and decide nothing, so nothing needs to wait until they are stored.
        let finish = AppendFinish {
            lease,
            is_decision,
            effects,
            worker: self.worker.clone(),
            mailboxes: self.mailboxes.clone(),
        };
        match appended {
            AppendResult::Done(done) => {
                AppendResult::Done(done.inspect(|lease_state| finish.note_stored(*lease_state)))
            }
            AppendResult::Later(later) => AppendResult::Later(Box::pin(async move {
                later.await.inspect(|lease_state| finish.note_stored(*lease_state))
            })),
        }
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        Box::pin(async move { Ok(self.read_events(run, after, u32::MAX)?) })
    }

    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        Box::pin(async move { Ok(self.read_with(|db| read_memory_entries(db, namespace))?) })
    }

    fn read_memory<'a>(
        &'a self,
        namespace: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        Box::pin(async move {
            let sql = "select value, checksum from memory where namespace = $1 and key = $2";
            let value = self.read_with(|db| {
                db.query_first(sql, params![namespace, key], |row| {
                    parse_memory(namespace, key, &row.get::<String>(0)?, row.get(1)?)
                })
            })?;
            Ok(value)
        })
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        Box::pin(async move { Ok(self.read_pending_commands(run)?) })
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        self.mailboxes.next_commands(run)
    }

    fn text_relay(&self) -> Option<Arc<dyn TextRelay>> {
        self.text_relay.clone()
    }
}

/// A claim in progress. Dropping it unregisters the run, so that a cancelled claim does not leave a run that is registered
/// here, without a driver, and closed to other workers.
pub(crate) struct UnfinishedClaim<'a> {
    store: &'a Store,
    run: RunId,
    is_finished: bool,
}

impl<'a> UnfinishedClaim<'a> {
    /// Registers a run. Fails with `RunOwned` if this process drives it already.
    pub(crate) fn register_run(store: &'a Store, run: RunId) -> Result<UnfinishedClaim<'a>, StoreError> {
        store.worker.register_run(run)?;
        Ok(UnfinishedClaim { store, run, is_finished: false })
    }

    /// Finishes a claim whose mailbox is open.
    pub(crate) fn keep_claim(mut self) {
        self.is_finished = true;
    }

    /// Finishes the claim; see [`Store::finish_claim`].
    pub(crate) fn finish_claim(mut self, claimed: Result<Lease, StoreError>) -> Result<Lease, StoreError> {
        self.is_finished = true;
        self.store.finish_claim(self.run, claimed)
    }
}

impl Drop for UnfinishedClaim<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.store.unregister_run(self.run);
        }
    }
}

impl Store {
    /// Claims a run, for the step `parent` if there is one.
    async fn claim_run_for(&self, run: RunId, parent: Option<ParentStep>) -> Result<Lease, JournalError> {
        if let Some(runs) = &self.runs {
            self.worker.register_run(run)?;
            return Ok(self.finish_claim(run, runs.claim_run(run, parent.as_ref()))?);
        }
        let seen = self.read_free_lease(run)?;
        let claim = UnfinishedClaim::register_run(self, run)?;
        flowloom_runtime::failpoint::hit("claim_before");
        let lease = Lease { run, epoch: (seen.epoch + 1) as u64 };
        let claimant = self.worker.clone();
        let write = move |connection: &DbConnection| {
            if let Some(parent) = &parent {
                check_parent(connection, parent)?;
            }
            write_claim(connection, &claimant, run, &seen)
        };
        let claimed = self.writer.submit_job(Box::new(write)).await;
        flowloom_runtime::failpoint::hit("claim_after");
        Ok(claim.finish_claim(claimed.map(|()| lease))?)
    }

    /// The lease of a run that no living worker drives. Fails with `RunOwned` if one does.
    fn read_free_lease(&self, run: RunId) -> Result<RunLease, JournalError> {
        let (seen, living) = self.read_with(|db| Ok((read_run_lease(db, run)?, self.worker.living_workers(db)?)))?;
        match seen.worker.as_deref() {
            Some(worker) if self.worker.is_driven_by(worker, run, &living) => Err(JournalError::RunOwned(run)),
            _ => Ok(seen),
        }
    }

    /// Opens the mailbox of a run that was claimed, or forgets the run if it was not.
    pub(crate) fn finish_claim(&self, run: RunId, claimed: Result<Lease, StoreError>) -> Result<Lease, StoreError> {
        match &claimed {
            Ok(lease) => self.mailboxes.open_mailbox(*lease),
            Err(_) => drop(self.unregister_run(run)),
        }
        claimed
    }

    /// Forgets that this process drives a run; `false` if it does not.
    fn unregister_run(&self, run: RunId) -> bool {
        self.mailboxes.close_mailbox(run);
        self.worker.unregister_run(run)
    }

    fn append_to_database(&self, lease: Lease, batch: Batch, effects: &Arc<BatchEffects>) -> AppendResult {
        let rows: Result<Vec<EventRow>, StoreError> =
            batch.records.iter().map(|record| EventRow::from_record(record)).collect();
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return AppendResult::Done(Err(error.into())),
        };
        let bundle = batch.records.iter().find_map(|record| match &record.event {
            Event::RunCreated(created) => self.bundles.take_bundle(created.bundle).map(|text| (created.bundle, text)),
            _ => None,
        });
        // A caller waits for a new run. A run in progress has no other way to continue, and the lease is checked at the end
        // of the outage.
        let max_wait = if creates_run(&batch) { MAX_REQUEST_WAIT } else { MAX_APPEND_WAIT };
        let (effects, done) = (effects.clone(), effects.clone());
        let (worker, quotas) = (self.worker.clone(), self.quotas.clone());
        let write = BatchWrite { lease, batch, rows, bundle, worker, quotas, effects };
        self.writer.append_job(Box::new(move |connection| write.write(connection)), max_wait, move || {
            if done.is_released.load(Ordering::Relaxed) { LeaseState::Released } else { LeaseState::Held }
        })
    }

    /// Appends a batch to a run in memory; memory writes of users still go to the database.
    fn append_in_memory(&self, runs: &MemoryRuns, lease: Lease, batch: &Batch, effects: &BatchEffects) -> AppendResult {
        let lease_state = match runs.append_batch(lease, batch) {
            Ok((lease_state, caused)) => {
                *effects.lock_caused() = caused;
                lease_state
            }
            Err(error) => return AppendResult::Done(Err(error.into())),
        };
        if !batch.records.iter().any(|record| writes_memory(&record.event)) {
            return AppendResult::Done(Ok(lease_state));
        }
        let owner = runs.memory_owner(lease.run).unwrap_or_default();
        let is_end = |record: &Arc<Record>| matches!(record.event, Event::RunFinished { .. });
        let is_superseded = batch.records.iter().any(is_end) && runs.has_later_turn(lease.run);
        let records = batch.records.iter().filter(|record| !(is_superseded && is_end(record)));
        let writes: Vec<_> = records.flat_map(|record| memory_writes_of(&owner, &record.event)).collect();
        let write = move |connection: &DbConnection| {
            writes.iter().try_for_each(|(namespace, write)| write_memory(connection, namespace, write))
        };
        self.writer.append_job(Box::new(write), MAX_APPEND_WAIT, move || lease_state)
    }
}

fn creates_run(batch: &Batch) -> bool {
    batch.records.iter().any(|record| matches!(record.event, Event::RunCreated(_)))
}

/// The work of this process after a batch is stored.
struct AppendFinish {
    lease: Lease,
    is_decision: bool,
    effects: Arc<BatchEffects>,
    worker: Arc<LocalWorker>,
    mailboxes: Arc<Mailboxes>,
}

impl AppendFinish {
    fn note_stored(&self, lease_state: LeaseState) {
        let run = self.lease.run;
        if lease_state == LeaseState::Released {
            self.mailboxes.close_mailbox(run);
            self.worker.unregister_run(run);
        }
        // The end of a run rejects the commands that are left.
        if self.is_decision || lease_state == LeaseState::Released {
            self.mailboxes.wake_waiting(run);
        }
        if let Some(stored) = self.effects.lock_run().take() {
            self.worker.remember_stored_run(run, stored);
        }
        let caused = std::mem::take(&mut *self.effects.lock_caused());
        caused.into_iter().for_each(|caused| self.mailboxes.deliver_command(caused));
    }
}

/// Whether an event changes the memory of a user.
fn writes_memory(event: &Event) -> bool {
    match event {
        Event::RunFinished { thread, .. } => thread.is_some(),
        Event::StepFinished { memory, reused: false, .. } => !memory.is_empty(),
        _ => false,
    }
}

/// Memory writes of an event, each with its namespace.
pub fn memory_writes_of(owner: &str, event: &Event) -> Vec<(String, MemoryWrite)> {
    match event {
        Event::RunFinished { thread: Some(thread), .. } => vec![(thread_namespace(owner), thread.clone())],
        Event::StepFinished { memory, reused: false, .. } => {
            memory.iter().map(|write| (owner.to_owned(), write.clone())).collect()
        }
        _ => Vec::new(),
    }
}

/// The lease of a run as stored.
pub(crate) struct RunLease {
    pub(crate) epoch: i64,
    pub(crate) worker: Option<String>,
}

/// Gives a run to a worker that has seen this lease. Fails with `RunOwned` if the earlier worker lives, or if another one was
/// faster.
fn write_claim(
    connection: &DbConnection,
    claimant: &LocalWorker,
    run: RunId,
    seen: &RunLease,
) -> Result<(), StoreError> {
    // The job may have waited for the end of an outage, in which no worker could renew a lease.
    if let Some(earlier) = seen.worker.as_deref().filter(|earlier| *earlier != NOBODY)
        && (!claimant.can_identify_dead_workers() || claimant.has_come_back(connection, run, earlier)?)
    {
        return Err(JournalError::RunOwned(run).into());
    }
    // Another process may have claimed it since. Only one claimant finds the epoch it read.
    // A lease of another worker that was not released is one of a worker that died.
    let sql = build_claim_sql("id = $2 and epoch = $3");
    match connection.execute_sql(&sql, params![&claimant.name().to_owned(), &run.to_string(), seen.epoch])? {
        1 => Ok(()),
        _ => Err(JournalError::RunOwned(run).into()),
    }
}

pub(crate) fn read_run_lease(connection: &DbConnection, run: RunId) -> Result<RunLease, StoreError> {
    let sql = "select epoch, worker from run where id = $1";
    let read = |row: &DbRow<'_>| Ok(RunLease { epoch: row.get(0)?, worker: row.get(1)? });
    let found = connection.query_first(sql, params![&run.to_string()], read)?;
    found.ok_or_else(|| JournalError::RunNotFound(run).into())
}

/// The entries of a namespace, sorted by key. Fails with `StoreCorrupt`, or if the database cannot be read.
pub(crate) fn read_memory_entries(connection: &DbConnection, namespace: &str) -> Result<Map, StoreError> {
    let sql = "select key, value, checksum from memory where namespace = $1 order by key";
    let rows = connection.query_rows(sql, params![namespace], |row| {
        let key: String = row.get(0)?;
        let value = parse_memory(namespace, &key, &row.get::<String>(1)?, row.get(2)?)?;
        Ok((key.as_str().into(), value))
    })?;
    Ok(rows.into_iter().collect())
}

/// Verifies and parses an entry of a memory. Fails with `StoreCorrupt`.
pub(crate) fn parse_memory(namespace: &str, key: &str, text: &str, checksum: i64) -> Result<Value, StoreError> {
    let corrupt = |what: String| StoreError::Corrupt(Corruption::Memory { key: key.to_owned(), what });
    if memory_checksum(namespace, key, text) != checksum {
        return Err(corrupt("its checksum is wrong".to_owned()));
    }
    parse_value(text).map_err(|error| corrupt(error.to_string()))
}
