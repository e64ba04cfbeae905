//! The open connections. If all are in use, the one that has been idle for the longest time makes room for a new one, as in
//! nginx: otherwise one client could open enough connections to exclude all others.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::response::Response;
use futures_util::{Stream, StreamExt as _};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::revoked::is_event_stream;

/// How long a connection that is asked to close may take before another one is looked for.
const CLOSE_WAIT: Duration = Duration::from_millis(20);

/// How long a connection is idle before it makes room: a client may just be sending its next request.
const MIN_IDLE_TIME: Duration = Duration::from_secs(1);

/// The value of `idle_since` of a connection that answers a request, or has not received one. If the first one does not
/// come, the time limit of a head closes the connection.
const NOT_IDLE_NANOS: u64 = 0;

/// The connections of a server, of which there are at most so many.
pub(crate) struct OpenConnections {
    places: Arc<Semaphore>,
    open: Mutex<HashMap<u64, Arc<ConnectionState>>>,
    /// The number of connections so far.
    count: AtomicU64,
    started: Instant,
}

struct ConnectionState {
    /// When the connection has answered its last request, in nanoseconds since the server started.
    idle_since: AtomicU64,
    closing: CancellationToken,
}

/// An open connection. It has its place until it is dropped.
pub(crate) struct OpenConnection {
    connections: Arc<OpenConnections>,
    id: u64,
    state: Arc<ConnectionState>,
    _place: OwnedSemaphorePermit,
}

impl OpenConnections {
    pub(crate) fn new(max: usize) -> Arc<OpenConnections> {
        Arc::new(OpenConnections {
            places: Arc::new(Semaphore::new(max)),
            open: Mutex::default(),
            count: AtomicU64::default(),
            started: Instant::now(),
        })
    }

    fn lock_open(&self) -> MutexGuard<'_, HashMap<u64, Arc<ConnectionState>>> {
        self.open.lock()
    }

    /// Nanoseconds since the server started, never [`NOT_IDLE_NANOS`].
    fn now_ns(&self) -> u64 {
        to_nanos(self.started.elapsed()).max(NOT_IDLE_NANOS + 1)
    }

    /// Waits for a place for a connection, and closes idle ones if there is none. `closing` closes the connection once it is
    /// idle.
    pub(crate) async fn add_connection(self: &Arc<OpenConnections>, closing: CancellationToken) -> OpenConnection {
        let place = loop {
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                break place;
            }
            self.close_oldest_idle();
            // The semaphore is never closed.
            if let Ok(Ok(place)) = tokio::time::timeout(CLOSE_WAIT, self.places.clone().acquire_owned()).await {
                break place;
            }
        };
        let id = self.count.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(ConnectionState { idle_since: AtomicU64::new(NOT_IDLE_NANOS), closing });
        self.lock_open().insert(id, state.clone());
        OpenConnection { connections: self.clone(), id, state, _place: place }
    }

    /// Closes the connection that has been idle for the longest time, if one has been for long enough.
    fn close_oldest_idle(&self) {
        let latest = self.now_ns().saturating_sub(to_nanos(MIN_IDLE_TIME));
        let open = self.lock_open();
        let idle = open.values().filter_map(|state| match state.idle_since.load(Ordering::Relaxed) {
            NOT_IDLE_NANOS => None,
            since => (since <= latest).then_some((since, state)),
        });
        if let Some((_, oldest)) = idle.min_by_key(|(since, _)| *since) {
            oldest.idle_since.store(NOT_IDLE_NANOS, Ordering::Relaxed);
            oldest.closing.cancel();
        }
    }
}

/// The nanoseconds of a duration, which fit for 584 years.
fn to_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl OpenConnection {
    /// Waits until the connection is to be closed, once it is idle.
    pub(crate) async fn wait_for_closing(&self) {
        self.state.closing.cancelled().await;
    }

    /// The tracker that notes when the connection answers requests.
    pub(crate) fn track_requests(&self) -> RequestTracker {
        RequestTracker { connections: self.connections.clone(), state: self.state.clone() }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.lock_open().remove(&self.id);
    }
}

/// Notes when a connection answers requests.
#[derive(Clone)]
pub(crate) struct RequestTracker {
    connections: Arc<OpenConnections>,
    state: Arc<ConnectionState>,
}

impl RequestTracker {
    /// Answers a request. Meanwhile the connection is not idle, and neither is it while the answer streams events.
    pub(crate) async fn track_request(&self, answer: impl Future<Output = Response>) -> Response {
        self.state.idle_since.store(NOT_IDLE_NANOS, Ordering::Relaxed);
        let open_request = OpenRequest(self.clone());
        let answer = answer.await;
        if !is_event_stream(&answer) {
            return answer;
        }
        answer.map(|body| Body::from_stream(TrackedStream { stream: body.into_data_stream(), _request: open_request }))
    }
}

/// A request that is not answered yet. When it is dropped, its connection is idle.
struct OpenRequest(RequestTracker);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let RequestTracker { connections, state } = &self.0;
        state.idle_since.store(connections.now_ns(), Ordering::Relaxed);
    }
}

/// The parts of an answer that streams events.
struct TrackedStream {
    stream: BodyDataStream,
    _request: OpenRequest,
}

impl Stream for TrackedStream {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.poll_next_unpin(context)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header;
    use axum::response::IntoResponse as _;
    use futures_util::FutureExt as _;

    use super::*;

    async fn answer_with(connection: &OpenConnection, kind: &'static str) -> Response {
        let answer = async { ([(header::CONTENT_TYPE, kind)], "answer").into_response() };
        connection.track_requests().track_request(answer).await
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_is_idle_for_the_longest_time_makes_room() {
        let connections = OpenConnections::new(4);
        let tokens = [(); 5].map(|()| CancellationToken::new());
        let mut open = Vec::new();
        for token in &tokens[..4] {
            open.push(connections.add_connection(token.clone()).await);
        }
        let closed = || tokens.each_ref().map(CancellationToken::is_cancelled);
        // The first has received no request, the second streams, the fourth has answered a request before the third.
        let events = answer_with(&open[1], "text/event-stream").await;
        answer_with(&open[3], "text/plain").await;
        tokio::time::advance(CLOSE_WAIT).await;
        answer_with(&open[2], "text/plain").await;
        let mut waiting = Box::pin(connections.add_connection(tokens[4].clone()));
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(closed(), [false; 5], "the next requests may be on their way");
        tokio::time::advance(MIN_IDLE_TIME).await;
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(closed(), [false, false, false, true, false]);
        drop(open.pop());
        drop(waiting.await);
        assert_eq!(closed(), [false, false, false, true, false]);
        let idle_since = || open[1].state.idle_since.load(Ordering::Relaxed);
        assert_eq!(idle_since(), NOT_IDLE_NANOS, "it streams");
        drop(events);
        assert_ne!(idle_since(), NOT_IDLE_NANOS, "its stream has ended");
    }
}
