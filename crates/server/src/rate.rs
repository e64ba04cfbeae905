//! Rate limits per caller.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use flowloom_core::code::Code;
use governor::Quota;
use governor::clock::DefaultClock;
use governor::state::keyed::HashMapStateStore;

use crate::problem::{ApiResult, Problem};

/// Number of tracked callers up to which idle ones are not removed.
const MAX_IDLE_CALLERS: usize = 10_000;

/// The longest time between two calls of one caller that can be configured.
const MAX_CALL_INTERVAL: Duration = Duration::from_secs(86_400);

/// A caller: a key, or the network of a request without a valid key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RateKey {
    Key(String),
    Network(IpAddr),
}

impl RateKey {
    /// The caller at an address. Whoever has one address of IPv6 usually has all of its network of 64 bits.
    pub(crate) fn of_address(address: IpAddr) -> RateKey {
        RateKey::Network(match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::from([a, b, c, d, 0, 0, 0, 0])
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// The remaining calls of every caller. They grow by the rate, up to two seconds' worth.
pub(crate) struct RateLimiter {
    per_second: f64,
    /// The number of tracked callers at which idle ones are removed.
    prune_at: AtomicUsize,
    limiter: Option<governor::RateLimiter<RateKey, HashMapStateStore<RateKey>, DefaultClock>>,
}

impl RateLimiter {
    /// Limits requests per second of each caller; `None` means unlimited.
    pub(crate) fn new(per_second: Option<f64>) -> RateLimiter {
        RateLimiter {
            per_second: per_second.unwrap_or_default(),
            prune_at: AtomicUsize::new(MAX_IDLE_CALLERS),
            limiter: per_second.and_then(quota).map(governor::RateLimiter::hashmap),
        }
    }

    /// Counts a request. Fails with `TooManyCalls` if none is left.
    pub(crate) fn take_token(&self, who: RateKey) -> ApiResult<()> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        if limiter.len() >= self.prune_at.load(Ordering::Relaxed) {
            limiter.retain_recent();
            // Removing looks at all callers, so their number must double before the next time.
            self.prune_at.store(MAX_IDLE_CALLERS.max(2 * limiter.len()), Ordering::Relaxed);
        }
        limiter.check_key(&who).map_err(|_| {
            let message = format!("a caller may make {} calls a second", self.per_second);
            Problem::new(Code::TooManyCalls, message)
        })
    }
}

/// A rate as the limiter takes it; `None` if it is too high to be a bound.
fn quota(per_second: f64) -> Option<Quota> {
    let period = Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(MAX_CALL_INTERVAL).min(MAX_CALL_INTERVAL);
    let burst = NonZeroU32::new((per_second * 2.0) as u32).unwrap_or(NonZeroU32::MIN);
    Some(Quota::with_period(period)?.allow_burst(burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_calls_of_its_own() {
        let rates = RateLimiter::new(Some(1.0));
        let (ann, bob) = (RateKey::Key("ann".to_owned()), RateKey::of_address(IpAddr::from([127, 0, 0, 1])));
        let taken = |who: &RateKey| rates.take_token(who.clone()).is_ok();
        assert_eq!([taken(&ann), taken(&ann), taken(&ann), taken(&bob)], [true, true, false, true]);
        assert!((0..1000).all(|_| RateLimiter::new(None).take_token(ann.clone()).is_ok()));
    }

    #[test]
    fn addresses_of_one_network_are_one_caller() {
        let caller = |address: &str| RateKey::of_address(address.parse().expect("an address"));
        assert_eq!(caller("2001:db8:1:2::1"), caller("2001:db8:1:2:ffff::"));
        assert_ne!(caller("2001:db8:1:2::1"), caller("2001:db8:1:3::1"));
        assert_eq!(caller("::ffff:10.0.0.1"), caller("10.0.0.1"));
        assert_ne!(caller("10.0.0.1"), caller("10.0.0.2"));
    }

    #[test]
    fn callers_who_were_quiet_are_forgotten() {
        let rates = RateLimiter::new(Some(1e9));
        for caller in 0..3 * MAX_IDLE_CALLERS {
            rates.take_token(RateKey::Key(caller.to_string())).expect("the first call of each");
        }
        assert!(rates.limiter.as_ref().is_some_and(|limiter| limiter.len() <= MAX_IDLE_CALLERS));
    }
}
