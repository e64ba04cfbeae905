//! The real clock. Virtual time is in [`crate::sim`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::effects::{BoxFuture, Clock};

/// The system clock; sleeps on tokio's timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    fn sleep_until(&self, at_ms: u64) -> BoxFuture<'static, ()> {
        let clock = *self;
        Box::pin(async move {
            // The wall clock may jump; the contract is that the time is not before `at_ms`.
            loop {
                let now = clock.now_ms();
                if now >= at_ms {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(at_ms - now)).await;
            }
        })
    }
}
