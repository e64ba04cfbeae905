//! A run's events as they happen, as server-sent events: what is stored first, then what comes, without a gap. How they
//! are told is up to a [`Teller`].

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse as _;
use axum::response::sse::{Event as Sse, KeepAlive, Sse as Stream};
use flowloom_app::runs::wait::goes_on;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_runtime::publish::{Heard, Signal, Subscription};
use futures_util::stream::{self, StreamExt as _};
use serde_json::json;

use crate::state::Server;

/// Between two signs of life, when nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// After this a client that lost the connection comes back.
const RETRY: Duration = Duration::from_secs(1);

/// Between two looks at a run that another process drives.
const LOOK: Duration = Duration::from_millis(200);

/// Events that are read from the journal at once: what a client that takes nothing costs.
const PAGE: u32 = 8;

/// Tells a client what happens to a run, in the client's terms.
pub(crate) trait Teller: Send {
    /// An event of the journal; it hears each once, in order.
    fn event(&mut self, record: &Record) -> Vec<Sse>;

    /// Part of a model's answer, as it comes: of which step and attempt, and where in the answer.
    fn delta(&mut self, _place: (&Path, u32, u64), _text: &str) -> Option<Sse> {
        None
    }

    /// The last word, if nothing drives the run any more.
    fn end(&mut self, _run: RunId, _status: &str) -> Option<Sse> {
        None
    }
}

/// Where a client stands.
struct Follower {
    server: Server,
    run: RunId,
    teller: Box<dyn Teller>,
    /// The last event that was told.
    seq: u64,
    /// What happens in this process from some event on; the journal has what comes before that.
    heard: Option<Subscription>,
    /// Whether the journal may have something that was not sent.
    is_behind: bool,
    end: End,
    _counted: Arc<()>,
}

/// How far the end of a stream is.
enum End {
    Open,
    /// The run is in this status, and nobody drives it: what the journal has is all.
    Near(String),
    Sent,
}

/// Every event of a run after `seq`, until it is no longer driven, with signs of life; with `with_text` also the text of
/// answers as it comes.
pub(crate) fn response(server: Server, run: RunId, seq: u64, with_text: bool) -> axum::response::Response {
    // Heard before anything is read, so that nothing happens between the two.
    let heard = server.live.subscribe(run);
    heard_from(server, run, (seq, Box::new(Journal { with_text })), heard)
}

/// What `teller` makes of a run's events after `seq`. `heard` is what this process hears of the run already.
pub(crate) fn heard_from(
    server: Server,
    run: RunId,
    (seq, teller): (u64, Box<dyn Teller>),
    heard: Option<Subscription>,
) -> axum::response::Response {
    sent(seq == 0, told(server, run, (seq, teller), heard))
}

/// The same as a stream, which somebody else may go on with.
pub(crate) fn told(
    server: Server,
    run: RunId,
    (seq, teller): (u64, Box<dyn Teller>),
    heard: Option<Subscription>,
) -> impl futures_util::Stream<Item = Sse> + Send + 'static {
    let counted = server.followers.clone();
    let follower = Follower { server, run, teller, seq, heard, is_behind: true, end: End::Open, _counted: counted };
    let batches = stream::unfold(follower, |mut follower| async move { Some((follower.next().await?, follower)) });
    batches.flat_map(stream::iter)
}

/// Events as an answer, with signs of life; a new one says when a client that lost the connection comes back.
pub(crate) fn sent(
    is_new: bool,
    events: impl futures_util::Stream<Item = Sse> + Send + 'static,
) -> axum::response::Response {
    let retry = is_new.then(|| Sse::default().retry(RETRY));
    let events = stream::iter(retry).chain(events).map(Ok::<_, Infallible>);
    Stream::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

/// Every event as the journal has it.
pub(crate) struct Journal {
    /// Whether the text of answers is told as it comes.
    pub(crate) with_text: bool,
}

impl Teller for Journal {
    fn event(&mut self, record: &Record) -> Vec<Sse> {
        let data = serde_json::to_string(record).ok();
        let told = |data| Sse::default().id(record.seq.to_string()).event(record.event.name()).data(data);
        data.map(told).into_iter().collect()
    }

    fn delta(&mut self, (path, attempt, offset): (&Path, u32, u64), text: &str) -> Option<Sse> {
        let data = || json!({"path": path, "attempt": attempt, "offset": offset, "text": text});
        self.with_text.then(|| Sse::default().event("delta").data(data().to_string()))
    }

    fn end(&mut self, run: RunId, status: &str) -> Option<Sse> {
        let data = json!({"run_id": run.to_string(), "status": status});
        Some(Sse::default().event("done").data(data.to_string()))
    }
}

impl Follower {
    /// What comes next; `None` after the end.
    async fn next(&mut self) -> Option<Vec<Sse>> {
        loop {
            if self.is_behind {
                let page = self.page().await;
                if !page.is_empty() {
                    return Some(page);
                }
                continue;
            }
            match std::mem::replace(&mut self.end, End::Open) {
                End::Open => {}
                End::Near(status) => {
                    self.end = End::Sent;
                    return Some(self.teller.end(self.run, &status).into_iter().collect());
                }
                End::Sent => return None,
            }
            let heard = match &mut self.heard {
                Some(heard) => heard.next().await,
                None => None,
            };
            match heard {
                Some(Heard::Signal(signal)) => {
                    let told = self.signal(signal);
                    if !told.is_empty() {
                        return Some(told);
                    }
                }
                // Too slow for the live stream. Heard anew, with the text so far; the journal has the events.
                Some(Heard::Missed(_)) => self.tune_in(),
                None => self.look().await,
            }
        }
    }

    /// Hears what happens from now on; what comes before is in the journal.
    fn tune_in(&mut self) {
        self.heard = self.server.live.subscribe(self.run);
        self.is_behind = true;
    }

    /// A run that is not heard: taken up here again, driven by another process, or over.
    async fn look(&mut self) {
        let waits = self.heard.take().is_none();
        self.tune_in();
        if self.heard.is_some() {
            return;
        }
        let (server, run) = (self.server.clone(), self.run);
        let row = crate::blocking::blocking(move || server.app.store.run(run)).await;
        match row {
            // It is driven elsewhere, or will be: one that was interrupted is taken up.
            Ok(Ok(Some(row))) if goes_on(&row) => {
                if waits {
                    tokio::time::sleep(LOOK).await;
                }
            }
            Ok(Ok(row)) => self.end = End::Near(row.map(|row| row.status).unwrap_or_default()),
            // The client comes back and finds out.
            Ok(Err(_)) | Err(_) => self.end = End::Sent,
        }
    }

    /// What the journal has beyond what was sent, and before what is heard; empty if there is no more.
    async fn page(&mut self) -> Vec<Sse> {
        let (server, run, seq) = (self.server.clone(), self.run, self.seq);
        let last = self.heard.as_ref().map_or(u64::MAX, Subscription::after);
        let records = match seq < last {
            true => crate::blocking::blocking(move || server.app.store.events(run, seq, PAGE)).await,
            false => Ok(Ok(Vec::new())),
        };
        let records = match records.and_then(|read| Ok(read?)) {
            Ok(records) => records,
            // A gap is worse than an end: the client comes back, and asks for what it lacks.
            Err(_) => {
                self.end = End::Sent;
                Vec::new()
            }
        };
        let unheard = records.iter().take_while(|record| record.seq <= last);
        let before = self.seq;
        let told = unheard.flat_map(|record| self.event(record)).collect();
        self.is_behind = self.seq > before;
        told
    }

    fn signal(&mut self, signal: Signal) -> Vec<Sse> {
        match signal {
            Signal::Event(record) => self.event(&record),
            Signal::Delta { path, attempt, offset, text } => {
                self.teller.delta((&path, attempt, offset), &text).into_iter().collect()
            }
        }
    }

    /// An event, unless it was told already.
    fn event(&mut self, record: &Record) -> Vec<Sse> {
        if record.seq <= self.seq {
            return Vec::new();
        }
        self.seq = record.seq;
        self.teller.event(record)
    }
}
