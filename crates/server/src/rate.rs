//! Rate limits per caller.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use flowloom_core::code::Code;

use crate::problem::{Answer, Problem};

/// Number of tracked callers at which idle ones are removed.
const CALLERS: usize = 10_000;

/// A caller: a key, or the address of a request without a valid key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Key(String),
    Address(IpAddr),
}

/// The remaining requests of every caller (token buckets).
pub(crate) struct Rates {
    per_second: Option<f64>,
    left: Mutex<HashMap<Who, Left>>,
}

/// The remaining requests of a caller at a moment; refilled at the rate, up to two seconds' worth.
#[derive(Clone, Copy)]
struct Left {
    calls: f64,
    at: Instant,
}

impl Rates {
    /// Limits requests per second of each caller; `None` means unlimited.
    pub(crate) fn new(per_second: Option<f64>) -> Rates {
        Rates { per_second, left: Mutex::default() }
    }

    /// Counts a request. Fails with `TooManyCalls` if none is left.
    pub(crate) fn take(&self, who: Who) -> Answer<()> {
        let Some(rate) = self.per_second else { return Ok(()) };
        let (now, most) = (Instant::now(), (rate * 2.0).max(1.0));
        let grown = |left: &Left| (left.calls + now.duration_since(left.at).as_secs_f64() * rate).min(most);
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CALLERS {
            all.retain(|_, left| grown(left) < most);
        }
        let left = all.entry(who).or_insert(Left { calls: most, at: now });
        *left = Left { calls: grown(left), at: now };
        if left.calls < 1.0 {
            let message = format!("rate limit exceeded: {rate} requests per second");
            return Err(Problem::new(Code::TooManyCalls, message));
        }
        left.calls -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_calls_of_its_own() {
        let rates = Rates::new(Some(1.0));
        let (ann, bob) = (Who::Key("ann".to_owned()), Who::Address(IpAddr::from([127, 0, 0, 1])));
        let taken = |who: &Who| rates.take(who.clone()).is_ok();
        assert_eq!([taken(&ann), taken(&ann), taken(&ann), taken(&bob)], [true, true, false, true]);
        assert!((0..1000).all(|_| Rates::new(None).take(ann.clone()).is_ok()));
    }

    #[test]
    fn callers_who_were_quiet_are_forgotten() {
        let rates = Rates::new(Some(1e9));
        for caller in 0..3 * CALLERS {
            rates.take(Who::Key(caller.to_string())).expect("the first call of each");
        }
        assert!(rates.left.lock().expect("not poisoned").len() <= CALLERS);
    }
}
