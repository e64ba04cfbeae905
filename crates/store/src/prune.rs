//! Deletes old finished runs and the data that only they reference. Memory and threads belong to users and are kept.

use flowloom_core::error::StepError;
use flowloom_core::status::Status;

use crate::Store;
use crate::db::{Connection, Error, params};
use crate::rows::EVENTS;

/// Runs deleted in one commit; small, so that other writers get their turn.
const BATCH: u32 = 200;

/// Selects runs of one status that ended before a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Old {
    /// Status of the runs, one that a finished run can have.
    pub status: Status,
    /// Milliseconds since the Unix epoch.
    pub before: u64,
}

impl Store {
    /// Number of matching runs.
    pub fn count_old(&self, old: Old) -> Result<u64, StepError> {
        let sql = "select count(*) from run where status = $1 and finished_at < $2";
        let found = self.read_with(|db| db.first(sql, params![old.status.name(), old.before], |row| row.count(0)));
        Ok(found?.unwrap_or_default())
    }

    /// Deletes the matching runs and returns their number.
    pub async fn prune(&self, old: Old) -> Result<u64, StepError> {
        let mut count = 0;
        loop {
            let sql = "select number, id, bundle from run where status = $1 and finished_at < $2 \
                       order by finished_at limit $3";
            let batch: Vec<OldRun> = self.read_with(|db| {
                db.query(sql, params![old.status.name(), old.before, BATCH], |row| {
                    Ok(OldRun { number: row.get(0)?, id: row.get(1)?, bundle: row.get(2)? })
                })
            })?;
            if batch.is_empty() {
                return Ok(count);
            }
            count += batch.len() as u64;
            let take_away = move |connection: &Connection| {
                connection.alone_with("blob, bundle, event, run")?;
                batch.iter().try_for_each(|run| run.take_away(connection))
            };
            self.writer.submit(Box::new(take_away)).await?;
        }
    }
}

struct OldRun {
    number: i64,
    id: String,
    bundle: String,
}

impl OldRun {
    fn take_away(&self, connection: &Connection) -> Result<(), Error> {
        let bounds = params![self.number * EVENTS, (self.number + 1) * EVENTS];
        let sql = "select distinct output from event where id > $1 and id < $2 and output is not null";
        let outputs: Vec<String> = connection.query(sql, bounds, |row| row.get(0))?;
        connection.put("delete from event where id > $1 and id < $2", bounds)?;
        connection.put("delete from run where number = $1", params![self.number])?;
        connection.put("delete from wish where run = $1", params![&self.id])?;
        connection.put("delete from started where run = $1", params![&self.id])?;
        let sql = "delete from blob where hash = $1 and not exists (select 1 from event where output = $2)";
        outputs.iter().try_for_each(|hash| connection.put(sql, params![hash, hash]))?;
        let sql = "delete from bundle where hash = $1 and not exists (select 1 from run where bundle = $2)";
        connection.put(sql, params![&self.bundle, &self.bundle])
    }
}
