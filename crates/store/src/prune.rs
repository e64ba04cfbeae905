//! Deletes old finished runs and the data that only they reference. Memory and threads belong to users and are kept.

use flowloom_core::status::Status;

use crate::db::{DbConnection, params};
use crate::error::StoreError;
use crate::rows::MAX_EVENTS_PER_RUN;
use crate::store::Store;

/// Runs deleted in one commit; small, so that other writers get their turn.
const PRUNE_BATCH_RUNS: u32 = 200;

/// SQL condition of a [`PruneFilter`]. A run that is about to be retried is kept. A child run is deleted with its parent run,
/// which looks for it when it is retried.
const PRUNABLE_SQL: &str = "status = $1 and finished_at < $2 and worker is null and pending_commands = 0 \
                            and (parent is null or not exists (select 1 from run above where above.id = run.parent)) \
                            and not exists (select 1 from run below \
                                            where below.parent = run.id and below.finished_at is null)";

/// Selects a run and the runs within it.
const WITHIN_SQL: &str = "with recursive within (id, number, bundle) as (\
                          select id, number, bundle from run where id = $1 union all \
                          select run.id, run.number, run.bundle from run join within on run.parent = within.id) \
                          select number, id, bundle from within";

/// Selects runs of one status that ended before a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneFilter {
    /// Status of the runs, one that a finished run can have.
    pub status: Status,
    /// Milliseconds since the Unix epoch.
    pub before: u64,
}

impl Store {
    /// Number of matching runs, without their child runs.
    pub fn count_prunable(&self, old: PruneFilter) -> Result<u64, StoreError> {
        let sql = format!("select count(*) from run where {PRUNABLE_SQL}");
        let found =
            self.read_with(|db| db.query_first(&sql, params![old.status.name(), old.before], |row| row.get_count(0)));
        Ok(found?.unwrap_or_default())
    }

    /// Deletes the matching runs with their child runs, and returns the number of the former.
    pub async fn prune_runs(&self, old: PruneFilter) -> Result<u64, StoreError> {
        let mut count = 0;
        loop {
            let sql = format!("select id from run where {PRUNABLE_SQL} order by finished_at limit $3");
            let batch: Vec<String> = self.read_with(|db| {
                db.query_rows(&sql, params![old.status.name(), old.before, PRUNE_BATCH_RUNS], |row| row.get(0))
            })?;
            if batch.is_empty() {
                return Ok(count);
            }
            count += batch.len() as u64;
            let take_away = move |connection: &DbConnection| {
                connection.lock_tables("blob, bundle, event, run")?;
                batch.iter().try_for_each(|run| delete_with_children(connection, run))
            };
            self.writer.submit_job(Box::new(take_away)).await?;
        }
    }
}

fn delete_with_children(connection: &DbConnection, run: &str) -> Result<(), StoreError> {
    let within = connection.query_rows(WITHIN_SQL, params![run], |row| {
        Ok(PrunableRun { number: row.get(0)?, id: row.get(1)?, bundle: row.get(2)? })
    })?;
    within.iter().try_for_each(|run| run.delete_run(connection))
}

struct PrunableRun {
    number: i64,
    id: String,
    bundle: String,
}

impl PrunableRun {
    fn delete_run(&self, connection: &DbConnection) -> Result<(), StoreError> {
        let bounds = params![self.number * MAX_EVENTS_PER_RUN, (self.number + 1) * MAX_EVENTS_PER_RUN];
        let sql = "select distinct output from event where id > $1 and id < $2 and output is not null";
        let outputs: Vec<String> = connection.query_rows(sql, bounds, |row| row.get(0))?;
        connection.execute_unchecked("delete from event where id > $1 and id < $2", bounds)?;
        connection.execute_unchecked("delete from run where number = $1", params![self.number])?;
        connection.execute_unchecked("delete from command where run = $1", params![&self.id])?;
        connection.execute_unchecked("delete from idempotency_key where run = $1", params![&self.id])?;
        let sql = "delete from blob where hash = $1 and not exists (select 1 from event where output = $2)";
        outputs.iter().try_for_each(|hash| connection.execute_unchecked(sql, params![hash, hash]))?;
        let sql = "delete from bundle where hash = $1 and not exists (select 1 from run where bundle = $2)";
        connection.execute_unchecked(sql, params![&self.bundle, &self.bundle])
    }
}
