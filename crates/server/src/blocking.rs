//! Work that may wait, off the threads that serve.

use flowloom_app::error::AppError;

use crate::problem::ApiResult;

/// Runs file or database work on a blocking thread.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
    Ok(tokio::task::spawn_blocking(work).await.map_err(AppError::from)?)
}
