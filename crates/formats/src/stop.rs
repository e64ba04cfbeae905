//! Stopping a compilation from outside, for example because its result is not needed any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that stops a compilation when it is set. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    is_set: Arc<AtomicBool>,
}

impl StopFlag {
    /// Sets the flag. The compilation ends soon, without a plan.
    pub fn stop(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// Whether the flag is set.
    pub fn is_stopped(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }
}
