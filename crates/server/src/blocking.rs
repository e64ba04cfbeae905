//! Work that may wait, off the threads that serve.

use flowloom_core::code::Code;

use crate::problem::{Answer, Problem};

/// Work that reads files or the database, off the threads that serve.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::new(Code::StoreFailed, format!("the work was not done: {error}")))
}
