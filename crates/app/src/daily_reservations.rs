//! Reservations of daily quotas. Concurrent calls are bounded by the rest of the quota: a call begins if its upper
//! bound fits into what the calls in progress leave, or on its own. So the last call of a day may exceed a quota, and
//! no others.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::error::StepFailure;
use flowloom_runtime::effects::BoxFuture;
use flowloom_store::DailyUsage;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Number of users from which on those without a reservation are forgotten.
const MAX_IDLE_USERS: usize = 1024;

/// Less than any call uses.
const SMALLEST_USE: DailyUsage = DailyUsage { sandbox_ms: 1, tokens: 1, micro_usd: 1 };

/// Tokens, cost and time reserved by the calls in progress of each user, in this process.
#[derive(Debug, Default)]
pub(crate) struct DailyReservations {
    users: Mutex<HashMap<String, Arc<UserReservations>>>,
}

#[derive(Debug, Default)]
struct UserReservations {
    sums: Mutex<ReservedSums>,
    /// One caller waits for each notification, and passes it on.
    changed: Notify,
}

#[derive(Debug, Default)]
struct ReservedSums {
    reserved: DailyUsage,
    /// What has been released so far.
    released: DailyUsage,
    /// Calls in progress. Those whose use is being stored do not count.
    calls: usize,
}

/// The result of an attempt to reserve.
enum Attempt {
    Ended(Result<DailyReservation, StepFailure>),
    /// It does not fit, and has to wait for other calls.
    Waits,
    /// It does not fit into what was left before other calls ended.
    Outdated,
}

/// The reservation of one call, released when dropped.
#[derive(Debug)]
pub(crate) struct DailyReservation {
    of_user: Arc<UserReservations>,
    reserved: DailyUsage,
    is_in_progress: bool,
}

impl DailyReservations {
    /// Reserves `most` for a call of a user. Waits for other calls of the user if it does not fit. `measure_left` measures what
    /// the calls that have ended leave, and fails if that is nothing.
    pub(crate) async fn reserve_use(
        &self,
        user: &str,
        most: DailyUsage,
        measure_left: impl Fn() -> Result<DailyUsage, StepFailure>,
    ) -> Result<DailyReservation, StepFailure> {
        let of_user = self.find_user(user);
        loop {
            let released = of_user.sums.lock().released;
            let reserved = match measure_left() {
                Ok(left) => of_user.clone().try_reserve(most, left, released),
                Err(refused) => Attempt::Ended(Err(refused)),
            };
            match reserved {
                Attempt::Ended(result) => {
                    // Others may fit as well, or must fail as well.
                    of_user.changed.notify_one();
                    return result;
                }
                Attempt::Waits => of_user.changed.notified().await,
                Attempt::Outdated => {}
            }
        }
    }

    fn find_user(&self, user: &str) -> Arc<UserReservations> {
        let mut users = self.users.lock();
        if users.len() >= MAX_IDLE_USERS {
            users.retain(|_, of_user| Arc::strong_count(of_user) > 1);
        }
        users.entry(user.to_owned()).or_default().clone()
    }
}

impl UserReservations {
    /// Reserves `most` if it fits into what is `left`. That was measured when `released` had been released; what was released
    /// meanwhile may be missing in it, and counts as if it were still reserved.
    fn try_reserve(self: Arc<Self>, most: DailyUsage, left: DailyUsage, released: DailyUsage) -> Attempt {
        let mut sums = self.sums.lock();
        let is_outdated = sums.released != released;
        let reserved = sums.reserved.add_usage(sums.released.subtract_usage(released));
        // On its own, a call begins if anything is left. Usage that is being stored counts already.
        let may_begin = match sums.calls {
            0 => is_within(reserved.add_usage(SMALLEST_USE), left),
            _ => is_within(reserved.add_usage(most), left),
        };
        if !may_begin {
            return if is_outdated { Attempt::Outdated } else { Attempt::Waits };
        }
        sums.reserved = sums.reserved.add_usage(most);
        sums.calls += 1;
        drop(sums);
        Attempt::Ended(Ok(DailyReservation { of_user: self, reserved: most, is_in_progress: true }))
    }
}

fn is_within(used: DailyUsage, left: DailyUsage) -> bool {
    used.sandbox_ms <= left.sandbox_ms && used.tokens <= left.tokens && used.micro_usd <= left.micro_usd
}

impl DailyReservation {
    /// Reserves what the call has used instead, until that is stored.
    pub(crate) fn settle_use(mut self, used: DailyUsage, stored: BoxFuture<'static, ()>) {
        let mut sums = self.of_user.sums.lock();
        sums.reserved = sums.reserved.subtract_usage(self.reserved).add_usage(used);
        sums.calls -= 1;
        drop(sums);
        (self.reserved, self.is_in_progress) = (used, false);
        self.of_user.changed.notify_one();
        tokio::spawn(async move {
            stored.await;
            drop(self);
        });
    }
}

impl Drop for DailyReservation {
    fn drop(&mut self) {
        let mut sums = self.of_user.sums.lock();
        sums.reserved = sums.reserved.subtract_usage(self.reserved);
        sums.released = sums.released.add_usage(self.reserved);
        sums.calls -= usize::from(self.is_in_progress);
        drop(sums);
        self.of_user.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use flowloom_core::code::Code;
    use futures_util::FutureExt as _;

    use super::*;

    fn use_tokens(tokens: u64) -> DailyUsage {
        DailyUsage { tokens, ..DailyUsage::default() }
    }

    /// A quota of tokens.
    struct TokenQuota {
        limit: u64,
        used: AtomicU64,
    }

    impl TokenQuota {
        fn measure_left(&self) -> Result<DailyUsage, StepFailure> {
            let left = self.limit.saturating_sub(self.used.load(Ordering::Relaxed));
            let unlimited = DailyUsage { sandbox_ms: u64::MAX, tokens: left, micro_usd: u64::MAX };
            if left > 0 { Ok(unlimited) } else { Err(StepFailure::new(Code::QuotaExceeded, "used up")) }
        }
    }

    #[tokio::test]
    async fn calls_begin_together_as_far_as_the_quota_lasts() {
        let (reservations, quota) = (DailyReservations::default(), TokenQuota { limit: 100, used: AtomicU64::new(0) });
        let reserve = |most| reservations.reserve_use("ann", use_tokens(most), || quota.measure_left());
        let first = reserve(60).await.expect("room");
        let second = reserve(40).await.expect("room");
        let mut third = Box::pin(reserve(10));
        assert!((&mut third).now_or_never().is_none(), "nothing is left besides the calls in progress");
        let other = reservations.reserve_use("bob", use_tokens(100), || quota.measure_left()).await;
        assert!(other.is_ok(), "each user has a quota");
        quota.used.fetch_add(5, Ordering::Relaxed);
        first.settle_use(use_tokens(5), Box::pin(std::future::ready(())));
        let third = third.await.expect("the first call used less than its bound");
        quota.used.fetch_add(95, Ordering::Relaxed);
        drop((second, third));
        assert_eq!(reserve(1).await.expect_err("it is used up").code, Code::QuotaExceeded);
    }

    /// Storing takes time, in which nothing else begins.
    #[tokio::test]
    async fn what_is_being_stored_is_used_already() {
        let (reservations, quota) = (DailyReservations::default(), TokenQuota { limit: 10, used: AtomicU64::new(0) });
        let reserve = || reservations.reserve_use("ann", use_tokens(4096), || quota.measure_left());
        let (store, stored) = tokio::sync::oneshot::channel::<()>();
        let first = reserve().await.expect("nothing is in progress");
        first.settle_use(use_tokens(50), Box::pin(async move { drop(stored.await) }));
        let mut second = Box::pin(reserve());
        assert!((&mut second).now_or_never().is_none(), "nothing is left");
        quota.used.fetch_add(50, Ordering::Relaxed);
        store.send(()).expect("it waits");
        assert_eq!(second.await.expect_err("it is used up").code, Code::QuotaExceeded);
    }

    #[tokio::test]
    async fn a_call_that_is_larger_than_the_quota_begins_on_its_own() {
        let (reservations, quota) = (DailyReservations::default(), TokenQuota { limit: 10, used: AtomicU64::new(0) });
        let reserve = || reservations.reserve_use("ann", use_tokens(4096), || quota.measure_left());
        let first = reserve().await.expect("nothing is in progress");
        let mut waiting: Vec<_> = (0..20).map(|_| Box::pin(reserve())).collect();
        assert!(waiting.iter_mut().all(|one| one.now_or_never().is_none()));
        quota.used.fetch_add(50, Ordering::Relaxed);
        drop(first);
        for one in waiting {
            assert_eq!(one.await.expect_err("each is told").code, Code::QuotaExceeded);
        }
    }
}
