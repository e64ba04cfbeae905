//! The idle timeout of a call: how long a provider may send nothing of its answer.

use std::future::Future;
use std::time::Duration;

use futures_util::TryFutureExt as _;
use tokio::time::Instant;

use super::error::ProviderError;

/// Waits for `work`, but no longer than `most`.
///
/// Not an `async fn`: such a future has room for its argument twice, and many calls wait in it.
pub(crate) fn with_idle_timeout<T>(
    most: Duration,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, ProviderError>> {
    wait_until(Instant::now() + most, most, work)
}

fn wait_until<T>(
    end: Instant,
    most: Duration,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, ProviderError>> {
    tokio::time::timeout_at(end, work).map_err(move |_| ProviderError::IdleTimeout { limit: most })
}

/// The idle timeout of a stream. Only a part of the answer restarts it, so that a provider that has stopped cannot keep
/// a call waiting with pings.
pub(crate) struct IdleTimer {
    limit: Duration,
    end: Instant,
}

impl IdleTimer {
    pub(crate) fn start(limit: Duration) -> IdleTimer {
        IdleTimer { limit, end: Instant::now() + limit }
    }

    /// Restarts the timeout after a part of the answer.
    pub(crate) fn restart(&mut self) {
        self.end = Instant::now() + self.limit;
    }

    /// Waits for `work`, but no longer than until the timeout ends.
    pub(crate) fn wait_for<T>(&self, work: impl Future<Output = T>) -> impl Future<Output = Result<T, ProviderError>> {
        wait_until(self.end, self.limit, work)
    }
}
