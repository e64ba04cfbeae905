//! The store operations for an engine outside of this program, which decides which worker drives a run, and keeps large texts
//! here.

use std::sync::Arc;

use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_runtime::JournalError;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{Journal as _, Lease, scope_user};
use flowloom_runtime::remote::ClaimedSession;
use parking_lot::Mutex;

use crate::abandoned::MAX_WORKER_DEATHS;
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::journal::UnfinishedClaim;
use crate::store::Store;
use crate::worker::{HAS_WORKER_SQL, RunIdentity, build_claim_sql};

/// The columns of [`ClaimedRow`].
const CLAIMED_COLUMNS: &str = "epoch, number, user_id, coalesce(project, ''), failed_claims, pending_commands";

/// The row of a run that was claimed.
struct ClaimedRow {
    epoch: u64,
    identity: RunIdentity,
    failed_claims: u64,
    pending_commands: u64,
}

fn read_claimed_row(row: &DbRow<'_>) -> Result<ClaimedRow, StoreError> {
    let (user, project): (String, String) = (row.get(2)?, row.get(3)?);
    Ok(ClaimedRow {
        epoch: row.get_count(0)?,
        identity: RunIdentity { number: row.get(1)?, memory_owner: scope_user(&project, &user).into() },
        failed_claims: row.get_count(4)?,
        pending_commands: row.get_count(5)?,
    })
}

impl Store {
    /// A random name that this database was given when it was created. A copy of the database has the same. Fails if
    /// the database cannot be read.
    pub fn identity(&self) -> Result<String, StoreError> {
        let found = self.read_with(|db| db.query_first("select id from identity", &[], |row| row.get::<String>(0)))?;
        Ok(found.unwrap_or_default())
    }

    /// The epoch of a run's lease; `None` if there is no such run. Fails if the database cannot be read.
    pub fn find_epoch(&self, run: RunId) -> Result<Option<u64>, StoreError> {
        let sql = "select epoch from run where id = $1";
        self.read_with(|db| db.query_first(sql, params![&run.to_string()], |row| row.get_count(0)))
    }

    /// Claims a run for a session, as [`Journal::claim_run`](flowloom_runtime::journal::Journal::claim_run) does. A
    /// lease with the epoch `given_up` is taken over although its worker may be alive: the engine has given the run to
    /// this process. If no other worker has the run, that is one statement, and the first append does not read the row
    /// again. Fails if there is no such run, if another living worker drives it, or if the database cannot be written.
    pub async fn claim_session(&self, run: RunId, given_up: Option<u64>) -> Result<ClaimedSession, JournalError> {
        if self.runs.is_none()
            && let Some(claimed) = self.claim_free_run(run, given_up).await?
        {
            return Ok(claimed);
        }
        let lease = self.claim_run(run).await?;
        let is_hopeless = self.is_hopeless(run).inspect_err(|_| self.release_run(lease))?;
        Ok(ClaimedSession { lease, is_hopeless, has_commands: true })
    }

    /// Claims a run without a worker, or one whose lease has the epoch `given_up`; `None` if there is no such run.
    async fn claim_free_run(&self, run: RunId, given_up: Option<u64>) -> Result<Option<ClaimedSession>, JournalError> {
        let claim = UnfinishedClaim::register_run(self, run)?;
        let found = Arc::new(Mutex::new(None));
        let (slot, worker, mailboxes) = (found.clone(), self.worker.name().to_owned(), self.mailboxes.clone());
        flowloom_runtime::failpoint::hit("session_claim_before");
        let job = move |db: &DbConnection| {
            let given_up = given_up.map_or(-1, |epoch| epoch as i64);
            let sql = build_claim_sql(&format!(
                "id = $2 and (not {HAS_WORKER_SQL} or epoch = $3) returning {CLAIMED_COLUMNS}"
            ));
            let row = db.query_first(&sql, params![&worker, &run.to_string(), given_up], read_claimed_row)?;
            if let Some(row) = &row {
                // Before the commit: a command that is stored after it is delivered, and was counted otherwise.
                mailboxes.open_mailbox(Lease { run, epoch: row.epoch });
            }
            *slot.lock() = row;
            Ok(())
        };
        self.writer.submit_job(Box::new(job)).await?;
        flowloom_runtime::failpoint::hit("session_claim_after");
        let Some(row) = found.lock().take() else { return Ok(None) };
        claim.keep_claim();
        let ClaimedRow { epoch, identity, failed_claims, pending_commands } = row;
        if failed_claims == 0 && pending_commands == 0 {
            self.worker.remember_stored_run(run, identity);
        }
        let has_commands = pending_commands > 0;
        let is_hopeless = failed_claims >= MAX_WORKER_DEATHS && !has_commands;
        Ok(Some(ClaimedSession { lease: Lease { run, epoch }, is_hopeless, has_commands }))
    }

    /// Whether so many workers have died in a row while they drove a run that it is not driven again without a command.
    pub(crate) fn is_hopeless(&self, run: RunId) -> Result<bool, StoreError> {
        let sql = "select failed_claims >= $1 and pending_commands = 0 from run where id = $2";
        let read =
            |db: &DbConnection| db.query_first(sql, params![MAX_WORKER_DEATHS, &run.to_string()], |row| row.get(0));
        Ok(self.read_with(read)?.unwrap_or(false))
    }

    /// Whether other processes are notified of a batch that is announced.
    pub fn has_announcements(&self) -> bool {
        self.worker.is_shared()
    }

    /// Completes when another process has announced news of a run. It may miss some.
    pub fn next_announcement(&self, run: RunId) -> BoxFuture<'static, ()> {
        let announced = self.mailboxes.notify_decision(run);
        Box::pin(async move { drop(announced.await) })
    }

    /// Stores a text by its hash. Fails if the database cannot be written.
    pub async fn store_text(&self, hash: Hash, text: String) -> Result<(), StoreError> {
        let sql = "insert into blob values ($1, $2) on conflict do nothing";
        let job = move |db: &DbConnection| db.execute_unchecked(sql, params![&hash.to_string(), &text]);
        self.writer.submit_job(Box::new(job)).await
    }

    /// The text with this hash; `None` if there is none. Fails if the database cannot be read.
    pub fn read_text(&self, hash: Hash) -> Result<Option<String>, StoreError> {
        let sql = "select content from blob where hash = $1";
        self.read_with(|db| db.query_first(sql, params![&hash.to_string()], |row| row.get(0)))
    }

    /// Deletes the text with this hash, unless it is the output of a step. Fails if the database cannot be written.
    pub async fn delete_text(&self, hash: Hash) -> Result<(), StoreError> {
        let job = move |db: &DbConnection| {
            let hash = hash.to_string();
            let sql = "delete from blob where hash = $1 and not exists (select 1 from event where output = $2)";
            db.execute_unchecked(sql, params![&hash, &hash])
        };
        self.writer.submit_job(Box::new(job)).await
    }
}
