//! Work that may wait, off the threads that serve.

use std::time::Duration;

use flowloom_app::error::AppError;
use flowloom_formats::StopFlag;

use crate::problem::ApiResult;

/// Runs file or database work on a blocking thread.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(AppError::from)?)
}

/// Longest time that a definition of a caller may be compiled.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Compiles a definition that a caller sent. It is stopped when the time is over, and when the caller has left.
pub(crate) async fn compile_blocking<T: Send + 'static>(
    work: impl FnOnce(&StopFlag) -> T + Send + 'static,
) -> ApiResult<T> {
    compile_within(COMPILE_TIMEOUT, work).await
}

async fn compile_within<T: Send + 'static>(
    timeout: Duration,
    work: impl FnOnce(&StopFlag) -> T + Send + 'static,
) -> ApiResult<T> {
    let guard = StopGuard { stop: StopFlag::default() };
    let stop = guard.stop.clone();
    let mut task = tokio::task::spawn_blocking(move || work(&stop));
    if let Ok(done) = tokio::time::timeout(timeout, &mut task).await {
        return Ok(done.map_err(AppError::from)?);
    }
    guard.stop.stop();
    Ok(task.await.map_err(AppError::from)?)
}

/// Sets the flag when it is dropped: hyper drops the handler of a request whose connection is closed.
struct StopGuard {
    stop: StopFlag,
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Works until the flag is set, and reports that.
    fn work_until_stopped(ended: mpsc::Sender<()>) -> impl FnOnce(&StopFlag) + Send + 'static {
        move |stop| {
            while !stop.is_stopped() {
                std::thread::yield_now();
            }
            ended.send(()).expect("the test waits");
        }
    }

    #[tokio::test]
    async fn compiling_ends_when_the_time_is_over() {
        let (ended, wait) = mpsc::channel();
        let done = compile_within(Duration::from_millis(1), work_until_stopped(ended)).await;
        assert!(done.is_ok());
        wait.recv().expect("it was stopped");
    }

    #[tokio::test]
    async fn compiling_ends_when_the_caller_has_left() {
        let (ended, wait) = mpsc::channel();
        let mut compiling = Box::pin(compile_blocking(work_until_stopped(ended)));
        assert!(futures_util::poll!(&mut compiling).is_pending());
        drop(compiling);
        wait.recv().expect("it was stopped");
    }
}
