//! What an engine outside of this program needs of the store: it decides which worker drives a run, and keeps large texts
//! here.

use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_runtime::JournalError;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::Lease;

use crate::abandoned::MAX_WORKER_DEATHS;
use crate::db::{DbConnection, params};
use crate::error::StoreError;
use crate::journal::UnfinishedClaim;
use crate::store::Store;

impl Store {
    /// A random name that this database was given when it was created. A copy of the database has the same.
    pub fn identity(&self) -> Result<String, StoreError> {
        let found = self.read_with(|db| db.query_first("select id from identity", &[], |row| row.get::<String>(0)))?;
        Ok(found.unwrap_or_default())
    }

    /// The epoch of a run's lease; `None` if there is no such run.
    pub fn find_epoch(&self, run: RunId) -> Result<Option<u64>, StoreError> {
        let sql = "select epoch from run where id = $1";
        self.read_with(|db| db.query_first(sql, params![&run.to_string()], |row| row.get_count(0)))
    }

    /// Takes over the lease that has the given epoch, although its worker may be alive: the engine has given the run to this
    /// process. `None` if the run has another epoch.
    pub async fn take_over_run(&self, run: RunId, epoch: u64) -> Result<Option<Lease>, JournalError> {
        let claim = UnfinishedClaim::register_run(self, run)?;
        let worker = self.worker.name().to_owned();
        let job = move |db: &DbConnection| {
            let sql = "update run set epoch = epoch + 1, worker = $1, failed_claims = failed_claims + \
                       case when worker <> $1 and status in ('queued', 'running') then 1 else 0 end \
                       where id = $2 and epoch = $3";
            match db.execute_sql(sql, params![&worker, &run.to_string(), epoch])? {
                1 => Ok(()),
                _ => Err(JournalError::OwnershipLost.into()),
            }
        };
        let claimed = self.writer.submit_job(Box::new(job)).await.map(|()| Lease { run, epoch: epoch + 1 });
        match claim.finish_claim(claimed).map_err(JournalError::from) {
            Ok(lease) => Ok(Some(lease)),
            Err(JournalError::OwnershipLost) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether so many workers have died in a row while they drove a run that it is not driven again without a command.
    pub fn is_hopeless(&self, run: RunId) -> Result<bool, StoreError> {
        let sql = "select failed_claims >= $1 and pending_commands = 0 from run where id = $2";
        let read =
            |db: &DbConnection| db.query_first(sql, params![MAX_WORKER_DEATHS, &run.to_string()], |row| row.get(0));
        Ok(self.read_with(read)?.unwrap_or(false))
    }

    /// Tells other processes that a run has ended or waits. Processes that share a SQLite file look by themselves.
    pub fn announce_run(&self, run: RunId) -> Result<(), StoreError> {
        self.read_with(|db| db.notify_workers(run))
    }

    /// Completes when another process has announced news of a run. It may miss some.
    pub fn next_announcement(&self, run: RunId) -> BoxFuture<'static, ()> {
        let announced = self.mailboxes.notify_decision(run);
        Box::pin(async move { drop(announced.await) })
    }

    /// Stores a text by its hash.
    pub async fn store_text(&self, hash: Hash, text: String) -> Result<(), StoreError> {
        let sql = "insert into blob values ($1, $2) on conflict do nothing";
        let job = move |db: &DbConnection| db.execute_unchecked(sql, params![&hash.to_string(), &text]);
        self.writer.submit_job(Box::new(job)).await
    }

    /// The text with this hash; `None` if there is none.
    pub fn read_text(&self, hash: Hash) -> Result<Option<String>, StoreError> {
        let sql = "select content from blob where hash = $1";
        self.read_with(|db| db.query_first(sql, params![&hash.to_string()], |row| row.get(0)))
    }

    /// Deletes the text with this hash, unless it is the output of a step.
    pub async fn delete_text(&self, hash: Hash) -> Result<(), StoreError> {
        let job = move |db: &DbConnection| {
            let hash = hash.to_string();
            let sql = "delete from blob where hash = $1 and not exists (select 1 from event where output = $2)";
            db.execute_unchecked(sql, params![&hash, &hash])
        };
        self.writer.submit_job(Box::new(job)).await
    }
}
