//! Checks quotas on a connection, within the transaction of what a quota bounds.

use std::sync::Arc;

use flowloom_core::id::RunId;

use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::quota::{
    DAY_MS, MINUTE_MS, Quota, QuotaExceeded, QuotaInfo, QuotaWindow, Quotas, START_QUOTAS, retries_sql,
};
use crate::worker::LocalWorker;

/// Measures and checks the quotas of users.
#[derive(Clone)]
pub(crate) struct QuotaChecker {
    /// The configured quotas.
    pub(crate) limits: Arc<Quotas>,
    /// This process, which knows which others are alive.
    pub(crate) worker: Arc<LocalWorker>,
}

impl QuotaChecker {
    /// A user's usage of a quota; zero if the database does not contain it.
    pub(crate) fn measure(&self, db: &DbConnection, user: &str, quota: Quota, now: u64) -> Result<u64, StoreError> {
        if quota == Quota::ConcurrentRuns {
            return self.count_concurrent_runs(db, user);
        }
        let QuotaInfo { sql, window, .. } = quota.info();
        let Some(sql) = *sql else { return Ok(0) };
        let read = |row: &DbRow<'_>| row.get_count(0);
        let since = now.saturating_sub(MINUTE_MS);
        let measured = match window {
            QuotaWindow::Now => db.query_first(sql, params![user], read),
            QuotaWindow::Minute => db.query_first(sql, params![user, since], read),
            QuotaWindow::Day => db.query_first(sql, params![user, now / DAY_MS], read),
        };
        Ok(measured?.unwrap_or_default())
    }

    /// The runs of a user that queue or run, and the ended ones that are about to be retried. A run whose process has died does
    /// not count until another process claims it, because waiting would not help.
    fn count_concurrent_runs(&self, db: &DbConnection, user: &str) -> Result<u64, StoreError> {
        // The indexes run_active and run_due have the same conditions.
        let sql = "select worker, count(*) from run where user_id = $1 and status in ('queued', 'running') \
                   and parent is null and (status = 'queued' or worker is not null) group by worker \
                   union all select null, count(*) from run where user_id = $1 and worker is null \
                   and pending_commands > 0 and finished_at is not null and parent is null";
        let counts = db.query_rows(sql, params![user], |row| Ok((row.get::<Option<String>>(0)?, row.get_count(1)?)))?;
        let is_own = |worker: &Option<String>| worker.as_deref().is_none_or(|worker| worker == self.worker.name());
        if counts.iter().all(|(worker, _)| is_own(worker)) {
            return Ok(counts.iter().map(|(_, count)| count).sum());
        }
        let living = self.worker.living_workers(db)?;
        let is_alive =
            |worker: &Option<String>| worker.as_deref().is_none_or(|worker| self.worker.is_alive(worker, &living));
        Ok(counts.iter().filter(|(worker, _)| is_alive(worker)).map(|(_, count)| count).sum())
    }

    /// Fails with `QuotaExceeded` if a user has used up a quota. A quota that is not set costs nothing.
    pub(crate) fn check(&self, db: &DbConnection, user: &str, quota: Quota, now: u64) -> Result<(), StoreError> {
        let Some(limit) = self.limits.find_limit(user, quota) else { return Ok(()) };
        let used = self.measure(db, user, quota, now)?;
        if used < limit {
            return Ok(());
        }
        let until = match quota.info().window {
            QuotaWindow::Minute => find_oldest_start(db, user, now)?.map(|at| at + MINUTE_MS),
            _ => quota.info().window_end(now),
        };
        Err(StoreError::Quota(QuotaExceeded { user: user.to_owned(), quota, used, limit, until }))
    }

    /// Checks the quotas of starts in the transaction that stores the start, so that servers cannot exceed them together.
    pub(crate) fn check_start(&self, db: &DbConnection, user: &str, now: u64) -> Result<(), StoreError> {
        if START_QUOTAS.iter().any(|quota| self.limits.find_limit(user, *quota).is_some()) {
            db.serialize_changes("starts")?;
        }
        START_QUOTAS.iter().try_for_each(|quota| self.check(db, user, *quota, now))
    }

    /// Fails with `QuotaExceeded` if a user has more definitions than the quota allows, `created` of which are new.
    pub(crate) fn check_definitions(
        &self,
        db: &DbConnection,
        user: &str,
        created: u64,
        now: u64,
    ) -> Result<(), StoreError> {
        let quota = Quota::Definitions;
        let Some(limit) = self.limits.find_limit(user, quota) else { return Ok(()) };
        let used = self.measure(db, user, quota, now)?;
        let exceeded =
            || QuotaExceeded { user: user.to_owned(), quota, used: used.saturating_sub(created), limit, until: None };
        // The new definitions are counted already.
        refuse_above(used, limit.saturating_add(1), exceeded)
    }
}

/// Fails with `QuotaExceeded` if all is used.
pub(crate) fn refuse_above(used: u64, limit: u64, exceeded: impl FnOnce() -> QuotaExceeded) -> Result<(), StoreError> {
    if used < limit { Ok(()) } else { Err(StoreError::Quota(exceeded())) }
}

/// When the oldest run of the last minute was started or retried.
fn find_oldest_start(db: &DbConnection, user: &str, now: u64) -> Result<Option<u64>, StoreError> {
    let since = now.saturating_sub(MINUTE_MS);
    let sql = "select min(created_at) from run where user_id = $1 and created_at > $2 and parent is null";
    let started = db.query_first(sql, params![user, since], read_time)?.flatten();
    let sql = concat!(
        "select min(command.sent_at) from ",
        retries_sql!(),
        " where run.user_id = $1 and command.sent_at > $2"
    );
    let retried = db.query_first(sql, params![user, since], read_time)?.flatten();
    Ok(started.into_iter().chain(retried).min())
}

/// When a run was started, or retried last, in milliseconds since the Unix epoch.
pub(crate) fn find_last_start(db: &DbConnection, run: RunId) -> Result<u64, StoreError> {
    let sql = concat!("select max(command.sent_at) from ", retries_sql!(), " where run.id = $1");
    let retried = db.query_first(sql, params![&run.to_string()], read_time)?.flatten();
    let sql = "select created_at from run where id = $1";
    let started = db.query_first(sql, params![&run.to_string()], read_time)?.flatten();
    Ok(started.into_iter().chain(retried).max().unwrap_or_default())
}

fn read_time(row: &DbRow<'_>) -> Result<Option<u64>, StoreError> {
    Ok(row.get::<Option<i64>>(0)?.map(|at| at as u64))
}
