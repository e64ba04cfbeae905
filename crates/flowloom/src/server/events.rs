//! A run's events as they happen, as server-sent events: what is stored first, then what comes, without a gap.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse as _;
use axum::response::sse::{Event as Sse, KeepAlive, Sse as Stream};
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_runtime::publish::{Heard, Signal, Subscription};
use futures_util::stream::{self, StreamExt as _};
use serde_json::json;

use super::{Server, goes_on};

/// Between two signs of life, when nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// After this a client that lost the connection comes back.
const RETRY: Duration = Duration::from_secs(1);

/// Between two looks at a run that another process drives.
const LOOK: Duration = Duration::from_millis(200);

/// Events that are read from the journal at once: what a client that takes nothing costs.
const PAGE: u32 = 8;

/// Where a client stands.
struct Follower {
    server: Arc<Server>,
    run: RunId,
    /// The last event that was sent.
    seq: u64,
    /// What happens in this process from some event on; the journal has what comes before that.
    heard: Option<Subscription>,
    /// Whether the journal may have something that was not sent.
    is_behind: bool,
    with_text: bool,
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
pub(crate) fn response(server: Arc<Server>, run: RunId, seq: u64, with_text: bool) -> axum::response::Response {
    // Heard before anything is read, so that nothing happens between the two.
    let heard = server.live.subscribe(run);
    heard_from(server, run, seq, with_text, heard)
}

/// The same for a run that is heard already.
pub(crate) fn heard_from(
    server: Arc<Server>,
    run: RunId,
    seq: u64,
    with_text: bool,
    heard: Option<Subscription>,
) -> axum::response::Response {
    let counted = server.followers.clone();
    let follower = Follower { server, run, seq, heard, is_behind: true, with_text, end: End::Open, _counted: counted };
    let batches = stream::unfold(follower, |mut follower| async move { Some((follower.next().await?, follower)) });
    let retry = (seq == 0).then(|| Sse::default().retry(RETRY));
    let events = stream::iter(retry).chain(batches.flat_map(stream::iter)).map(Ok::<_, Infallible>);
    Stream::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
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
            }
            match std::mem::replace(&mut self.end, End::Open) {
                End::Open => {}
                End::Near(status) => {
                    self.end = End::Sent;
                    let data = json!({"run_id": self.run.to_string(), "status": status});
                    return Some(vec![Sse::default().event("done").data(data.to_string())]);
                }
                End::Sent => return None,
            }
            let heard = match &mut self.heard {
                Some(heard) => heard.next().await,
                None => None,
            };
            match heard {
                Some(Heard::Signal(signal)) => {
                    if let Some(sent) = self.signal(signal) {
                        return Some(vec![sent]);
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
        let row = super::blocking(move || server.app.store.run(run)).await;
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
            true => super::blocking(move || server.app.store.events(run, seq, PAGE)).await,
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
        let sent: Vec<Sse> = records.iter().filter(|it| it.seq <= last).filter_map(|it| self.event(it)).collect();
        self.is_behind = !sent.is_empty();
        sent
    }

    fn signal(&mut self, signal: Signal) -> Option<Sse> {
        match signal {
            Signal::Event(record) => self.event(&record),
            Signal::Delta { path, attempt, offset, text } if self.with_text => {
                let data = json!({"path": path, "attempt": attempt, "offset": offset, "text": &*text});
                Some(Sse::default().event("delta").data(data.to_string()))
            }
            Signal::Delta { .. } => None,
        }
    }

    /// An event, unless it was sent already.
    fn event(&mut self, record: &Record) -> Option<Sse> {
        if record.seq <= self.seq {
            return None;
        }
        self.seq = record.seq;
        let data = serde_json::to_string(record).ok()?;
        Some(Sse::default().id(record.seq.to_string()).event(record.event.name()).data(data))
    }
}
