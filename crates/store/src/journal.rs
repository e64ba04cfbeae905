//! The runtime's journal on SQLite.

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
use rusqlite::{Connection, OptionalExtension, params};

use crate::Store;
use crate::failure::failed;
use crate::memory::MemoryRuns;
use crate::owner::owned;
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
            let seen = {
                let reader = self.reader();
                rows::number(&reader, run)?;
                current(&reader, run).map_err(failed)?
            };
            if seen.owner.as_deref().is_some_and(|owner| self.owner.drives(owner, run)) {
                return Err(owned(run));
            }
            self.owner.take(run)?;
            let (owner, epoch) = (self.owner.name().to_owned(), seen.epoch);
            let claimed = self
                .writer
                .submit(Box::new(move |connection| {
                    // Another process may have claimed it since; only one of us finds the epoch it saw.
                    let sql = "update run set epoch = epoch + 1, owner = ? where id = ? and epoch = ?";
                    let changed = connection.execute(sql, params![owner, run.to_string(), epoch])?;
                    Ok(if changed == 1 { Ok(()) } else { Err(owned(run)) })
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
            // Nobody waits for this: an owner that is gone owns nothing anyway.
            drop(self.writer.append(Box::new(move |connection| {
                let sql = "update run set owner = null where id = ? and epoch = ? and owner is not null";
                connection.prepare_cached(sql)?.execute(params![lease.run.to_string(), lease.epoch as i64])?;
                Ok(Ok(()))
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
        let batch = Batch { lease, records, rows, bundle, owner: self.owner.name().to_owned() };
        let is_over = batch.records.iter().any(|record| matches!(record.event, Event::RunFinished { .. }));
        let appended = self.writer.append(Box::new(move |connection| batch.write(connection)));
        if is_over && matches!(appended, Append::Done(Ok(()))) {
            // The end has taken the owner out of its row, so that giving the run up needs no commit of its own.
            self.owner.drop_run(lease.run);
        }
        appended
    }

    fn read(&self, run: RunId, after: u64) -> Boxed<'_, Result<Vec<Arc<Record>>, StepError>> {
        Box::pin(async move { self.events(run, after, usize::MAX) })
    }

    fn memories<'a>(&'a self, owner: &'a str) -> Boxed<'a, Result<Map, StepError>> {
        Box::pin(async move {
            let reader = self.reader();
            let sql = "select key, value from memory where holder = ? order by key";
            let mut statement = reader.prepare_cached(sql).map_err(failed)?;
            let rows = statement.query_map([owner], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
            let rows: Vec<_> = rows.and_then(Iterator::collect).map_err(failed)?;
            rows.into_iter().map(|(key, text)| Ok((key.as_str().into(), kept_value(&key, &text)?))).collect()
        })
    }

    fn memory<'a>(&'a self, owner: &'a str, key: &'a str) -> Boxed<'a, Result<Option<Value>, StepError>> {
        Box::pin(async move {
            let sql = "select value from memory where holder = ? and key = ?";
            let reader = self.reader();
            let mut statement = reader.prepare_cached(sql).map_err(failed)?;
            let text: Option<String> =
                statement.query_row(params![owner, key], |row| row.get(0)).optional().map_err(failed)?;
            text.map(|text| kept_value(key, &text)).transpose()
        })
    }

    fn wishes(&self, run: RunId) -> Option<Boxed<'static, Vec<Wish>>> {
        // Other processes do not see runs that are kept in this one.
        self.runs.is_none().then(|| self.mailboxes.clone().next(run))
    }
}

impl Store {
    /// Keeps records in memory; what they say of users' memories goes into the database.
    fn append_in_memory(&self, runs: &MemoryRuns, lease: Lease, records: &[Arc<Record>]) -> Append {
        let kept = runs.append(lease, records);
        let holder = runs.run(lease.run).map(|row| row.holder).unwrap_or_default();
        let writes: Vec<_> = records.iter().flat_map(|record| remembered(&holder, &record.event)).collect();
        if kept.is_err() || writes.is_empty() {
            return Append::Done(kept);
        }
        self.writer.append(Box::new(move |connection| {
            writes.iter().try_for_each(|(holder, write)| remember(connection, holder, write)).map(Ok)
        }))
    }
}

/// What an event keeps for its user, and under whose name.
fn remembered(holder: &str, event: &Event) -> Vec<(String, MemoryWrite)> {
    match event {
        Event::RunFinished { said: Some(said), .. } => vec![(thread_holder(holder), said.clone())],
        Event::StepFinished { memory, .. } => memory.iter().map(|write| (holder.to_owned(), write.clone())).collect(),
        _ => Vec::new(),
    }
}

/// Why a process that no longer owns a run stops.
pub(crate) fn lost() -> StepError {
    StepError::new(Code::OwnershipLost, "another process took the run over; this one stops without writing")
}

struct Current {
    epoch: i64,
    owner: Option<String>,
}

fn current(connection: &Connection, run: RunId) -> rusqlite::Result<Current> {
    let mut statement = connection.prepare_cached("select epoch, owner from run where id = ?")?;
    statement.query_row([run.to_string()], |row| Ok(Current { epoch: row.get(0)?, owner: row.get(1)? }))
}

/// One append, ready to be written.
struct Batch {
    lease: Lease,
    records: Vec<Arc<Record>>,
    rows: Vec<Stored>,
    bundle: Option<(Hash, Arc<str>)>,
    owner: String,
}

impl Batch {
    fn write(&self, connection: &Connection) -> Result<Result<(), StepError>, rusqlite::Error> {
        if let Some((hash, content)) = &self.bundle {
            let sql = "insert or ignore into bundle values (?, ?)";
            connection.prepare_cached(sql)?.execute(params![hash.to_string(), content])?;
        }
        for record in &self.records {
            if let Event::RunCreated(created) = &record.event {
                self.create(connection, record, created)?;
            }
        }
        let sql = "select number, holder from run where id = ? and epoch = ?";
        let mut statement = connection.prepare_cached(sql)?;
        let key = params![self.lease.run.to_string(), self.lease.epoch as i64];
        let found = statement.query_row(key, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))).optional()?;
        let Some((number, holder)) = found else {
            return Ok(Err(lost()));
        };
        for (row, record) in self.rows.iter().zip(&self.records) {
            row.insert(connection, number)?;
            project(connection, number, &holder, record)?;
        }
        Ok(Ok(()))
    }

    fn create(&self, connection: &Connection, record: &Record, created: &RunCreated) -> rusqlite::Result<()> {
        let sql = "insert into run (id, epoch, owner, created_at, format, name, status, holder, bundle) \
                   values (?, ?, ?, ?, ?, ?, 'queued', ?, ?)";
        connection.prepare_cached(sql)?.execute(params![
            record.run.to_string(),
            self.lease.epoch as i64,
            self.owner,
            record.at as i64,
            created.format.name(),
            created.name,
            created.owner,
            created.bundle.to_string(),
        ])?;
        Ok(())
    }
}

fn kept_value(key: &str, text: &str) -> Result<Value, StepError> {
    parse_value(text)
        .map_err(|error| StepError::new(Code::StoreCorrupt, format!("the memory {key:?} is damaged: {error}")))
}

/// What an event means for the other tables.
fn project(connection: &Connection, number: i64, holder: &str, record: &Record) -> rusqlite::Result<()> {
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
            connection.prepare_cached("delete from wish where run = ?")?.execute([record.run.to_string()])?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn set_status(connection: &Connection, number: i64, status: &str, finished: Option<i64>) -> rusqlite::Result<()> {
    let sql = "update run set status = ?1, finished_at = ?2, owner = iif(?2 is null, owner, null) where number = ?3";
    connection.prepare_cached(sql)?.execute(params![status, finished, number])?;
    Ok(())
}

pub(crate) fn remember(connection: &Connection, holder: &str, write: &MemoryWrite) -> rusqlite::Result<()> {
    let set = "insert into memory values (?, ?, ?) on conflict do update set value = excluded.value";
    let forget = "delete from memory where holder = ? and key = ?";
    match &write.value {
        Some(value) => connection.prepare_cached(set)?.execute(params![holder, write.key, render::json(value)])?,
        None => connection.prepare_cached(forget)?.execute(params![holder, write.key])?,
    };
    Ok(())
}
