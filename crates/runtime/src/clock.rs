//! The real clock. Virtual time is in [`crate::sim`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::effects::{BoxFuture, Clock};

/// The system clock; sleeps on tokio's timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    fn now_ms(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        now.saturating_add_signed(offset_ms())
    }

    fn sleep_for(&self, duration_ms: u64) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(duration_ms)))
    }
}

/// How far this process sees the clock ahead of the machine's: the variable `FLOWLOOM_CLOCK_OFFSET_MS`, with which a test
/// sets the clock of the program that it starts.
#[cfg(debug_assertions)]
fn offset_ms() -> i64 {
    use std::sync::LazyLock;

    #[allow(clippy::disallowed_methods, reason = "a test sets the clock of the program that it starts")]
    static OFFSET_MS: LazyLock<i64> = LazyLock::new(|| {
        std::env::var("FLOWLOOM_CLOCK_OFFSET_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    });
    *OFFSET_MS
}

/// A release build reads the machine's clock as it is.
#[cfg(not(debug_assertions))]
#[inline(always)]
fn offset_ms() -> i64 {
    0
}
