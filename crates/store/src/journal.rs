//! Implementation of the runtime's journal on a database.

use std::sync::Arc;

use flowloom_core::event::{Event, MemoryWrite, Record, RunCreated};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::JournalError;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, Journal, Lease, Signal, thread_namespace};

use crate::abandoned::is_progress;
use crate::db::{DbConnection, DbRow, params};
use crate::error::{Corruption, StoreError};
use crate::memory_runs::MemoryRuns;
use crate::rows::EventRow;
use crate::store::Store;
use crate::worker::LocalWorker;

impl Journal for Store {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.worker.register_run(run)?;
        Ok(Lease { run, epoch: 1 })
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        Box::pin(async move {
            if let Some(runs) = &self.runs {
                self.worker.register_run(run)?;
                let claimed = runs.claim_run(run);
                if claimed.is_err() {
                    self.worker.unregister_run(run);
                }
                return claimed.map_err(JournalError::from);
            }
            let (seen, living) =
                self.read_with(|db| Ok((read_run_lease(db, run)?, self.worker.living_workers(db)?)))?;
            if seen.worker.as_deref().is_some_and(|worker| self.worker.is_driven_by(worker, run, &living)) {
                return Err(StoreError::RunOwned(run).into());
            }
            self.worker.register_run(run)?;
            let (worker, epoch) = (self.worker.name().to_owned(), seen.epoch);
            let claimed = self
                .writer
                .submit_job(Box::new(move |connection| {
                    // Another process may have claimed it since. Only one claimant finds the epoch it read.
                    let sql = "update run set epoch = epoch + 1, worker = $1, failed_claims = failed_claims + 1 \
                               where id = $2 and epoch = $3";
                    match connection.execute_sql(sql, params![&worker, &run.to_string(), epoch])? {
                        1 => Ok(()),
                        _ => Err(StoreError::RunOwned(run)),
                    }
                }))
                .await;
            match claimed {
                Ok(()) => Ok(Lease { run, epoch: (epoch + 1) as u64 }),
                Err(error) => {
                    self.worker.unregister_run(run);
                    Err(error.into())
                }
            }
        })
    }

    fn release_run(&self, lease: Lease) {
        self.mailboxes.close_mailbox(lease.run);
        if self.worker.unregister_run(lease.run) && self.runs.is_none() {
            let worker = self.worker.name().to_owned();
            // Not awaited: a worker that is gone holds no leases anyway.
            drop(self.writer.append_job(Box::new(move |connection| {
                let sql = "update run set worker = null where id = $1 and epoch = $2 and worker = $3";
                connection.execute_unchecked(sql, params![&lease.run.to_string(), lease.epoch, &worker])
            })));
        }
    }

    fn append_records(&self, lease: Lease, records: Vec<Arc<Record>>) -> AppendResult {
        if let Some(runs) = &self.runs {
            return self.append_in_memory(runs, lease, &records);
        }
        let rows: Result<Vec<EventRow>, StoreError> =
            records.iter().map(|record| EventRow::from_record(record)).collect();
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return AppendResult::Done(Err(error.into())),
        };
        let bundle = records.iter().find_map(|record| match &record.event {
            Event::RunCreated(created) => {
                self.lock_bundles().remove(&created.bundle).map(|text| (created.bundle, text))
            }
            _ => None,
        });
        let batch = AppendBatch { lease, records, rows, bundle, worker: self.worker.clone() };
        let is_over = batch.records.iter().any(|record| matches!(record.event, Event::RunFinished { .. }));
        let appended = self.writer.append_job(Box::new(move |connection| batch.write(connection)));
        if is_over && matches!(appended, AppendResult::Done(Ok(()))) {
            // The final event has cleared the owner column, so releasing the run needs no commit of its own.
            self.worker.unregister_run(lease.run);
        }
        appended
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        Box::pin(async move { Ok(self.read_events(run, after, u32::MAX)?) })
    }

    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        Box::pin(async move {
            let sql = "select key, value from memory where namespace = $1 order by key";
            let rows = self.read_with(|db| {
                db.query_rows(sql, params![namespace], |row| {
                    let key: String = row.get(0)?;
                    let value = parse_memory_value(&key, &row.get::<String>(1)?)?;
                    Ok((key.as_str().into(), value))
                })
            })?;
            Ok(rows.into_iter().collect())
        })
    }

    fn read_memory<'a>(
        &'a self,
        namespace: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        Box::pin(async move {
            let sql = "select value from memory where namespace = $1 and key = $2";
            let value = self.read_with(|db| {
                db.query_first(sql, params![namespace, key], |row| parse_memory_value(key, &row.get::<String>(0)?))
            })?;
            Ok(value)
        })
    }

    fn next_signals(&self, run: RunId) -> Option<BoxFuture<'static, Vec<Signal>>> {
        // Other processes cannot see runs in this process's memory.
        self.runs.is_none().then(|| self.mailboxes.clone().next_signals(run))
    }
}

impl Store {
    /// Appends records to a run in memory; memory writes of users still go to the database.
    fn append_in_memory(&self, runs: &MemoryRuns, lease: Lease, records: &[Arc<Record>]) -> AppendResult {
        let appended = runs.append_records(lease, records);
        let user = runs.run_user(lease.run).unwrap_or_default();
        let writes: Vec<_> = records.iter().flat_map(|record| memory_writes_of(&user, &record.event)).collect();
        if appended.is_err() || writes.is_empty() {
            return AppendResult::Done(appended.map_err(Into::into));
        }
        self.writer.append_job(Box::new(move |connection| {
            writes.iter().try_for_each(|(namespace, write)| write_memory(connection, namespace, write))
        }))
    }
}

/// Memory writes of an event, each with the user that they belong to.
fn memory_writes_of(user: &str, event: &Event) -> Vec<(String, MemoryWrite)> {
    match event {
        Event::RunFinished { thread: Some(thread), .. } => vec![(thread_namespace(user), thread.clone())],
        Event::StepFinished { memory, .. } => memory.iter().map(|write| (user.to_owned(), write.clone())).collect(),
        _ => Vec::new(),
    }
}

struct RunLease {
    epoch: i64,
    worker: Option<String>,
}

fn read_run_lease(connection: &DbConnection, run: RunId) -> Result<RunLease, StoreError> {
    let sql = "select epoch, worker from run where id = $1";
    let read = |row: &DbRow<'_>| Ok(RunLease { epoch: row.get(0)?, worker: row.get(1)? });
    let found = connection.query_first(sql, params![&run.to_string()], read)?;
    found.ok_or_else(|| StoreError::RunNotFound(run))
}

/// One append, ready to be written.
struct AppendBatch {
    lease: Lease,
    records: Vec<Arc<Record>>,
    rows: Vec<EventRow>,
    bundle: Option<(Hash, Arc<str>)>,
    worker: Arc<LocalWorker>,
}

impl AppendBatch {
    fn write(&self, connection: &DbConnection) -> Result<(), StoreError> {
        if let Some((hash, content)) = &self.bundle {
            let sql = "insert into bundle values ($1, $2) on conflict do nothing";
            connection.execute_unchecked(sql, params![&hash.to_string(), &**content])?;
        }
        for record in &self.records {
            if let Event::RunCreated(created) = &record.event {
                self.insert_run(connection, record, created)?;
            }
        }
        let LockedRun { number, user, has_failed_claims } = self.lock_run(connection)?;
        if has_failed_claims && self.records.iter().any(|record| is_progress(record)) {
            connection.execute_unchecked("update run set failed_claims = 0 where number = $1", params![number])?;
        }
        for (row, record) in self.rows.iter().zip(&self.records) {
            row.insert_into(connection, number)?;
            project_event(connection, number, &user, record)?;
        }
        Ok(())
    }

    fn insert_run(&self, connection: &DbConnection, record: &Record, created: &RunCreated) -> Result<(), StoreError> {
        let RunCreated { name, user, workflow, thread_key, .. } = created;
        if let Some(thread_key) = thread_key {
            self.check_turn(connection, user, thread_key)?;
        }
        let sql = "insert into run (id, epoch, worker, created_at, format, name, status, user_id, bundle, workflow, thread_key) \
                   values ($1, $2, $3, $4, $5, $6, 'queued', $7, $8, $9, $10)";
        let (id, bundle) = (record.run.to_string(), created.bundle.to_string());
        let (epoch, worker, format) = (self.lease.epoch, self.worker.name(), created.format.name());
        let params = params![&id, epoch, worker, record.at, format, name, user, &bundle, workflow, thread_key];
        connection.execute_unchecked(sql, params)
    }

    /// Rejects a second turn of a conversation while a living process drives one. A suspended turn does not block
    /// others.
    fn check_turn(&self, connection: &DbConnection, user: &str, thread_key: &str) -> Result<(), StoreError> {
        connection.serialize_changes("turns")?;
        let sql = "select id, worker from run where user_id = $1 and thread_key = $2 and finished_at is null \
                   and status in ('queued', 'running') and worker is not null";
        let others = connection.query_rows(sql, params![user, thread_key], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let living = self.worker.living_workers(connection)?;
        let driven = |(id, worker): (String, String)| {
            RunId::parse(&id).filter(|run| self.worker.is_driven_by(&worker, *run, &living))
        };
        match others.into_iter().find_map(driven) {
            None => Ok(()),
            Some(run) => Err(StoreError::ThreadBusy(run)),
        }
    }

    /// Reads and locks the run's row. Fails with `OwnershipLost` if the lease is no longer valid.
    fn lock_run(&self, connection: &DbConnection) -> Result<LockedRun, StoreError> {
        let sql = "select number, user_id, failed_claims from run where id = $1 and epoch = $2 and worker = $3";
        let run = self.lease.run.to_string();
        let read = |row: &DbRow<'_>| {
            Ok(LockedRun { number: row.get(0)?, user: row.get(1)?, has_failed_claims: row.get_count(2)? > 0 })
        };
        let found =
            connection.query_first_for_update(sql, params![&run, self.lease.epoch, self.worker.name()], read)?;
        found.ok_or_else(|| StoreError::OwnershipLost)
    }
}

/// Columns of a run that an append needs.
struct LockedRun {
    number: i64,
    user: String,
    /// Whether the run made no progress since it was claimed.
    has_failed_claims: bool,
}

fn parse_memory_value(key: &str, text: &str) -> Result<Value, StoreError> {
    parse_value(text)
        .map_err(|error| StoreError::Corrupt(Corruption::Memory { key: key.to_owned(), what: error.to_string() }))
}

/// Updates the other tables that an event affects.
fn project_event(connection: &DbConnection, number: i64, user: &str, record: &Record) -> Result<(), StoreError> {
    match &record.event {
        Event::RunStarted { .. } => set_status(connection, number, "running", None),
        Event::RunSuspended { status } => set_status(connection, number, status.name(), None),
        Event::RunFinished { status, thread, .. } => {
            let store_thread = |thread| write_memory(connection, &thread_namespace(user), thread);
            thread.as_ref().map_or(Ok(()), store_thread)?;
            set_status(connection, number, status.name(), Some(record.at as i64))
        }
        Event::StepFinished { memory, .. } => memory.iter().try_for_each(|write| write_memory(connection, user, write)),
        Event::CancelRequested { .. } | Event::Answered { .. } | Event::Resolved { .. } => {
            connection.execute_unchecked("delete from signal where run = $1", params![&record.run.to_string()])
        }
        _ => Ok(()),
    }
}

fn set_status(connection: &DbConnection, number: i64, status: &str, finished: Option<i64>) -> Result<(), StoreError> {
    let sql =
        "update run set status = $1, finished_at = $2, worker = case when $2 is null then worker end where number = $3";
    connection.execute_unchecked(sql, params![status, finished, number])
}

pub(crate) fn write_memory(connection: &DbConnection, namespace: &str, write: &MemoryWrite) -> Result<(), StoreError> {
    let set =
        "insert into memory values ($1, $2, $3) on conflict (namespace, key) do update set value = excluded.value";
    let forget = "delete from memory where namespace = $1 and key = $2";
    match &write.value {
        Some(value) => connection.execute_unchecked(set, params![namespace, &write.key, &render::to_json(value)]),
        None => connection.execute_unchecked(forget, params![namespace, &write.key]),
    }
}
