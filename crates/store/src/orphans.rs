//! Abandoned runs: their status is `running`, but no living process drives them, because their process died or could
//! not write. Servers reclaim them. A run that makes no progress after repeated claims is quarantined until a person
//! resumes it.

use std::sync::Arc;

use flowloom_core::error::StepError;
use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::journal::{Append, Journal, Lease};

use crate::Store;
use crate::db::{Connection, Error, Row, params};

/// Number of claims without progress after which a run is no longer reclaimed.
const FRUITLESS: u64 = 3;

/// A run that no living process drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The run's id.
    pub id: RunId,
    /// Whether it was claimed too often without making progress.
    pub is_hopeless: bool,
}

impl Store {
    /// Runs with the status `running` that no living process drives, oldest first per worker; at most `limit`.
    pub fn orphans(&self, limit: u32) -> Result<Vec<Orphan>, StepError> {
        self.read_with(|db| {
            let living = self.owner.living(db)?;
            let mut found = Vec::new();
            for owner in owners(db)? {
                let is_own = owner.as_deref() == Some(self.owner.name());
                let is_other = owner.as_deref().is_some_and(|name| !is_own && self.owner.lives(name, &living));
                if !is_other {
                    let of_owner = runs_of(db, owner.as_deref())?.into_iter();
                    found.extend(of_owner.filter(|run| !is_own || !self.owner.holds(run.id)));
                }
            }
            found.truncate(limit as usize);
            Ok(found)
        })
    }

    /// Suspends a run with the status `quarantined`, until a person resumes it.
    pub async fn quarantine(&self, run: RunId, at: u64) -> Result<(), StepError> {
        let lease = self.claim(run).await?;
        let suspended = self.suspend(lease, at).await;
        self.release(lease);
        suspended
    }

    async fn suspend(&self, lease: Lease, at: u64) -> Result<(), StepError> {
        let run = lease.run;
        let seq = self.read(run, 0).await?.last().map_or(1, |last| last.seq + 1);
        let event = Event::RunSuspended { status: Status::Quarantined };
        let record = Record { run, seq, at, path: Path::root(), attempt: 0, event };
        match self.append(lease, vec![Arc::new(record)]) {
            Append::Done(done) => done,
            Append::Later(later) => later.await,
        }
    }
}

fn owners(db: &Connection) -> Result<Vec<Option<String>>, Error> {
    db.query("select distinct owner from run where status = 'running'", &[], |row| row.get(0))
}

fn runs_of(db: &Connection, owner: Option<&str>) -> Result<Vec<Orphan>, Error> {
    let read = |row: &Row<'_>| {
        let id = RunId::parse(&row.get::<String>(0)?);
        Ok(id.map(|id| (id, row.count(1))))
    };
    let rows = match owner {
        Some(owner) => {
            let sql = "select id, fruitless from run where status = 'running' and owner = $1 order by id";
            db.query(sql, params![owner], read)?
        }
        None => {
            let sql = "select id, fruitless from run where status = 'running' and owner is null order by id";
            db.query(sql, &[], read)?
        }
    };
    rows.into_iter().flatten().map(|(id, count)| Ok(Orphan { id, is_hopeless: count? >= FRUITLESS })).collect()
}

/// Whether a record is progress of its run.
pub(crate) fn is_progress(record: &Record) -> bool {
    !matches!(record.event, Event::RunStarted { .. } | Event::RunSuspended { .. })
}
