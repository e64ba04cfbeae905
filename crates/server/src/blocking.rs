//! Work of requests that may take long, off the threads that serve: on blocking threads, in places that users share fairly.

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Json;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::response::{IntoResponse as _, Response};
use flowloom_app::error::AppError;
use flowloom_core::code::Code;
use flowloom_formats::StopFlag;
use flowloom_runtime::fair::{FairPermit, FairSemaphore, user_share};
use futures_util::{Stream, StreamExt as _};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::problem::{ApiResult, Problem};

/// Number of places for each core: some work waits for the database.
const PLACES_PER_CORE: usize = 2;

/// Minimum number of places, so that one is left when a user has a share of them.
const MIN_PLACES: usize = 4;

/// Maximum number of requests of one user that wait for their first place.
const MAX_QUEUED_OF_USER: usize = 128;

tokio::task_local! {
    /// The request that a task serves. Blocking threads have none: work that is part of other work takes no second place.
    static REQUEST: ServedRequest;
}

/// The places in which requests work.
#[derive(Clone)]
pub(crate) struct WorkPlaces(FairSemaphore);

impl WorkPlaces {
    /// Places for this machine.
    pub(crate) fn new() -> WorkPlaces {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        WorkPlaces::with_places((cores * PLACES_PER_CORE).max(MIN_PLACES))
    }

    fn with_places(places: usize) -> WorkPlaces {
        WorkPlaces(FairSemaphore::new("requests", places, user_share(places)))
    }

    /// A request of a user.
    pub(crate) fn request_of(&self, user: &str) -> ServedRequest {
        ServedRequest { places: self.clone(), user: user.into(), is_accepted: Arc::default() }
    }
}

/// A request whose work takes places of its user.
#[derive(Clone)]
pub(crate) struct ServedRequest {
    places: WorkPlaces,
    user: Arc<str>,
    /// Whether it is no longer refused, however many requests wait: it has worked, or has started something.
    is_accepted: Arc<AtomicBool>,
}

impl ServedRequest {
    /// Runs a handler of the request.
    pub(crate) async fn serve_handler<T>(self, handled: impl Future<Output = T>) -> T {
        REQUEST.scope(self, handled).await
    }

    /// A body whose parts are work of the request when they are made.
    pub(crate) fn serve_body(self, body: Body) -> Body {
        Body::from_stream(ServedStream { request: self, stream: body.into_data_stream() })
    }

    /// Waits for a place. Fails with `TooManyCalls` if too many requests of the user wait.
    async fn take_place(&self) -> ApiResult<FairPermit> {
        let limit = if self.is_accepted.load(Ordering::Relaxed) { usize::MAX } else { MAX_QUEUED_OF_USER };
        let Some(place) = self.places.0.acquire_permit_within(&self.user, limit).await else {
            let message = format!("{limit} requests of this user are already waiting, which is the limit");
            return Err(Problem::new(Code::TooManyCalls, message));
        };
        self.is_accepted.store(true, Ordering::Relaxed);
        Ok(place)
    }
}

/// The parts of a body that is made while it is sent.
struct ServedStream {
    request: ServedRequest,
    stream: BodyDataStream,
}

impl Stream for ServedStream {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let request = self.request.clone();
        REQUEST.sync_scope(request, || self.stream.poll_next_unpin(context))
    }
}

/// From now on, the request of this task is not refused: what it starts would not be named.
pub(crate) fn accept_request() {
    let _ = REQUEST.try_with(|request| request.is_accepted.store(true, Ordering::Relaxed));
}

/// Starts work on a blocking thread, in a place of the request's user if this task serves a request.
async fn start_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ApiResult<JoinHandle<T>> {
    let place = match REQUEST.try_with(ServedRequest::clone) {
        Ok(request) => Some(request.take_place().await?),
        Err(_) => None,
    };
    Ok(tokio::task::spawn_blocking(move || {
        // Held until the work ends, even if the caller has left.
        let _place = place;
        work()
    }))
}

/// Runs file or database work, or a long computation, on a blocking thread.
pub(crate) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
    Ok(start_work(work).await?.await.map_err(AppError::from)?)
}

/// Runs work that computes and reads in turn on a blocking thread. It must not wait for other requests or for runs. It ends
/// at its next read when the caller has left.
pub(crate) async fn run_reading<T: Send + 'static>(
    work: impl AsyncFnOnce() -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let left = CancellationToken::new();
    let _guard = left.clone().drop_guard();
    let runtime = Handle::current();
    let done = run_blocking(move || runtime.block_on(left.run_until_cancelled(work()))).await?;
    // No client waits for that answer.
    done.unwrap_or_else(|| Err(AppError::Stopping.into()))
}

/// Length of a text from which on it is parsed on a blocking thread.
const LONG_TEXT_BYTES: usize = 64 << 10;

/// Parses the text of a request, on a blocking thread if it is long, and returns it, too.
pub(crate) async fn parse_text<T: Send + 'static>(
    text: String,
    parse: impl FnOnce(&str) -> ApiResult<T> + Send + 'static,
) -> ApiResult<(T, String)> {
    let is_long = text.len() >= LONG_TEXT_BYTES;
    let parse = move || parse(&text).map(|parsed| (parsed, text));
    if !is_long { parse() } else { run_blocking(parse).await? }
}

/// Longest time that a definition of a caller may be compiled.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Compiles a definition that a caller sent. It is stopped when the time is over, and when the caller has left.
pub(crate) async fn compile_blocking<T: Send + 'static>(
    work: impl FnOnce(&StopFlag) -> T + Send + 'static,
) -> ApiResult<T> {
    compile_within(COMPILE_TIMEOUT, work).await
}

/// The same, and writes the answer on that thread, too: it may be as large as the definition.
pub(crate) async fn compile_to_json<T: Serialize, E: Into<Problem>>(
    work: impl FnOnce(&StopFlag) -> Result<T, E> + Send + 'static,
) -> ApiResult<Response> {
    let write = |done: T| Json(done).into_response();
    compile_blocking(move |stop| work(stop).map(write).map_err(Into::into)).await?
}

async fn compile_within<T: Send + 'static>(
    timeout: Duration,
    work: impl FnOnce(&StopFlag) -> T + Send + 'static,
) -> ApiResult<T> {
    let guard = StopGuard { stop: StopFlag::default() };
    let stop = guard.stop.clone();
    let mut task = start_work(move || work(&stop)).await?;
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

    /// Occupies every place of a user until the senders are dropped.
    async fn occupy_places(places: &WorkPlaces, user: &str, count: usize) -> Vec<mpsc::Sender<()>> {
        let mut gates = Vec::new();
        for _ in 0..count {
            let (gate, closed) = mpsc::channel::<()>();
            let work = move || {
                let _ = closed.recv();
            };
            let started = places.request_of(user).serve_handler(start_work(work)).await;
            drop(started.expect("a free place"));
            gates.push(gate);
        }
        gates
    }

    #[tokio::test]
    async fn a_user_who_works_in_every_place_of_theirs_leaves_one_to_others() {
        let places = WorkPlaces::with_places(4);
        let gates = occupy_places(&places, "bob", 3).await;
        let mut bobs = Box::pin(places.request_of("bob").serve_handler(run_blocking(|| 1)));
        assert!(futures_util::poll!(&mut bobs).is_pending());
        let alices = places.request_of("alice").serve_handler(run_reading(async || Ok(2))).await;
        assert_eq!(alices.expect("a place"), 2);
        assert!(futures_util::poll!(&mut bobs).is_pending(), "bob has his share");
        drop(gates);
        assert_eq!(bobs.await.expect("a place"), 1);
    }

    #[tokio::test]
    async fn a_user_with_too_many_waiting_requests_is_refused() {
        let places = WorkPlaces::with_places(1);
        let gates = occupy_places(&places, "bob", 1).await;
        let request = || Box::pin(places.request_of("bob").serve_handler(run_blocking(|| ())));
        let mut waiting: Vec<_> = (0..MAX_QUEUED_OF_USER).map(|_| request()).collect();
        for one in &mut waiting {
            assert!(futures_util::poll!(one).is_pending());
        }
        let problem = request().await.expect_err("the queue is full");
        assert_eq!((problem.code(), problem.status().as_u16()), (Code::TooManyCalls, 429));
        let mut accepted = Box::pin(places.request_of("bob").serve_handler(async {
            accept_request();
            run_blocking(|| ()).await
        }));
        assert!(futures_util::poll!(&mut accepted).is_pending(), "it has started something, and waits");
        drop((accepted, waiting.pop()));
        waiting.push(request());
        assert!(futures_util::poll!(waiting.last_mut().expect("one")).is_pending(), "one has left");
        drop(gates);
        for one in waiting {
            one.await.expect("a place");
        }
    }

    #[tokio::test]
    async fn work_within_work_takes_no_second_place() {
        let request = WorkPlaces::with_places(1).request_of("bob");
        let done = request.serve_handler(run_reading(async || run_blocking(|| 3).await)).await;
        assert_eq!(done.expect("a place"), 3);
    }

    #[tokio::test]
    async fn parts_of_a_body_are_work_of_its_request() {
        let places = WorkPlaces::with_places(1);
        let gates = occupy_places(&places, "bob", 1).await;
        let parts =
            futures_util::stream::once(async { run_blocking(|| "part").await.map_err(|_| axum::Error::new("")) });
        let mut body = places.request_of("bob").serve_body(Body::from_stream(parts)).into_data_stream();
        assert!(futures_util::poll!(body.next()).is_pending());
        drop(gates);
        assert_eq!(body.next().await.expect("a part").expect("no error"), "part");
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
