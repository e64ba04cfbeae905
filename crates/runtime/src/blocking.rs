//! Blocking work on threads that run tasks.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs blocking work without blocking other tasks of this thread.
pub fn run_blocking<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Err(_) => work(),
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        // A runtime cannot block inside another one on the same thread.
        Ok(_) => std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }),
    }
}
