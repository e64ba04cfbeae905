//! Abandoned runs: a worker must drive them, but no living one does, because their process died or could not write, or
//! received a command and died. Servers reclaim them. A run in which several workers died in a row, without an event of the
//! run in between, is quarantined until a person resumes it.

use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::JournalError;
use flowloom_runtime::journal::{Batch, Journal, Lease};

use crate::commands::IS_OUTERMOST_SQL;
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::journal::read_run_lease;
use crate::settings::RecoveryScope;
use crate::store::Store;
use crate::worker::{DEATHS_SQL, NOBODY};

/// Number of workers that may die in a row while they drive a run; then it is no longer reclaimed.
pub const MAX_WORKER_DEATHS: u64 = 3;

/// Number of deaths from which a run is suspected to cause them.
const SUSPECT_WORKER_DEATHS: u64 = 2;

/// A run that no living process drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbandonedRun {
    /// The run's id.
    pub id: RunId,
    /// Number of workers that died in a row while they drove it, without an event of the run in between.
    pub deaths: u64,
    /// Whether a command to it is pending.
    pub has_commands: bool,
    /// Whether it has ended: a worker died after it had claimed the ended run and before it had released it.
    pub has_ended: bool,
    /// Whether it is a child run that this process has claimed and does not drive, because an outage broke it off. The
    /// step that drives it may be in another process by now.
    pub is_driven_by_step: bool,
}

/// Runs that a process leaves to one with their configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftRuns {
    /// How many there are.
    pub count: u64,
    /// Some of them, the oldest first.
    pub oldest: Vec<RunId>,
}

impl AbandonedRun {
    /// Whether there is nothing to drive here: a step drives the run, or it has ended and no command may reopen it. Only its
    /// lease is left.
    pub fn is_only_held(&self) -> bool {
        self.is_driven_by_step || (self.has_ended && !self.has_commands)
    }

    /// Whether too many workers died for it to be reclaimed. A command may help, and must not wait.
    pub fn is_hopeless(&self) -> bool {
        self.deaths >= MAX_WORKER_DEATHS && !self.has_commands
    }

    /// Whether the run may be the reason why its workers died.
    pub fn is_suspect(&self) -> bool {
        self.deaths >= SUSPECT_WORKER_DEATHS
    }
}

impl Store {
    /// Runs that a worker must drive or release and no living worker does; at most `limit`. For each worker, the users are in
    /// turn, each with the oldest run first. These are runs of dead workers, runs with the status `running`, and runs with pending
    /// commands. A child run of an unfinished run is driven by its parent run; it is among them only if this process has its lease
    /// and does not drive it. Runs outside of the scope of this process are not among them. Fails if the database cannot be read.
    pub fn abandoned_runs(&self, limit: u32) -> Result<Vec<AbandonedRun>, StoreError> {
        let RecoveryScope { project, config } = &self.recovery;
        self.read_long_with(|db| {
            let living = self.worker.living_workers(db)?;
            let mut found = Vec::new();
            for worker in db.query_rows(WORKERS_SQL, &[], read_worker)? {
                let is_own = worker == self.worker.name();
                if is_own || !self.worker.is_alive(&worker, &living) {
                    let outermost = if is_own { "true" } else { IS_OUTERMOST_SQL };
                    let sql = select_in_turn(&format!("worker = $4 and {outermost}"), "$5");
                    // Most of its own runs are driven, and are removed below.
                    let most = if is_own { u32::MAX } else { limit };
                    let params = params![self.worker.name(), project, config, &worker, most];
                    let runs = db.query_rows(&sql, params, parse_abandoned)?;
                    found.extend(runs.into_iter().flatten().filter(|run| !is_own || !self.worker.is_driving(run.id)));
                }
            }
            let sql = select_in_turn(&format!("{IS_DUE_SQL} and {IS_OUTERMOST_SQL}"), "$4");
            let params = params![self.worker.name(), project, config, limit];
            found.extend(db.query_rows(&sql, params, parse_abandoned)?.into_iter().flatten());
            found.truncate(limit as usize);
            Ok(found)
        })
    }

    /// The runs of this project that need a worker and have none, and that this process leaves alone because they were
    /// started under another configuration: their number, and the ids of the oldest, at most `limit`. Fails if the
    /// database cannot be read.
    pub fn find_left_runs(&self, limit: u32) -> Result<LeftRuns, StoreError> {
        let RecoveryScope { project, config: Some(config) } = &self.recovery else { return Ok(LeftRuns::default()) };
        if self.is_in_memory() {
            return Ok(LeftRuns::default());
        }
        self.read_long_with(|db| {
            let status = self.build_status_expression(db)?;
            let condition = format!(
                "finished_at is null and config <> $1 and (project is null or project in ('', $2) or $2 = '') \
                 and ({status} in ('queued', 'interrupted') or worker is null and pending_commands > 0)"
            );
            let count = format!("select count(*) from run where {condition}");
            let count = db.query_first(&count, params![config, project], |row| row.get_count(0))?.unwrap_or_default();
            let oldest = format!("select id from run where {condition} order by id limit $3");
            let oldest = match count {
                0 => Vec::new(),
                _ => db.query_rows(&oldest, params![config, project, limit], |row| row.get::<String>(0))?,
            };
            Ok(LeftRuns { count, oldest: oldest.iter().filter_map(|id| RunId::parse(id)).collect() })
        })
    }

    /// Whether a run that was reclaimed has made progress since, or is no longer driven. Fails if the database cannot
    /// be read.
    pub fn has_settled(&self, run: RunId) -> Result<bool, StoreError> {
        let sql = "select failed_claims = 0 or status <> 'running' from run where id = $1";
        let found = self.read_with(|db| db.query_first(sql, params![&run.to_string()], |row| row.get(0)))?;
        Ok(found.unwrap_or(true))
    }

    /// Notes that this process has lived with a suspected run for a while: it is no longer a suspect. If this process dies
    /// after all, it is one again. Fails if the database cannot be written.
    pub async fn clear_suspicion(&self, run: RunId) -> Result<(), StoreError> {
        let worker = self.worker.name().to_owned();
        let job = move |db: &DbConnection| {
            let sql = "update run set failed_claims = 1 where id = $1 and worker = $2 and failed_claims > 1";
            db.execute_unchecked(sql, params![&run.to_string(), &worker])
        };
        self.writer.submit_job(Box::new(job)).await
    }

    /// Gives up the lease of a run that no worker uses: of a run that has ended, unless it has a command by now, and of a child
    /// run, whose step finds that it must be driven. Fails if there is no such run, or if the database cannot be written.
    pub async fn release_held_run(&self, run: RunId) -> Result<(), StoreError> {
        let (lease, living) = self.read_with(|db| Ok((read_run_lease(db, run)?, self.worker.living_workers(db)?)))?;
        let is_unused = |worker: &String| !self.worker.is_driven_by(worker, run, &living);
        let Some(worker) = lease.worker.filter(is_unused) else { return Ok(()) };
        let job = move |db: &DbConnection| {
            let sql = format!(
                "update run set worker = case when finished_at is null then $1 end, failed_claims = 0 \
                 where id = $2 and epoch = $3 and worker = $4 \
                 and (finished_at is not null and pending_commands = 0 or not {IS_OUTERMOST_SQL})"
            );
            db.execute_unchecked(&sql, params![NOBODY, &run.to_string(), lease.epoch, &worker])
        };
        self.writer.submit_job(Box::new(job)).await
    }

    /// Suspends a run with the status `quarantined`, until a person resumes it, unless a worker has driven it since it was
    /// found to be hopeless. Returns whether it is suspended. Fails if another living worker drives it, or if the
    /// database cannot be written.
    pub async fn quarantine_run(&self, run: RunId, at: u64) -> Result<bool, JournalError> {
        let lease = self.claim_run(run).await?;
        let suspended = match self.is_hopeless(run) {
            Ok(true) => self.quarantine_claimed(lease, at).await.map(|()| true),
            hopeless => hopeless.map_err(JournalError::from),
        };
        self.release_run(lease);
        suspended
    }

    /// Suspends a run that this process has claimed with the status `quarantined`, and releases it. Fails if the lease
    /// is lost, or if the journal of the run is damaged or cannot be written.
    pub async fn quarantine_claimed(&self, lease: Lease, at: u64) -> Result<(), JournalError> {
        let run = lease.run;
        let seq = self.read(run, 0).await?.last().map_or(1, |last| last.seq + 1);
        let event = Event::RunSuspended { status: Status::Quarantined };
        let record = Record { run, seq, at, path: Path::root(), attempt: 0, event };
        let batch = Batch { releases_lease: true, ..Batch::with_records(vec![Arc::new(record)]) };
        self.append_batch(lease, batch).wait().await.map(drop)
    }
}

/// Selects the runs that are in scope and meet `condition`: the oldest of each user, then the second of each, and so on, so
/// that a user with many runs does not delay those of others. `$1` is the worker that reads. The columns are those of [`parse_abandoned`].
/// The runs are selected first: SQLite would read all runs in the order of their users, with an index for that.
fn select_in_turn(condition: &str, limit: &str) -> String {
    format!(
        "with found as materialized (select id, user_id, failed_claims + {DEATHS_SQL} as deaths, pending_commands, \
         finished_at is not null as has_ended, not {IS_OUTERMOST_SQL} as is_child \
         from run where {IN_SCOPE_SQL} and {condition}) \
         select id, deaths, pending_commands, has_ended, is_child from found \
         order by row_number() over (partition by user_id order by id), id limit {limit}"
    )
}

/// Whether a run is one that this process continues: `$2` is its project, `$3` the fingerprint of its configuration. SQLite
/// numbers parameters in the order in which they first occur.
pub(crate) const IN_SCOPE_SQL: &str = "(project is null or project in ('', $2) or $2 = '') \
                            and (config is null or config = coalesce($3, config))";

/// Whether a run needs a worker and has none. The index `run_due` has the same condition.
const IS_DUE_SQL: &str = "worker is null and (status in ('queued', 'running') or pending_commands > 0)";

/// The workers of runs. Each is found with the index, because `distinct` would read every run that has a worker.
const WORKERS_SQL: &str = "with recursive found (worker) as (select min(worker) from run where worker is not null \
     union all select (select min(worker) from run where run.worker > found.worker) from found where worker is not null) \
     select worker from found where worker is not null";

fn read_worker(row: &DbRow<'_>) -> Result<String, StoreError> {
    row.get(0)
}

fn parse_abandoned(row: &DbRow<'_>) -> Result<Option<AbandonedRun>, StoreError> {
    let id = RunId::parse(&row.get::<String>(0)?);
    let (deaths, has_commands) = (row.get_count(1)?, row.get_count(2)? > 0);
    let (has_ended, is_driven_by_step) = (row.get(3)?, row.get(4)?);
    Ok(id.map(|id| AbandonedRun { id, deaths, has_commands, has_ended, is_driven_by_step }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Param;
    use crate::settings::{Durability, StoreSettings};

    /// A server looks every few seconds, also if a million runs have ended.
    #[test]
    fn runs_are_found_with_the_indexes_for_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open_with(&StoreSettings::for_folder(folder.path(), Durability::Normal)).expect("it opens");
        let explain = |sql: &str, params: &[Param<'_>]| {
            let sql = format!("explain query plan {sql}");
            let read = |db: &DbConnection| db.query_rows(&sql, params, |row| row.get::<String>(3));
            store.read_with(read).expect("a plan").join("\n")
        };
        let due = select_in_turn(&format!("{IS_DUE_SQL} and {IS_OUTERMOST_SQL}"), "$4");
        let due = explain(&due, params!["w", "", "", 5_u32]);
        assert!(due.contains("SCAN run USING INDEX run_due"), "{due}");
        let held = explain(&select_in_turn("worker = $4", "$5"), params!["w", "", "", "w", 5_u32]);
        assert!(held.contains("SEARCH run USING INDEX run_worker (worker=?)"), "{held}");
        let workers = explain(WORKERS_SQL, &[]);
        assert!(workers.contains("SEARCH run USING COVERING INDEX run_worker (worker>?)"), "{workers}");
        assert!(!workers.contains("SCAN run"), "{workers}");
    }
}
