//! Work that may wait, off the threads that serve.

use flowloom_core::code::Code;

use crate::problem::{ApiResult, Problem};

/// Runs file or database work on a blocking thread.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::new(Code::StoreFailed, format!("the background task failed: {error}")))
}
