//! Checks quotas on a connection, within the transaction of what a quota bounds.

use flowloom_core::id::RunId;

use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::quota::{
    DAY_MS, MINUTE_MS, Quota, QuotaExceeded, QuotaInfo, QuotaWindow, Quotas, START_QUOTAS, retries_sql,
};

/// Fails with `QuotaExceeded` if all is used.
pub(crate) fn refuse_above(used: u64, limit: u64, exceeded: impl FnOnce() -> QuotaExceeded) -> Result<(), StoreError> {
    if used < limit { Ok(()) } else { Err(StoreError::Quota(exceeded())) }
}

/// A user's usage of a quota; zero if the database does not contain it.
pub(crate) fn measure_quota(db: &DbConnection, user: &str, quota: Quota, now: u64) -> Result<u64, StoreError> {
    let QuotaInfo { sql, window, .. } = quota.info();
    let Some(sql) = *sql else { return Ok(0) };
    let read = |row: &DbRow<'_>| row.get_count(0);
    let measured = match window {
        QuotaWindow::Now => db.query_first(sql, params![user], read),
        QuotaWindow::Minute => {
            db.query_first(sql, params![user, &first_id_since(now).to_string(), now.saturating_sub(MINUTE_MS)], read)
        }
        QuotaWindow::Day => db.query_first(sql, params![user, now / DAY_MS], read),
    };
    Ok(measured?.unwrap_or_default())
}

/// The lowest id of a run that was started within the last minute.
fn first_id_since(now: u64) -> RunId {
    RunId::new(now.saturating_sub(MINUTE_MS), [0; 10])
}

/// Fails with `QuotaExceeded` if a user has used up a quota.
pub(crate) fn check_quota(db: &DbConnection, user: &str, quota: Quota, limit: u64, now: u64) -> Result<(), StoreError> {
    let used = measure_quota(db, user, quota, now)?;
    if used < limit {
        return Ok(());
    }
    let until = match quota.info().window {
        QuotaWindow::Minute => find_oldest_start(db, user, now)?.map(|at| at + MINUTE_MS),
        _ => quota.info().window_end(now),
    };
    Err(StoreError::Quota(QuotaExceeded { user: user.to_owned(), quota, used, limit, until }))
}

/// When the oldest run of the last minute was started or retried.
fn find_oldest_start(db: &DbConnection, user: &str, now: u64) -> Result<Option<u64>, StoreError> {
    let sql = "select id from run where user_id = $1 and id >= $2 and parent is null order by id limit 1";
    let id: Option<String> = db.query_first(sql, params![user, &first_id_since(now).to_string()], |row| row.get(0))?;
    let started = id.as_deref().and_then(RunId::parse).map(RunId::at_ms);
    let sql = concat!(
        "select min(command.sent_at) from ",
        retries_sql!(),
        " where run.user_id = $1 and command.sent_at > $2"
    );
    let retried = db.query_first(sql, params![user, now.saturating_sub(MINUTE_MS)], read_time)?.flatten();
    Ok(started.into_iter().chain(retried).min())
}

/// When a run was started, or retried last, in milliseconds since the Unix epoch.
pub(crate) fn find_last_start(db: &DbConnection, run: RunId) -> Result<u64, StoreError> {
    let sql = concat!("select max(command.sent_at) from ", retries_sql!(), " where run.id = $1");
    let retried = db.query_first(sql, params![&run.to_string()], read_time)?.flatten();
    Ok(retried.unwrap_or_default().max(run.at_ms()))
}

fn read_time(row: &DbRow<'_>) -> Result<Option<u64>, StoreError> {
    Ok(row.get::<Option<i64>>(0)?.map(|at| at as u64))
}

/// Checks the quotas of starts in the transaction that stores the start, so that servers cannot exceed them together.
pub(crate) fn check_start(quotas: &Quotas, db: &DbConnection, user: &str, now: u64) -> Result<(), StoreError> {
    let limits = START_QUOTAS.iter().filter_map(|quota| Some((*quota, quotas.find_limit(user, *quota)?)));
    for (count, (quota, limit)) in limits.enumerate() {
        if count == 0 {
            db.serialize_changes("starts")?;
        }
        check_quota(db, user, quota, limit, now)?;
    }
    Ok(())
}

/// Fails with `QuotaExceeded` if a user has more definitions than the quota allows, `created` of which are new.
pub(crate) fn check_definitions(
    quotas: &Quotas,
    db: &DbConnection,
    user: &str,
    created: u64,
    now: u64,
) -> Result<(), StoreError> {
    let quota = Quota::Definitions;
    let Some(limit) = quotas.find_limit(user, quota) else { return Ok(()) };
    let used = measure_quota(db, user, quota, now)?;
    let exceeded =
        || QuotaExceeded { user: user.to_owned(), quota, used: used.saturating_sub(created), limit, until: None };
    // The new definitions are counted already.
    refuse_above(used, limit.saturating_add(1), exceeded)
}
