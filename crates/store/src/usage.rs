//! The usage of quotas by users.

use flowloom_core::id::RunId;
use flowloom_runtime::effects::BoxFuture;

use crate::db::{DbConnection, params};
use crate::error::StoreError;
use crate::quota::{DAY_MS, DailyUsage, Quota, QuotaExceeded, Quotas};
use crate::quota_check::{find_last_start, refuse_above};
use crate::size_cache::MeasuredSize;
use crate::store::Store;

/// The size of a user's data is measured again after this part of the quota was written.
const SIZE_TOLERANCE_DIVISOR: u64 = 16;

/// The size is not measured again before so many bytes were written.
const MIN_TOLERANCE_BYTES: u64 = 64 << 10;

impl Store {
    /// The configured quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas.limits
    }

    /// The usage of a quota by a user at the time `now`, in milliseconds since the Unix epoch. The size of the user's data is
    /// measured at most once a minute. Fails if the database cannot be read.
    pub fn measure_usage(&self, user: &str, quota: Quota, now: u64) -> Result<u64, StoreError> {
        match quota {
            Quota::DatabaseBytes => Ok(self.measure_size(user, now, u64::MAX)?.bytes),
            _ => self.read_long_with(|db| self.quotas.measure(db, user, quota, now)),
        }
    }

    fn measure_size(&self, user: &str, now: u64, tolerance: u64) -> Result<MeasuredSize, StoreError> {
        let measured = || self.read_long_with(|db| self.quotas.measure(db, user, Quota::DatabaseBytes, now));
        self.sizes.get_or_measure(user, now, tolerance, measured)
    }

    /// Fails with `QuotaExceeded` if a user has used up one of these quotas. Quotas that are not set cost nothing.
    pub fn check_quotas(&self, user: &str, quotas: &[Quota], now: u64) -> Result<(), StoreError> {
        let mut set = quotas.iter().filter(|quota| self.quotas.limits.find_limit(user, **quota).is_some());
        set.try_for_each(|quota| self.read_with(|db| self.quotas.check(db, user, *quota, now)))
    }

    /// The remaining daily quota of a user who has used `uncounted` in addition to the stored usage; the maximum if no
    /// quota is set, which costs nothing. Fails with `QuotaExceeded` if nothing is left.
    pub fn measure_left(&self, user: &str, quota: Quota, uncounted: u64, now: u64) -> Result<u64, StoreError> {
        let Some(limit) = self.quotas.limits.find_limit(user, quota) else { return Ok(u64::MAX) };
        let used = self.read_with(|db| self.quotas.measure(db, user, quota, now))?.saturating_add(uncounted);
        let until = quota.info().window_end(now);
        refuse_above(used, limit, || QuotaExceeded { user: user.to_owned(), quota, used, limit, until })?;
        Ok(limit - used)
    }

    /// When a run was started, or retried last, in milliseconds since the Unix epoch. Fails if the database cannot be
    /// read.
    pub fn find_last_start(&self, run: RunId) -> Result<u64, StoreError> {
        self.read_with(|db| find_last_start(db, run))
    }

    /// Fails with `QuotaExceeded` if a user's data has reached its quota. The user is about to write at most `bytes`.
    pub fn check_database_quota(&self, user: &str, bytes: usize, now: u64) -> Result<(), StoreError> {
        let quota = Quota::DatabaseBytes;
        let Some(limit) = self.quotas.limits.find_limit(user, quota) else { return Ok(()) };
        let tolerance = (limit / SIZE_TOLERANCE_DIVISOR).max(MIN_TOLERANCE_BYTES);
        let MeasuredSize { bytes: used, until, .. } = self.measure_size(user, now, tolerance)?;
        self.sizes.note_written(user, bytes as u64);
        refuse_above(used, limit, || QuotaExceeded { user: user.to_owned(), quota, used, limit, until: Some(until) })
    }

    /// Adds to the usage of a user on the day of `now`, if that is counted. It is committed before later writes,
    /// whether or not a caller waits for the result.
    pub fn add_daily_usage(&self, user: &str, used: DailyUsage, now: u64) -> BoxFuture<'static, ()> {
        if !self.quotas.limits.counts_days_of(user) {
            return Box::pin(std::future::ready(()));
        }
        let user = user.to_owned();
        let add = move |connection: &DbConnection| {
            let sql = "insert into daily_usage (user_id, day, sandbox_ms, tokens, micro_usd) values ($1, $2, $3, $4, $5) \
                       on conflict (user_id, day) do update set sandbox_ms = daily_usage.sandbox_ms + excluded.sandbox_ms, \
                       tokens = daily_usage.tokens + excluded.tokens, \
                       micro_usd = daily_usage.micro_usd + excluded.micro_usd";
            let DailyUsage { sandbox_ms, tokens, micro_usd } = used;
            connection.execute_unchecked(sql, params![&user, now / DAY_MS, sandbox_ms, tokens, micro_usd])
        };
        let stored = self.writer.submit_job(Box::new(add));
        // A failure to count does not fail the work.
        Box::pin(async move { drop(stored.await) })
    }
}
