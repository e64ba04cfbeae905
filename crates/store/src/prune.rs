//! Deletes finished runs, old ones or one that a person chooses, and the data that only they reference. Memory and threads
//! belong to users and are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flowloom_core::status::Status;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use parking_lot::Mutex;

use crate::audit_entry::{Actor, AuditAction, AuditedChange, DONE};
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::event_row::MAX_EVENTS_PER_RUN;
use crate::run_row::RunRow;
use crate::store::Store;

/// Number of deleted runs, child runs among them, after which a commit ends; small, so that other writers get their turn.
const PRUNE_BATCH_RUNS: usize = 200;

/// Number of runs, child runs among them, that one person deletes in one commit: other writers wait for it.
pub const MAX_DELETED_RUNS: usize = 1000;

/// SQL condition of a [`PruneFilter`]. A run that is about to be retried is kept. A child run is deleted with its parent run,
/// which looks for it when it is retried.
const PRUNABLE_SQL: &str = "status = $1 and finished_at < $2 and worker is null and pending_commands = 0 \
                            and (parent is null or not exists (select 1 from run above where above.id = run.parent)) \
                            and not exists (select 1 from run below \
                                            where below.parent = run.id and below.finished_at is null)";

/// SQL condition of the runs of the project in `$3`.
const OF_PROJECT_SQL: &str = "coalesce(project, '') = $3";

/// Selects runs of one status that ended before a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneFilter {
    /// Status of the runs, one that a finished run can have.
    pub status: Status,
    /// Milliseconds since the Unix epoch.
    pub before: u64,
}

/// A run that may be deleted.
struct Candidate {
    id: String,
    place: EndPlace,
}

/// A place in the order in which runs ended.
#[derive(Clone, Copy, Default)]
struct EndPlace {
    finished_at: u64,
    number: i64,
}

/// The deletions of one commit.
#[derive(Clone, Copy, Default)]
struct PruneProgress {
    /// Number of candidates that were deleted or turned out to be in use.
    handled: usize,
    /// Number of candidates that were deleted.
    deleted: u64,
}

impl Store {
    /// Number of matching runs of this project, without their child runs. Fails if the database cannot be read.
    pub fn count_prunable(&self, old: PruneFilter) -> Result<u64, StoreError> {
        let sql = format!("select count(*) from run where {PRUNABLE_SQL} and {OF_PROJECT_SQL}");
        let params = params![old.status.name(), old.before, self.project_name()];
        let found = self.read_long_with(|db| db.query_first(&sql, params, |row| row.get_count(0)));
        Ok(found?.unwrap_or_default())
    }

    /// Deletes the matching runs of this project with their child runs, and returns the number of the former. Fails if the database
    /// cannot be read or written; the runs that were deleted before stay deleted.
    pub async fn prune_runs(&self, old: PruneFilter) -> Result<u64, StoreError> {
        let (mut count, mut after) = (0, EndPlace::default());
        loop {
            let mut candidates = self.list_candidates(old, after)?;
            let Some(last) = candidates.last() else { return Ok(count) };
            after = last.place;
            while !candidates.is_empty() {
                let ids: Vec<String> = candidates.iter().map(|candidate| candidate.id.clone()).collect();
                let progress = Arc::new(Mutex::new(PruneProgress::default()));
                let report = progress.clone();
                let job = move |connection: &DbConnection| {
                    connection.lock_tables("blob, bundle, event, run")?;
                    // A transaction that is rolled back runs again.
                    *report.lock() = delete_candidates(connection, old, &ids)?;
                    Ok(())
                };
                self.writer.submit_long_job(Box::new(job)).await?;
                let PruneProgress { handled, deleted } = *progress.lock();
                count += deleted;
                candidates.drain(..handled);
            }
        }
    }

    /// Deletes a run that has ended, with its child runs, and records that; in memory, nothing is recorded. Returns `false` if
    /// it has not ended or is in use, if it belongs to a run that is kept, or if it has more child runs than one commit
    /// deletes. Fails if the database cannot be written.
    pub async fn delete_run(&self, row: &RunRow, by: &Actor) -> Result<bool, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.delete_run(row.id));
        }
        let Some(status) = Status::parse(&row.status) else { return Ok(false) };
        let change = AuditedChange::new(AuditAction::DeleteRun, Some(row.user.clone()), format!("run {}", row.id));
        let (id, ended) = (row.id.to_string(), PruneFilter { status, before: i64::MAX as u64 });
        let (is_deleted, at, actor) = (Arc::new(AtomicBool::new(false)), SystemClock.now_ms(), by.clone());
        let report = is_deleted.clone();
        let job = move |connection: &DbConnection| {
            connection.lock_tables("blob, bundle, event, run")?;
            let within = list_within(connection, ended, &id)?;
            let is_deleted = (1..=MAX_DELETED_RUNS).contains(&within.len());
            report.store(is_deleted, Ordering::Relaxed);
            if !is_deleted {
                return Ok(());
            }
            within.iter().try_for_each(|run| run.delete_run(connection))?;
            change.record_entry(connection, &actor, at, DONE)
        };
        self.writer.submit_long_job(Box::new(job)).await?;
        Ok(is_deleted.load(Ordering::Relaxed))
    }

    fn list_candidates(&self, old: PruneFilter, after: EndPlace) -> Result<Vec<Candidate>, StoreError> {
        let sql = format!(
            "select number, id, finished_at from run where {PRUNABLE_SQL} and {OF_PROJECT_SQL} \
             and (finished_at > $4 or (finished_at = $4 and number > $5)) order by finished_at, number limit $6"
        );
        let EndPlace { finished_at, number } = after;
        let params =
            params![old.status.name(), old.before, self.project_name(), finished_at, number, PRUNE_BATCH_RUNS as u64];
        self.read_long_with(|db| {
            db.query_rows(&sql, params, |row| {
                let place = EndPlace { number: row.get(0)?, finished_at: row.get_count(2)? };
                Ok(Candidate { id: row.get(1)?, place })
            })
        })
    }
}

/// Deletes runs, each together with its child runs, until so many are deleted that other writers get their turn. A run that is
/// in use by now is kept. A retry never finds a run without its child runs.
fn delete_candidates(connection: &DbConnection, old: PruneFilter, ids: &[String]) -> Result<PruneProgress, StoreError> {
    let (mut run_count, mut progress) = (0, PruneProgress::default());
    for id in ids {
        let within = list_within(connection, old, id)?;
        within.iter().try_for_each(|run| run.delete_run(connection))?;
        run_count += within.len();
        progress.handled += 1;
        progress.deleted += u64::from(!within.is_empty());
        if run_count >= PRUNE_BATCH_RUNS {
            break;
        }
    }
    Ok(progress)
}

/// A run and the runs within it. Empty if the run does not match any more, or if one of them is in use.
fn list_within(connection: &DbConnection, old: PruneFilter, id: &str) -> Result<Vec<PrunableRun>, StoreError> {
    let sql = format!(
        "with recursive within (id, number) as (\
         select id, number from run where {PRUNABLE_SQL} and id = $3 union all \
         select run.id, run.number from run join within on run.parent = within.id) \
         select run.number, run.id, run.bundle, \
         (run.finished_at is null or run.worker is not null or run.pending_commands > 0) \
         from within join run on run.number = within.number"
    );
    let read = |row: &DbRow<'_>| {
        let run = PrunableRun { number: row.get(0)?, id: row.get(1)?, bundle: row.get(2)? };
        Ok((run, row.get::<bool>(3)?))
    };
    let within = connection.query_rows(&sql, params![old.status.name(), old.before, id], read)?;
    let is_in_use = within.iter().any(|(_, is_in_use)| *is_in_use);
    Ok(if is_in_use { Vec::new() } else { within.into_iter().map(|(run, _)| run).collect() })
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
        connection.execute_unchecked("delete from question_expiry where run = $1", params![&self.id])?;
        let sql = "delete from blob where hash = $1 and not exists (select 1 from event where output = $2)";
        outputs.iter().try_for_each(|hash| connection.execute_unchecked(sql, params![hash, hash]))?;
        let sql = "delete from bundle where hash = $1 and not exists (select 1 from run where bundle = $2)";
        connection.execute_unchecked(sql, params![&self.bundle, &self.bundle])
    }
}
