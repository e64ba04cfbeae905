//! Computes the checksums of the rows that older versions wrote, in the transaction of the migration.

use flowloom_core::id::RunId;

use crate::checksum::{EventColumns, RunColumns, StatusColumns, memory_checksum};
use crate::db::{DbRow, MigratedDatabase, params};
use crate::error::StoreError;
use crate::event_row::MAX_EVENTS_PER_RUN;

/// Rows read at a time.
const BATCH_ROWS: u32 = 1000;

/// Sets the checksum of every row. A row that cannot be read keeps its checksum of 0, so it is reported as damaged.
pub(crate) fn migrate_checksums(db: &impl MigratedDatabase) -> Result<(), StoreError> {
    let mut number = 0;
    loop {
        let sql = "select number, id, created_at, format, name, user_id, bundle, workflow, thread_key, status, finished_at \
                   from run where number > $1 order by number limit $2";
        let runs = db.query_batch(sql, params![number, BATCH_ROWS], OldRun::read)?;
        let Some(last) = runs.last() else { break };
        number = last.number;
        runs.iter().try_for_each(|run| run.migrate(db))?;
    }
    migrate_memory(db)
}

/// A run as an older version stored it.
struct OldRun {
    number: i64,
    id: Option<RunId>,
    checksum: i64,
    status: String,
    finished_at: Option<u64>,
}

impl OldRun {
    fn read(row: &DbRow<'_>) -> Result<OldRun, StoreError> {
        let id = RunId::parse(&row.get::<String>(1)?);
        let (format, name, user): (String, String, String) = (row.get(3)?, row.get(4)?, row.get(5)?);
        let (bundle, workflow): (String, Option<String>) = (row.get(6)?, row.get(7)?);
        let thread_key: Option<String> = row.get(8)?;
        let created_at = row.get_count(2)?;
        let checksum = id.map(|id| {
            let columns = RunColumns {
                id,
                created_at,
                format: &format,
                name: &name,
                user: &user,
                bundle: &bundle,
                workflow: workflow.as_deref(),
                thread_key: thread_key.as_deref(),
                parent: None,
                project: None,
                forked_from: None,
                trigger: None,
            };
            columns.checksum()
        });
        let finished_at = row.get::<Option<i64>>(10)?.map(|at| at as u64);
        Ok(OldRun { number: row.get(0)?, id, checksum: checksum.unwrap_or(0), status: row.get(9)?, finished_at })
    }

    fn migrate(&self, db: &impl MigratedDatabase) -> Result<(), StoreError> {
        let Some(id) = self.id else { return Ok(()) };
        let seq = self.migrate_events(db, id)?;
        let status = StatusColumns { status: &self.status, finished_at: self.finished_at, seq };
        let sql = "update run set checksum = $1, status_seq = $2, status_checksum = $3 where number = $4";
        db.execute_statement(sql, params![self.checksum, seq, status.checksum(id), self.number])
    }

    /// Returns the position of the last event.
    fn migrate_events(&self, db: &impl MigratedDatabase, run: RunId) -> Result<u64, StoreError> {
        let first = self.number * MAX_EVENTS_PER_RUN;
        let mut seq = 0;
        loop {
            let sql = "select id, at, path, attempt, kind, data, output from event \
                       where id > $1 and id < $2 order by id limit $3";
            let bounds = params![first + seq as i64, first + MAX_EVENTS_PER_RUN, BATCH_ROWS];
            let checksums = db.query_batch(sql, bounds, |row| {
                let id: i64 = row.get(0)?;
                seq = (id - first) as u64;
                Ok((id, event_checksum(row, run, seq)?))
            })?;
            if checksums.is_empty() {
                return Ok(seq);
            }
            for (id, checksum) in checksums {
                db.execute_statement("update event set checksum = $1 where id = $2", params![checksum, id])?;
            }
        }
    }
}

fn event_checksum(row: &DbRow<'_>, run: RunId, seq: u64) -> Result<i64, StoreError> {
    let (path, kind): (String, String) = (row.get(2)?, row.get(4)?);
    let (data, output): (Option<String>, Option<String>) = (row.get(5)?, row.get(6)?);
    let columns = EventColumns {
        at: row.get_count(1)?,
        path: &path,
        attempt: row.get_count(3)?,
        kind: &kind,
        data: data.as_deref(),
        output: output.as_deref(),
    };
    Ok(columns.checksum(run, seq))
}

fn migrate_memory(db: &impl MigratedDatabase) -> Result<(), StoreError> {
    let (mut namespace, mut key) = (String::new(), String::new());
    loop {
        let sql = "select namespace, key, value from memory where (namespace, key) > ($1, $2) \
                   order by namespace, key limit $3";
        let entries: Vec<(String, String, String)> =
            db.query_batch(sql, params![&namespace, &key, BATCH_ROWS], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let Some((last_namespace, last_key, _)) = entries.last() else { return Ok(()) };
        (namespace, key) = (last_namespace.clone(), last_key.clone());
        for (namespace, key, value) in &entries {
            let sql = "update memory set checksum = $1 where namespace = $2 and key = $3";
            db.execute_statement(sql, params![memory_checksum(namespace, key, value), namespace, key])?;
        }
    }
}
