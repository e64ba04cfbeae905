//! Implementation of the runtime's journal on a database.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::{Event, MemoryWrite, Record, RunCreated};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::json::parse_value;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::Boxed;
use flowloom_runtime::journal::{Append, Journal, Lease, Wish, thread_holder};

use crate::Store;
use crate::db::{Connection, Error, Row, params};
use crate::memory::MemoryRuns;
use crate::orphans::is_progress;
use crate::owner::{Owner, owned};
use crate::rows::{self, Stored};

impl Journal for Store {
    fn begin(&self, run: RunId) -> Result<Lease, StepError> {
        self.owner.take(run)?;
        Ok(Lease { run, epoch: 1 })
    }

    fn claim(&self, run: RunId) -> Boxed<'_, Result<Lease, StepError>> {
        Box::pin(async move {
            if let Some(runs) = &self.runs {
                self.owner.take(run)?;
                let claimed = runs.claim(run);
                if claimed.is_err() {
                    self.owner.drop_run(run);
                }
                return claimed;
            }
            let (seen, living) = self.read_with(|db| Ok((current(db, run)?, self.owner.living(db)?)))?;
            if seen.owner.as_deref().is_some_and(|owner| self.owner.drives(owner, run, &living)) {
                return Err(owned(run));
            }
            self.owner.take(run)?;
            let (owner, epoch) = (self.owner.name().to_owned(), seen.epoch);
            let claimed = self
                .writer
                .submit(Box::new(move |connection| {
                    // Another process may have claimed it since. Only one claimant finds the epoch it read.
                    let sql = "update run set epoch = epoch + 1, owner = $1, fruitless = fruitless + 1 \
                               where id = $2 and epoch = $3";
                    match connection.execute(sql, params![&owner, &run.to_string(), epoch])? {
                        1 => Ok(()),
                        _ => Err(owned(run).into()),
                    }
                }))
                .await;
            match claimed {
                Ok(()) => Ok(Lease { run, epoch: (epoch + 1) as u64 }),
                Err(error) => {
                    self.owner.drop_run(run);
                    Err(error)
                }
            }
        })
    }

    fn release(&self, lease: Lease) {
        self.mailboxes.close(lease.run);
        if self.owner.drop_run(lease.run) && self.runs.is_none() {
            let owner = self.owner.name().to_owned();
            // Not awaited: a worker that is gone holds no leases anyway.
            drop(self.writer.append(Box::new(move |connection| {
                let sql = "update run set owner = null where id = $1 and epoch = $2 and owner = $3";
                connection.put(sql, params![&lease.run.to_string(), lease.epoch, &owner])
            })));
        }
    }

    fn append(&self, lease: Lease, records: Vec<Arc<Record>>) -> Append {
        if let Some(runs) = &self.runs {
            return self.append_in_memory(runs, lease, &records);
        }
        let rows: Result<Vec<Stored>, StepError> = records.iter().map(|record| Stored::of(record)).collect();
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return Append::Done(Err(error)),
        };
        let bundle = records.iter().find_map(|record| match &record.event {
            Event::RunCreated(created) => self.bundles().remove(&created.bundle).map(|text| (created.bundle, text)),
            _ => None,
        });
        let batch = Batch { lease, records, rows, bundle, owner: self.owner.clone() };
        let is_over = batch.records.iter().any(|record| matches!(record.event, Event::RunFinished { .. }));
        let appended = self.writer.append(Box::new(move |connection| batch.write(connection)));
        if is_over && matches!(appended, Append::Done(Ok(()))) {
            // The final event has cleared the owner column, so releasing the run needs no commit of its own.
            self.owner.drop_run(lease.run);
        }
        appended
    }

    fn read(&self, run: RunId, after: u64) -> Boxed<'_, Result<Vec<Arc<Record>>, StepError>> {
        Box::pin(async move { self.events(run, after, u32::MAX) })
    }

    fn memories<'a>(&'a self, owner: &'a str) -> Boxed<'a, Result<Map, StepError>> {
        Box::pin(async move {
            let sql = "select key, value from memory where holder = $1 order by key";
            let rows = self.read_with(|db| {
                db.query(sql, params![owner], |row| {
                    let key: String = row.get(0)?;
                    let value = kept_value(&key, &row.get::<String>(1)?)?;
                    Ok((key.as_str().into(), value))
                })
            })?;
            Ok(rows.into_iter().collect())
        })
    }

    fn memory<'a>(&'a self, owner: &'a str, key: &'a str) -> Boxed<'a, Result<Option<Value>, StepError>> {
        Box::pin(async move {
            let sql = "select value from memory where holder = $1 and key = $2";
            self.read_with(|db| db.first(sql, params![owner, key], |row| Ok(kept_value(key, &row.get::<String>(0)?)?)))
        })
    }

    fn wishes(&self, run: RunId) -> Option<Boxed<'static, Vec<Wish>>> {
        // Other processes cannot see runs in this process's memory.
        self.runs.is_none().then(|| self.mailboxes.clone().next(run))
    }
}

impl Store {
    /// Appends records to a run in memory; memory writes of users still go to the database.
    fn append_in_memory(&self, runs: &MemoryRuns, lease: Lease, records: &[Arc<Record>]) -> Append {
        let kept = runs.append(lease, records);
        let holder = runs.holder(lease.run).unwrap_or_default();
        let writes: Vec<_> = records.iter().flat_map(|record| remembered(&holder, &record.event)).collect();
        if kept.is_err() || writes.is_empty() {
            return Append::Done(kept);
        }
        self.writer.append(Box::new(move |connection| {
            writes.iter().try_for_each(|(holder, write)| remember(connection, holder, write))
        }))
    }
}

/// Memory writes of an event, each with the user that they belong to.
fn remembered(holder: &str, event: &Event) -> Vec<(String, MemoryWrite)> {
    match event {
        Event::RunFinished { said: Some(said), .. } => vec![(thread_holder(holder), said.clone())],
        Event::StepFinished { memory, .. } => memory.iter().map(|write| (holder.to_owned(), write.clone())).collect(),
        _ => Vec::new(),
    }
}

/// Error of a process that no longer holds the lease of a run.
pub(crate) fn lost() -> StepError {
    StepError::new(Code::OwnershipLost, "another process has taken over the run; this one stops without writing")
}

struct Current {
    epoch: i64,
    owner: Option<String>,
}

fn current(connection: &Connection, run: RunId) -> Result<Current, Error> {
    let sql = "select epoch, owner from run where id = $1";
    let read = |row: &Row<'_>| Ok(Current { epoch: row.get(0)?, owner: row.get(1)? });
    let found = connection.first(sql, params![&run.to_string()], read)?;
    found.ok_or_else(|| rows::unknown(run).into())
}

/// One append, ready to be written.
struct Batch {
    lease: Lease,
    records: Vec<Arc<Record>>,
    rows: Vec<Stored>,
    bundle: Option<(Hash, Arc<str>)>,
    owner: Arc<Owner>,
}

impl Batch {
    fn write(&self, connection: &Connection) -> Result<(), Error> {
        if let Some((hash, content)) = &self.bundle {
            let sql = "insert into bundle values ($1, $2) on conflict do nothing";
            connection.put(sql, params![&hash.to_string(), &**content])?;
        }
        for record in &self.records {
            if let Event::RunCreated(created) = &record.event {
                self.create(connection, record, created)?;
            }
        }
        let Own { number, holder, is_fruitless } = self.own(connection)?;
        if is_fruitless && self.records.iter().any(|record| is_progress(record)) {
            connection.put("update run set fruitless = 0 where number = $1", params![number])?;
        }
        for (row, record) in self.rows.iter().zip(&self.records) {
            row.insert(connection, number)?;
            project(connection, number, &holder, record)?;
        }
        Ok(())
    }

    fn create(&self, connection: &Connection, record: &Record, created: &RunCreated) -> Result<(), Error> {
        let RunCreated { name, owner: holder, workflow, keep, .. } = created;
        if let Some(keep) = keep {
            self.take_turn(connection, holder, keep)?;
        }
        let sql = "insert into run (id, epoch, owner, created_at, format, name, status, holder, bundle, workflow, keep) \
                   values ($1, $2, $3, $4, $5, $6, 'queued', $7, $8, $9, $10)";
        let (id, bundle) = (record.run.to_string(), created.bundle.to_string());
        let (epoch, owner, format) = (self.lease.epoch, self.owner.name(), created.format.name());
        let params = params![&id, epoch, owner, record.at, format, name, holder, &bundle, workflow, keep];
        connection.put(sql, params)
    }

    /// Rejects a second turn of a conversation while a living process drives one. A suspended turn does not block
    /// others.
    fn take_turn(&self, connection: &Connection, holder: &str, keep: &str) -> Result<(), Error> {
        connection.one_at_a_time("turns")?;
        let sql = "select id, owner from run where holder = $1 and keep = $2 and finished_at is null \
                   and status in ('queued', 'running') and owner is not null";
        let others = connection.query(sql, params![holder, keep], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let living = self.owner.living(connection)?;
        let driven =
            |(id, owner): (String, String)| RunId::parse(&id).filter(|run| self.owner.drives(&owner, *run, &living));
        match others.into_iter().find_map(driven) {
            None => Ok(()),
            Some(run) => {
                let message =
                    format!("the conversation already has a turn in progress (run {run}); wait until it ends");
                Err(StepError::new(Code::RunOwned, message).into())
            }
        }
    }

    /// Reads and locks the run's row. Fails with `OwnershipLost` if the lease is no longer valid.
    fn own(&self, connection: &Connection) -> Result<Own, Error> {
        let sql = "select number, holder, fruitless from run where id = $1 and epoch = $2 and owner = $3";
        let run = self.lease.run.to_string();
        let read =
            |row: &Row<'_>| Ok(Own { number: row.get(0)?, holder: row.get(1)?, is_fruitless: row.count(2)? > 0 });
        let found = connection.first_for_update(sql, params![&run, self.lease.epoch, self.owner.name()], read)?;
        found.ok_or_else(|| lost().into())
    }
}

/// Columns of a run that an append needs.
struct Own {
    number: i64,
    holder: String,
    /// Whether the run made no progress since it was claimed.
    is_fruitless: bool,
}

fn kept_value(key: &str, text: &str) -> Result<Value, StepError> {
    parse_value(text)
        .map_err(|error| StepError::new(Code::StoreCorrupt, format!("the memory entry {key:?} is damaged: {error}")))
}

/// Updates the other tables that an event affects.
fn project(connection: &Connection, number: i64, holder: &str, record: &Record) -> Result<(), Error> {
    match &record.event {
        Event::RunStarted { .. } => set_status(connection, number, "running", None),
        Event::RunSuspended { status } => set_status(connection, number, status.name(), None),
        Event::RunFinished { status, said, .. } => {
            let keep = |said| remember(connection, &thread_holder(holder), said);
            said.as_ref().map_or(Ok(()), keep)?;
            set_status(connection, number, status.name(), Some(record.at as i64))
        }
        Event::StepFinished { memory, .. } => memory.iter().try_for_each(|write| remember(connection, holder, write)),
        Event::CancelRequested { .. } | Event::Answered { .. } | Event::Resolved { .. } => {
            connection.put("delete from wish where run = $1", params![&record.run.to_string()])
        }
        _ => Ok(()),
    }
}

fn set_status(connection: &Connection, number: i64, status: &str, finished: Option<i64>) -> Result<(), Error> {
    let sql =
        "update run set status = $1, finished_at = $2, owner = case when $2 is null then owner end where number = $3";
    connection.put(sql, params![status, finished, number])
}

pub(crate) fn remember(connection: &Connection, holder: &str, write: &MemoryWrite) -> Result<(), Error> {
    let set = "insert into memory values ($1, $2, $3) on conflict (holder, key) do update set value = excluded.value";
    let forget = "delete from memory where holder = $1 and key = $2";
    match &write.value {
        Some(value) => connection.put(set, params![holder, &write.key, &render::json(value)]),
        None => connection.put(forget, params![holder, &write.key]),
    }
}
