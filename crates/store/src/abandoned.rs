//! Abandoned runs: a worker must drive them, but no living one does, because their process died or could not write, or
//! received a command and died. Servers reclaim them. A run that makes no progress after repeated claims is quarantined
//! until a person resumes it.

use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::JournalError;
use flowloom_runtime::journal::{Batch, Journal, Lease};

use crate::commands::IS_OUTERMOST_SQL;
use crate::db::{DbRow, params};
use crate::error::StoreError;
use crate::store::Store;

/// Number of claims without progress after which a run is no longer reclaimed.
const MAX_FAILED_CLAIMS: u64 = 3;

/// A run that no living process drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbandonedRun {
    /// The run's id.
    pub id: RunId,
    /// Whether it was claimed too often without making progress.
    pub is_hopeless: bool,
}

impl Store {
    /// Runs that a worker must drive and no living worker does, oldest first per worker; at most `limit`. These are runs of
    /// dead workers, runs with the status `running`, and runs with pending commands. A child run is not among them unless its
    /// parent run has ended: the parent run drives it.
    pub fn abandoned_runs(&self, limit: u32) -> Result<Vec<AbandonedRun>, StoreError> {
        self.read_with(|db| {
            let living = self.worker.living_workers(db)?;
            let mut found = Vec::new();
            for worker in db.query_rows("select distinct worker from run where worker is not null", &[], read_worker)? {
                let is_own = worker == self.worker.name();
                if is_own || !self.worker.is_alive(&worker, &living) {
                    let sql = format!(
                        "select {ABANDONED_COLUMNS} from run where worker = $1 and {IS_OUTERMOST_SQL} order by id limit $2"
                    );
                    let runs = db.query_rows(&sql, params![&worker, limit], parse_abandoned)?;
                    found.extend(runs.into_iter().flatten().filter(|run| !is_own || !self.worker.is_driving(run.id)));
                }
            }
            let sql = format!(
                "select {ABANDONED_COLUMNS} from run where worker is null \
                 and (status = 'running' or pending_commands > 0) and {IS_OUTERMOST_SQL} order by id limit $1"
            );
            found.extend(db.query_rows(&sql, params![limit], parse_abandoned)?.into_iter().flatten());
            found.truncate(limit as usize);
            Ok(found)
        })
    }

    /// Suspends a run with the status `quarantined`, until a person resumes it.
    pub async fn quarantine_run(&self, run: RunId, at: u64) -> Result<(), JournalError> {
        let lease = self.claim_run(run).await?;
        let suspended = self.suspend_run(lease, at).await;
        self.release_run(lease);
        suspended
    }

    async fn suspend_run(&self, lease: Lease, at: u64) -> Result<(), JournalError> {
        let run = lease.run;
        let seq = self.read(run, 0).await?.last().map_or(1, |last| last.seq + 1);
        let event = Event::RunSuspended { status: Status::Quarantined };
        let record = Record { run, seq, at, path: Path::root(), attempt: 0, event };
        let batch = Batch { releases_lease: true, ..Batch::with_records(vec![Arc::new(record)]) };
        self.append_batch(lease, batch).wait().await.map(drop)
    }
}

const ABANDONED_COLUMNS: &str = "id, failed_claims, pending_commands";

fn read_worker(row: &DbRow<'_>) -> Result<String, StoreError> {
    row.get(0)
}

fn parse_abandoned(row: &DbRow<'_>) -> Result<Option<AbandonedRun>, StoreError> {
    let id = RunId::parse(&row.get::<String>(0)?);
    // A command may help, and must not wait.
    let is_hopeless = row.get_count(1)? >= MAX_FAILED_CLAIMS && row.get_count(2)? == 0;
    Ok(id.map(|id| AbandonedRun { id, is_hopeless }))
}

/// Whether a record is progress of its run.
pub(crate) fn is_progress(record: &Record) -> bool {
    !matches!(record.event, Event::RunStarted { .. } | Event::RunSuspended { .. })
}
