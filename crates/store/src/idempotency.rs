//! Idempotency keys of calls that start a run: a call sent twice with the same key starts one run.

use flowloom_core::id::RunId;

use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::keyed_command::check_not_started;
use crate::store::Store;

/// The `Idempotency-Key` header of a call that starts a run. Each user has keys of their own.
#[derive(Clone, Copy, Debug)]
pub struct StartKey<'a> {
    /// The user who made the call.
    pub user: &'a str,
    /// The value of the header.
    pub key: &'a str,
}

/// Number of keys after whose deletion a commit ends, so that other writers get their turn.
const DELETED_TOGETHER: u64 = 500;

/// The use of an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdempotentStart {
    /// The run that this call starts or has started.
    Run(RunId),
    /// The key was used for a different call.
    Conflict,
}

/// A reservation whose run has not started.
#[derive(Clone, Debug, Default)]
struct UnusedReservation {
    user: String,
    key: String,
    run: String,
}

impl UnusedReservation {
    /// Deletes the key, unless the run has started or the key is bound to another run by now.
    fn delete_in(&self, db: &DbConnection) -> Result<(), StoreError> {
        if let Some(run) = RunId::parse(&self.run) {
            match check_not_started(db, &self.user, run) {
                Ok(()) => {}
                Err(StoreError::KeyBound) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let sql = "delete from idempotency_key where user_id = $1 and key = $2";
        db.execute_unchecked(sql, params![&self.user, &self.key])
    }
}

impl Store {
    /// Reserves `key` for the call whose hash is `request`, which starts `run`, unless the key is taken. Fails if the
    /// database cannot be written.
    pub async fn reserve_start(
        &self,
        key: StartKey<'_>,
        request: &str,
        run: RunId,
        at: u64,
    ) -> Result<IdempotentStart, StoreError> {
        let (user, key, request) = (key.user.to_owned(), key.key.to_owned(), request.to_owned());
        let (by, taken) = (user.clone(), key.clone());
        let wanted = request.clone();
        let insert = move |connection: &DbConnection| {
            let sql = "insert into idempotency_key values ($1, $2, $3, $4, $5) on conflict do nothing";
            connection.execute_unchecked(sql, params![&user, &key, &request, &run.to_string(), at])
        };
        self.writer.submit_job(Box::new(insert)).await?;
        let sql = "select request, run from idempotency_key where user_id = $1 and key = $2";
        let found = self.read_with(|db| {
            db.query_first(sql, params![&by, &taken], |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?)))
        })?;
        Ok(match found {
            Some((request, run)) if request == wanted => {
                RunId::parse(&run).map_or(IdempotentStart::Conflict, IdempotentStart::Run)
            }
            _ => IdempotentStart::Conflict,
        })
    }

    /// Deletes the keys that were reserved before `before` and whose runs have not started, because they were refused, and
    /// returns how many were found. Fails if the database cannot be read or written.
    pub async fn delete_unused_reservations(&self, before: u64) -> Result<u64, StoreError> {
        if self.runs.is_some() {
            // Runs in memory have no rows.
            return Ok(0);
        }
        let (mut count, mut last) = (0, UnusedReservation::default());
        loop {
            let unused = self.list_unused_reservations(before, &last)?;
            let Some(end) = unused.last() else { return Ok(count) };
            last = end.clone();
            count += unused.len() as u64;
            let delete = move |connection: &DbConnection| unused.iter().try_for_each(|one| one.delete_in(connection));
            self.writer.submit_job(Box::new(delete)).await?;
        }
    }

    /// The next reservations after `last` that were made before `before` and whose runs have not started.
    fn list_unused_reservations(
        &self,
        before: u64,
        last: &UnusedReservation,
    ) -> Result<Vec<UnusedReservation>, StoreError> {
        let sql = "select user_id, key, run from idempotency_key where (user_id, key) > ($1, $2) and at < $3 \
                   and not exists (select 1 from run where run.id = idempotency_key.run) \
                   order by user_id, key limit $4";
        let params = params![&last.user, &last.key, before, DELETED_TOGETHER];
        let read = |row: &DbRow<'_>| Ok(UnusedReservation { user: row.get(0)?, key: row.get(1)?, run: row.get(2)? });
        self.read_long_with(|db| db.query_rows(sql, params, read))
    }

    /// The keys of a user that begin with `prefix` and under which `run` was started. Fails if the database cannot be
    /// read.
    pub fn list_start_keys(&self, user: &str, prefix: &str, run: RunId) -> Result<Vec<String>, StoreError> {
        let sql = "select key from idempotency_key where user_id = $1 and key >= $2 and run = $3 order by key";
        let keys: Vec<String> =
            self.read_with(|db| db.query_rows(sql, params![user, prefix, &run.to_string()], |row| row.get(0)))?;
        Ok(keys.into_iter().filter(|key| key.starts_with(prefix)).collect())
    }

    /// The run to which a key is bound: the one that its call starts, or the one that received its command. Fails if
    /// the database cannot be read.
    pub fn find_bound_run(&self, key: StartKey<'_>) -> Result<Option<RunId>, StoreError> {
        let sql = "select run from idempotency_key where user_id = $1 and key = $2";
        let run = self.read_with(|db| db.query_first(sql, params![key.user, key.key], |row| row.get::<String>(0)))?;
        Ok(run.and_then(|run| RunId::parse(&run)))
    }
}
