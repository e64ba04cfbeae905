//! Runs that say they are running while nobody drives them: their process has gone, or could not write. Whoever serves
//! takes them up; one that gets no further however often it is taken up is left alone until a person decides.

use std::sync::Arc;

use flowloom_core::error::StepError;
use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::journal::{Append, Journal, Lease};

use crate::Store;
use crate::db::{Connection, Error, Row, params};

/// So often a run is taken up that gets no further.
const FRUITLESS: u64 = 3;

/// A run that nobody drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// Its id.
    pub id: RunId,
    /// Whether it was taken up too often without getting any further.
    pub is_hopeless: bool,
}

impl Store {
    /// Runs that say they are running while nobody drives them, the oldest first of each owner; `limit` at most.
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

    /// Leaves a run alone until a person resumes it.
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

/// Whether a record says that its run got on.
pub(crate) fn is_progress(record: &Record) -> bool {
    !matches!(record.event, Event::RunStarted { .. } | Event::RunSuspended { .. })
}
