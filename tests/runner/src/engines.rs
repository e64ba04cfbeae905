//! The drivers of the runs of cases: this process, on virtual time, or an engine that a test connects.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::plan::Plan;
use flowloom_runtime::Engine;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::sim::SimClock;
use parking_lot::Mutex;

/// Real time after which the virtual clock advances, if another engine drives a run.
const TICK: Duration = Duration::from_millis(2);

/// An engine that drives the runs of cases in place of this process.
pub trait CaseEngine: Send + Sync {
    /// Has it drive the runs of `engine`, which follow `plan`.
    fn connect(&self, engine: Engine, plan: &Arc<Plan>) -> Engine;

    /// Whether this process drives the runs after all.
    fn is_here(&self) -> bool;
}

/// Milliseconds by which the virtual clock advances at most. The engine may be about to do something.
const STEP_MS: u64 = 100;

static CONNECTED: Mutex<Option<Arc<dyn CaseEngine>>> = Mutex::new(None);

fn connected() -> Option<Arc<dyn CaseEngine>> {
    CONNECTED.lock().clone()
}

/// Sets what drives the runs of all further cases; `None`: this process.
pub fn set_engine(engine: Option<Arc<dyn CaseEngine>>) {
    *CONNECTED.lock() = engine;
}

/// The engine of a case, whose runs follow `plan`.
pub(crate) fn connect_engine(engine: Engine, plan: &Arc<Plan>) -> Engine {
    match connected() {
        Some(connected) => connected.connect(engine, plan),
        None => engine,
    }
}

/// Runs a future to completion on virtual time; `None` if it would wait forever.
pub(crate) fn block_on_clock<F: Future>(clock: &SimClock, work: F) -> Option<F::Output> {
    if connected().is_none_or(|connected| connected.is_here()) {
        return clock.block_on(work);
    }
    crate::block_on(async {
        let mut work = std::pin::pin!(work);
        let mut step = clock.sleep_for(STEP_MS);
        loop {
            tokio::select! {
                biased;
                output = &mut work => return Some(output),
                () = &mut step => step = clock.sleep_for(STEP_MS),
                () = tokio::time::sleep(TICK) => drop(clock.advance_to_next()),
            }
        }
    })
}
