//! Streams the events of a run as server-sent events: first the stored events, then new ones, without a gap. An
//! event encoder determines their form.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event as Sse, KeepAlive, Sse as Stream};
use flowloom_app::error::AppError;
use flowloom_app::runs::wait::is_active_row;
use flowloom_core::code::Code;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::publish::{Delivery, Delta, RunUpdate, Subscription};
use flowloom_runtime::relay::FollowedText;
use futures_util::stream::{self, StreamExt as _};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::blocking::run_reading;
use crate::problem::{ApiResult, Problem};
use crate::state::RunHost;

/// Interval of heartbeats while nothing happens.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Delay before a client that lost the connection reconnects.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Interval of polling a run that another worker drives.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Number of events read from the journal together: the memory cost of a client that does not read.
const PAGE_EVENTS: u32 = 8;

/// The number of the last event that the client has, from `Last-Event-ID`; `None` without the header. Fails with
/// `RequestInvalid` if it is no number of an event.
pub(super) fn read_last_event(headers: &HeaderMap) -> ApiResult<Option<u64>> {
    let Some(given) = headers.get("last-event-id") else { return Ok(None) };
    let text = given.to_str().unwrap_or("?").trim();
    // A client that has received no event may send an empty id.
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let message = format!("Last-Event-ID is {text:?}; expected the id of an event of this run, which is a number");
        Problem::new(Code::RequestInvalid, message)
    })
}

/// Encodes the events of a run for a client.
pub(crate) trait EventEncoder: Send {
    /// Encodes an event of the journal. Called once per event, in order.
    fn encode_event(&mut self, record: &Record) -> Vec<Sse>;

    /// Encodes streamed text of a model.
    fn encode_delta(&mut self, _delta: &Delta) -> Option<Sse> {
        None
    }

    /// Whether [`EventEncoder::encode_delta`] encodes anything.
    fn wants_text(&self) -> bool {
        false
    }

    /// Encodes why the stream breaks off although the run continues: the client reconnects.
    fn encode_break(&mut self, _why: &Problem) -> Option<Sse> {
        None
    }

    /// Encodes the end of the stream, once no worker drives the run.
    fn encode_end(&mut self, _run: RunId, _status: &str) -> Option<Sse> {
        None
    }
}

/// The position of a client in the events of a run.
struct Follower {
    host: Arc<RunHost>,
    run: RunId,
    encoder: Box<dyn EventEncoder>,
    /// Sequence number of the last event sent.
    seq: u64,
    /// Live events of this process from some event on; earlier events are in the journal.
    subscription: Option<Subscription>,
    /// Whether the journal may contain events that were not sent.
    is_behind: bool,
    /// Text from the process that drives the run, while it is another one.
    text: FollowedText,
    /// When to look next whether a run without a subscription has ended.
    next_poll: Instant,
    end: StreamEnd,
    _counted: Arc<()>,
}

/// The state of the end of the stream.
enum StreamEnd {
    Open,
    /// The run has this status and no worker drives it: the journal is complete.
    Reached(String),
    /// The run may continue, and this stream does not.
    Broken(Problem),
    Sent,
}

/// Streams every event of a run after `seq` until no worker drives it, with heartbeats; `with_text` adds streamed text
/// of models.
pub(crate) fn stream_run(host: Arc<RunHost>, run: RunId, seq: u64, with_text: bool) -> axum::response::Response {
    // Subscribe before reading, so that no event falls between the two.
    let subscription = host.supervisor.subscribe(run);
    stream_encoded(host, run, seq, Box::new(JournalEncoder { with_text }), subscription)
}

/// Streams a run's events after `seq`, as encoded by the given encoder, from an existing subscription to the run.
pub(crate) fn stream_encoded(
    host: Arc<RunHost>,
    run: RunId,
    seq: u64,
    encoder: Box<dyn EventEncoder>,
    subscription: Option<Subscription>,
) -> axum::response::Response {
    stream_response(seq == 0, encode_stream(host, run, seq, encoder, subscription))
}

/// The events as a stream that can be extended.
pub(crate) fn encode_stream(
    host: Arc<RunHost>,
    run: RunId,
    seq: u64,
    encoder: Box<dyn EventEncoder>,
    subscription: Option<Subscription>,
) -> impl futures_util::Stream<Item = Sse> + Send + 'static {
    let counted = host.followers.clone();
    let follower = Follower {
        host,
        run,
        encoder,
        seq,
        subscription,
        is_behind: true,
        text: FollowedText::default(),
        next_poll: Instant::now(),
        end: StreamEnd::Open,
        _counted: counted,
    };
    let batches =
        stream::unfold(follower, |mut follower| async move { Some((follower.next_batch().await?, follower)) });
    batches.flat_map(stream::iter)
}

/// Builds the response from a stream of events, with heartbeats. The first event of a new stream also has the reconnect
/// delay: some clients take a delay without an event for an empty event.
pub(crate) fn stream_response(
    is_new: bool,
    events: impl futures_util::Stream<Item = Sse> + Send + 'static,
) -> axum::response::Response {
    let mut is_first = is_new;
    let events = events.map(move |event| match std::mem::take(&mut is_first) {
        true => Ok::<_, Infallible>(event.retry(RECONNECT_DELAY)),
        false => Ok(event),
    });
    Stream::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT_INTERVAL)).into_response()
}

/// Encodes events as the journal stores them.
pub(crate) struct JournalEncoder {
    /// Whether streamed text of models is included.
    pub(crate) with_text: bool,
}

impl EventEncoder for JournalEncoder {
    fn encode_event(&mut self, record: &Record) -> Vec<Sse> {
        let data = serde_json::to_string(record).ok();
        let sse_event = |data| Sse::default().id(record.seq.to_string()).event(record.event.name()).data(data);
        data.map(sse_event).into_iter().collect()
    }

    fn encode_delta(&mut self, delta: &Delta) -> Option<Sse> {
        let Delta { path, attempt, offset, text } = delta;
        let data = || json!({"path": path, "attempt": attempt, "offset": offset, "text": text});
        self.with_text.then(|| Sse::default().event("delta").data(data().to_string()))
    }

    fn wants_text(&self) -> bool {
        self.with_text
    }

    fn encode_break(&mut self, why: &Problem) -> Option<Sse> {
        // A comment: to clients an event would be one of the run, and browsers report `error` for what happens to a stream.
        let reason = format!("{}: {}", why.code(), why.detail()).replace(['\n', '\r'], " ");
        Some(Sse::default().retry(RECONNECT_DELAY).comment(reason))
    }

    fn encode_end(&mut self, run: RunId, status: &str) -> Option<Sse> {
        let data = json!({"run_id": run.to_string(), "status": status});
        Some(Sse::default().event("done").data(data.to_string()))
    }
}

impl Follower {
    /// The next batch of events; `None` after the end.
    async fn next_batch(&mut self) -> Option<Vec<Sse>> {
        loop {
            if self.is_behind {
                let page = self.read_page().await;
                if !page.is_empty() {
                    return Some(page);
                }
                continue;
            }
            match std::mem::replace(&mut self.end, StreamEnd::Open) {
                StreamEnd::Open => {}
                StreamEnd::Reached(status) => {
                    self.end = StreamEnd::Sent;
                    return Some(self.encoder.encode_end(self.run, &status).into_iter().collect());
                }
                StreamEnd::Broken(why) => {
                    self.end = StreamEnd::Sent;
                    return Some(self.encoder.encode_break(&why).into_iter().collect());
                }
                StreamEnd::Sent => return None,
            }
            let closing = self.host.closing.clone();
            let subscription = match &mut self.subscription {
                Some(subscription) => tokio::select! {
                    biased;
                    next = subscription.next() => next,
                    () = closing.cancelled() => {
                        self.end = StreamEnd::Broken(AppError::Stopping.into());
                        continue;
                    }
                },
                None => None,
            };
            match subscription {
                Some(Delivery::Update(signal)) => {
                    let sse_event = self.encode_update(signal);
                    if !sse_event.is_empty() {
                        return Some(sse_event);
                    }
                }
                // The subscriber was too slow. Subscribe again, which resends the text so far; the journal has the
                // events.
                Some(Delivery::Missed(_)) => self.resubscribe(),
                // It was resumed here, is driven by another worker, or has ended.
                None => match self.wait_for_text().await {
                    Some(deltas) if !deltas.is_empty() => return Some(self.encode_deltas(&deltas)),
                    Some(_) => {}
                    None => self.poll_run().await,
                },
            }
        }
    }

    /// Subscribes to new events; earlier events are in the journal.
    fn resubscribe(&mut self) {
        self.subscription = self.host.supervisor.subscribe(self.run);
        self.is_behind = true;
        if self.subscription.is_some() {
            self.text = FollowedText::default();
        }
    }

    /// Looks whether a run without a subscription is driven here now, or has ended.
    async fn poll_run(&mut self) {
        self.resubscribe();
        if self.subscription.is_some() {
            return;
        }
        if self.host.closing.is_cancelled() {
            self.end = StreamEnd::Broken(AppError::Stopping.into());
            return;
        }
        let (host, run) = (self.host.clone(), self.run);
        let row = crate::blocking::run_blocking(move || host.app.store.get_run(run)).await;
        match row {
            // Another worker drives it, or will: interrupted runs are reclaimed.
            Ok(Ok(Some(row))) if is_active_row(&row) => self.next_poll = Instant::now() + POLL_INTERVAL,
            Ok(Ok(row)) => self.end = StreamEnd::Reached(row.map(|row| row.status).unwrap_or_default()),
            Ok(Err(error)) => self.end = StreamEnd::Broken(error.into()),
            Err(problem) => self.end = StreamEnd::Broken(problem),
        }
    }

    /// Waits for text from the worker that drives the run. `None`: it is time to poll the run. Empty: text has come whose event
    /// is not known yet.
    async fn wait_for_text(&mut self) -> Option<Vec<Delta>> {
        self.subscription = None;
        if self.next_poll <= Instant::now() {
            return None;
        }
        if self.encoder.wants_text() && !self.text.is_following() {
            // A failure to read is noticed by the next poll.
            let (store, run, last) = (self.host.app.store.clone(), self.run, self.seq);
            let find_open = async move || {
                let mut known = store.read(run, 0).await?;
                known.retain(|record| record.seq <= last);
                Ok(FollowedText::after(&known))
            };
            self.text = run_reading(find_open).await.unwrap_or_default();
            self.text.follow_while(true, &*self.host.app.store, self.run);
        }
        let deltas = timeout_at(self.next_poll, self.text.next()).await.ok()?;
        if self.text.is_waiting() {
            self.next_poll = Instant::now();
        }
        Some(deltas)
    }

    /// The next stored events after the last one sent and before the subscription; empty if there are none.
    async fn read_page(&mut self) -> Vec<Sse> {
        let (host, run, seq) = (self.host.clone(), self.run, self.seq);
        let last = self.subscription.as_ref().map_or(u64::MAX, Subscription::after);
        let records = match seq < last {
            true => crate::blocking::run_blocking(move || host.app.store.read_events(run, seq, PAGE_EVENTS)).await,
            false => Ok(Ok(Vec::new())),
        };
        let records = match records.and_then(|read| Ok(read?)) {
            Ok(records) => records,
            // A gap is worse than an end: the client reconnects and requests the missing events.
            Err(problem) => {
                self.end = StreamEnd::Broken(problem);
                Vec::new()
            }
        };
        let unheard = records.iter().take_while(|record| record.seq <= last);
        let before = self.seq;
        let mut sse_events: Vec<Sse> = unheard.flat_map(|record| self.encode_once(record)).collect();
        self.is_behind = self.seq > before;
        let deltas = self.text.take_ready();
        sse_events.extend(self.encode_deltas(&deltas));
        sse_events
    }

    fn encode_deltas(&mut self, deltas: &[Delta]) -> Vec<Sse> {
        deltas.iter().filter_map(|delta| self.encoder.encode_delta(delta)).collect()
    }

    fn encode_update(&mut self, signal: RunUpdate) -> Vec<Sse> {
        match signal {
            RunUpdate::Event(record) => self.encode_once(&record),
            RunUpdate::Delta(delta) => self.encoder.encode_delta(&delta).into_iter().collect(),
        }
    }

    /// Encodes an event unless it was sent already.
    fn encode_once(&mut self, record: &Record) -> Vec<Sse> {
        if record.seq <= self.seq {
            return Vec::new();
        }
        self.seq = record.seq;
        if self.text.is_following() {
            self.text.note_record(record);
        }
        self.encoder.encode_event(record)
    }
}
