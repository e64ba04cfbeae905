//! The clock of a test: it jumps to the next timer when nothing else goes on, so that steps happen in the order of a run, and
//! no wait takes time.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use flowloom_runtime::effects::{BoxFuture, Clock};
use parking_lot::{Mutex, MutexGuard};

/// Start of the clock, in milliseconds since the Unix epoch: 2026-01-01.
const START_MS: u64 = 1_767_225_600_000;

/// How often a timer is asked without any effect in between before the clock jumps to it. Each time, every other step goes
/// on as far as it can.
const QUIET_ROUNDS: u32 = 8;

/// The real time until a timer asks again while code or a child run works.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// The clock as one run of a test sees it. All runs of a test have the same time.
#[derive(Clone)]
pub(super) struct TestClock {
    state: Arc<Mutex<ClockState>>,
    run: u64,
}

#[derive(Default)]
struct ClockState {
    now_ms: u64,
    /// The timers that are waited for, by their time and their order, each with its run.
    timers: BTreeMap<(u64, u64), u64>,
    next_timer: u64,
    /// The number of effects and timers that have started.
    started: u64,
    /// The number of blocks and expressions that run in the sandbox.
    running_code: u32,
    /// The child runs that have not ended, each with the run that started it.
    child_runs: BTreeMap<u64, u64>,
    next_run: u64,
}

impl ClockState {
    /// Whether something works whose end is not known: code, or a child run that waits neither for a timer nor for a child run
    /// of its own.
    fn is_busy(&self) -> bool {
        let waits = |run: &u64| {
            self.timers.values().any(|owner| owner == run) || self.child_runs.values().any(|parent| parent == run)
        };
        self.running_code > 0 || self.child_runs.keys().any(|run| !waits(run))
    }
}

impl TestClock {
    /// The clock of the outermost run of a test.
    pub(super) fn new() -> TestClock {
        let state = ClockState { now_ms: START_MS, ..ClockState::default() };
        TestClock { state: Arc::new(Mutex::new(state)), run: 0 }
    }

    /// Notes that an effect starts.
    pub(super) fn note_effect(&self) {
        self.lock_state().started += 1;
    }

    /// Notes that code runs, until the result is dropped.
    pub(super) fn start_code(&self) -> RunningCode {
        let mut state = self.lock_state();
        state.started += 1;
        state.running_code += 1;
        RunningCode(self.clone())
    }

    /// Notes that this run starts a child run, which runs until the result is dropped. The result has its clock.
    pub(super) fn start_child_run(&self) -> RunningChild {
        let mut state = self.lock_state();
        state.started += 1;
        state.next_run += 1;
        let run = state.next_run;
        state.child_runs.insert(run, self.run);
        RunningChild(TestClock { state: self.state.clone(), run })
    }

    fn lock_state(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock()
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.lock_state().now_ms
    }

    fn sleep_for(&self, duration_ms: u64) -> BoxFuture<'static, ()> {
        let mut state = self.lock_state();
        state.next_timer += 1;
        state.started += 1;
        let key = (state.now_ms.saturating_add(duration_ms), state.next_timer);
        Box::pin(Timer { clock: self.clone(), key, seen: 0, quiet_rounds: 0, pause: None })
    }

    fn skips_waits(&self) -> bool {
        true
    }
}

/// Code that runs in the sandbox.
pub(super) struct RunningCode(TestClock);

impl Drop for RunningCode {
    fn drop(&mut self) {
        self.0.lock_state().running_code -= 1;
    }
}

/// A child run that has not ended.
pub(super) struct RunningChild(TestClock);

impl RunningChild {
    /// The clock of the child run.
    pub(super) fn new_clock(&self) -> TestClock {
        self.0.clone()
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        let run = self.0.run;
        self.0.lock_state().child_runs.remove(&run);
    }
}

/// A wait.
struct Timer {
    clock: TestClock,
    /// When it is over, and its number.
    key: (u64, u64),
    /// The effects that had started when it was asked last.
    seen: u64,
    /// How often it was asked without another one.
    quiet_rounds: u32,
    /// The real wait until it asks again.
    pause: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        let (key, clock) = (self.key, self.clock.clone());
        let mut state = clock.lock_state();
        if state.now_ms >= key.0 {
            state.timers.remove(&key);
            return Poll::Ready(());
        }
        state.timers.insert(key, clock.run);
        let (started, is_busy) = (state.started, state.is_busy());
        let is_quiet = started == self.seen && !is_busy;
        self.seen = started;
        self.quiet_rounds = if is_quiet { self.quiet_rounds + 1 } else { 0 };
        let is_next = state.timers.keys().next() == Some(&key);
        if is_next && self.quiet_rounds >= QUIET_ROUNDS {
            state.now_ms = key.0;
            state.timers.remove(&key);
            // What it starts comes before the next timer.
            state.started += 1;
            return Poll::Ready(());
        }
        drop(state);
        if is_busy {
            let mut pause = Box::pin(tokio::time::sleep(BUSY_PAUSE));
            // Polled once, so that it wakes this timer.
            if pause.as_mut().poll(context).is_pending() {
                self.pause = Some(pause);
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.clock.lock_state().timers.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn timers_end_in_the_order_of_their_times() {
        let clock = TestClock::new();
        let order = Mutex::new(Vec::new());
        let wait = |name: &'static str, duration_ms: u64| {
            let timer = clock.sleep_for(duration_ms);
            let order = &order;
            async move {
                timer.await;
                order.lock().push(name);
            }
        };
        tokio::join!(wait("late", 900), wait("early", 100), wait("now", 0), wait("middle", 500));
        assert_eq!(*order.lock(), ["now", "early", "middle", "late"]);
        assert_eq!(clock.now_ms(), START_MS + 900);
    }

    #[tokio::test]
    async fn a_timer_waits_for_code_and_for_child_runs() {
        let clock = TestClock::new();
        let (code, child) = (clock.start_code(), clock.start_child_run());
        let mut timer = clock.sleep_for(100);
        let is_over = |timer: &mut BoxFuture<'static, ()>| {
            let mut context = Context::from_waker(std::task::Waker::noop());
            (0..50).any(|_| timer.as_mut().poll(&mut context).is_ready())
        };
        assert!(!is_over(&mut timer), "code runs");
        drop(code);
        let mut timer = clock.sleep_for(100);
        assert!(!is_over(&mut timer), "a child run works");
        let mut own = child.new_clock().sleep_for(10);
        assert!(is_over(&mut own), "the child run waits for this timer, which is the next one");
        drop(own);
        drop(child);
        assert!(is_over(&mut clock.sleep_for(50)));
    }
}
