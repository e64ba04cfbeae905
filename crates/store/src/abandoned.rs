//! Abandoned runs: their status is `running`, but no living process drives them, because their process died or could
//! not write. Servers reclaim them. A run that makes no progress after repeated claims is quarantined until a person
//! resumes it.

use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::JournalError;
use flowloom_runtime::journal::{AppendResult, Journal, Lease};

use crate::db::{DbConnection, DbRow, params};
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
    /// Runs with the status `running` that no living process drives, oldest first per worker; at most `limit`.
    pub fn abandoned_runs(&self, limit: u32) -> Result<Vec<AbandonedRun>, StoreError> {
        self.read_with(|db| {
            let living = self.worker.living_workers(db)?;
            let mut found = Vec::new();
            for worker in running_workers(db)? {
                let is_own = worker.as_deref() == Some(self.worker.name());
                let is_other = worker.as_deref().is_some_and(|name| !is_own && self.worker.is_alive(name, &living));
                if !is_other {
                    let of_owner = running_runs_of(db, worker.as_deref())?.into_iter();
                    found.extend(of_owner.filter(|run| !is_own || !self.worker.is_driving(run.id)));
                }
            }
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
        match self.append_records(lease, vec![Arc::new(record)]) {
            AppendResult::Done(done) => done,
            AppendResult::Later(later) => later.await,
        }
    }
}

fn running_workers(db: &DbConnection) -> Result<Vec<Option<String>>, StoreError> {
    db.query_rows("select distinct worker from run where status = 'running'", &[], |row| row.get(0))
}

fn running_runs_of(db: &DbConnection, worker: Option<&str>) -> Result<Vec<AbandonedRun>, StoreError> {
    let read = |row: &DbRow<'_>| {
        let id = RunId::parse(&row.get::<String>(0)?);
        Ok(id.map(|id| (id, row.get_count(1))))
    };
    let rows = match worker {
        Some(worker) => {
            let sql = "select id, failed_claims from run where status = 'running' and worker = $1 order by id";
            db.query_rows(sql, params![worker], read)?
        }
        None => {
            let sql = "select id, failed_claims from run where status = 'running' and worker is null order by id";
            db.query_rows(sql, &[], read)?
        }
    };
    rows.into_iter()
        .flatten()
        .map(|(id, count)| Ok(AbandonedRun { id, is_hopeless: count? >= MAX_FAILED_CLAIMS }))
        .collect()
}

/// Whether a record is progress of its run.
pub(crate) fn is_progress(record: &Record) -> bool {
    !matches!(record.event, Event::RunStarted { .. } | Event::RunSuspended { .. })
}
