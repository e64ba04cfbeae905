//! Virtual time and a seeded single-thread executor: tests that span hours run in microseconds and are deterministic.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Mutex, MutexGuard};

use crate::effects::{BoxFuture, Clock};

/// A clock that advances only when everything waits for it.
#[derive(Clone)]
pub struct SimClock {
    state: Arc<Mutex<ClockState>>,
}

struct ClockState {
    /// The time of timers, which cannot be set.
    now_ms: u64,
    /// How far the wall clock was set forward, or back if it is negative.
    wall_offset_ms: i64,
    next: u64,
    sleepers: BTreeMap<(u64, u64), Waker>,
}

impl SimClock {
    /// A clock that starts at `now_ms`.
    pub fn new(now_ms: u64) -> SimClock {
        SimClock {
            state: Arc::new(Mutex::new(ClockState { now_ms, wall_offset_ms: 0, next: 0, sleepers: BTreeMap::new() })),
        }
    }

    /// The time that has passed, whatever the wall clock was set to.
    pub fn elapsed_ms(&self) -> u64 {
        self.lock_state().now_ms
    }

    /// Sets the wall clock back; running timers do not notice.
    pub fn set_back(&self, by_ms: u64) {
        self.lock_state().wall_offset_ms -= by_ms as i64;
    }

    /// Sets the wall clock forward; running timers do not notice.
    pub fn set_forward(&self, by_ms: u64) {
        self.lock_state().wall_offset_ms += by_ms as i64;
    }

    fn lock_state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock()
    }

    /// Runs a future to completion and advances the clock whenever nothing else can make progress. `None` if the future
    /// waits for something that can never happen.
    pub fn block_on<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(flag.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            while !flag.0.swap(false, Ordering::Relaxed) {
                self.advance_to_next()?;
            }
        }
    }

    /// Advances the clock to the next sleeper and wakes it; `None` if there is none.
    pub fn advance_to_next(&self) -> Option<()> {
        let mut state = self.lock_state();
        let ((at, _), waker) = state.sleepers.pop_first()?;
        state.now_ms = state.now_ms.max(at);
        drop(state);
        waker.wake();
        Some(())
    }
}

impl Clock for SimClock {
    fn now_ms(&self) -> u64 {
        let state = self.lock_state();
        state.now_ms.saturating_add_signed(state.wall_offset_ms)
    }

    fn sleep_for(&self, duration_ms: u64) -> BoxFuture<'static, ()> {
        let mut state = self.lock_state();
        state.next += 1;
        let key = (state.now_ms.saturating_add(duration_ms), state.next);
        Box::pin(SimSleep { clock: self.clone(), key })
    }
}

struct SimSleep {
    clock: SimClock,
    key: (u64, u64),
}

impl Future for SimSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.clock.lock_state();
        if state.now_ms >= self.key.0 {
            return Poll::Ready(());
        }
        state.sleepers.insert(self.key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for SimSleep {
    fn drop(&mut self) {
        // A timer that lost its race must not move the clock.
        self.clock.lock_state().sleepers.remove(&self.key);
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
