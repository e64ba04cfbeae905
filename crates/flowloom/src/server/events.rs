//! A run's events as they happen, as server-sent events: what is stored first, then what comes, without a gap.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event as Sse, KeepAlive, Sse as Stream};
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::publish::{Heard, Signal, Subscription};
use futures_util::stream::{self, StreamExt as _};
use serde_json::json;

use super::Server;

/// Between two signs of life, when nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Between two looks at the journal of a run that another process drives.
const LOOK: Duration = Duration::from_millis(200);

/// After this a client that lost the connection comes back.
const RETRY: Duration = Duration::from_secs(1);

type Response = Stream<stream::BoxStream<'static, Result<Sse, Infallible>>>;

/// Where a client stands.
struct Follower {
    server: Arc<Server>,
    run: RunId,
    /// The last event that was sent.
    seq: u64,
    heard: Option<Subscription>,
    with_text: bool,
    /// Whether nothing was sent yet.
    is_new: bool,
    is_done: bool,
}

/// Every event of a run after `seq`, until it is no longer driven; with `with_text` also the text of answers as it comes.
pub(crate) fn follow(server: Arc<Server>, run: RunId, seq: u64, with_text: bool) -> Response {
    // Heard before anything is read, so that nothing happens between the two.
    let heard = server.live.subscribe(run);
    let follower = Follower { server, run, seq, heard, with_text, is_new: seq == 0, is_done: false };
    let batches = stream::unfold((follower, true), |(mut follower, is_first)| async move {
        let batch = if is_first { follower.stored().await } else { follower.next().await? };
        Some((stream::iter(batch), (follower, false)))
    });
    let events = batches.flatten().map(Ok).boxed();
    Stream::new(events)
}

/// The same as a response, with signs of life.
pub(crate) fn response(server: Arc<Server>, run: RunId, seq: u64, with_text: bool) -> axum::response::Response {
    use axum::response::IntoResponse as _;
    follow(server, run, seq, with_text).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response()
}

impl Follower {
    /// What the journal has beyond what was sent.
    async fn stored(&mut self) -> Vec<Sse> {
        let records = self.server.app.store.read(self.run, self.seq).await.unwrap_or_default();
        let mut sent: Vec<Sse> = Vec::with_capacity(records.len() + 1);
        if std::mem::take(&mut self.is_new) {
            sent.push(Sse::default().retry(RETRY));
        }
        sent.extend(records.iter().filter_map(|record| self.event(record)));
        sent
    }

    /// What comes next; `None` after the end.
    async fn next(&mut self) -> Option<Vec<Sse>> {
        loop {
            if self.is_done {
                return None;
            }
            let heard = match &mut self.heard {
                Some(heard) => heard.next().await,
                None => None,
            };
            if heard.is_none() && self.server.goes_on(self.run) {
                return Some(self.elsewhere().await);
            }
            let sent = match heard {
                Some(Heard::Signal(Signal::Event(record))) => self.event(&record).into_iter().collect(),
                Some(Heard::Signal(Signal::Delta { path, attempt, text })) if self.with_text => {
                    let data = json!({"path": path, "attempt": attempt, "text": &*text});
                    vec![Sse::default().event("delta").data(data.to_string())]
                }
                Some(Heard::Signal(Signal::Delta { .. })) => Vec::new(),
                // Too slow for the live stream: the journal has every event among what was missed.
                Some(Heard::Missed(_)) => self.stored().await,
                None => self.end().await,
            };
            if !sent.is_empty() {
                return Some(sent);
            }
        }
    }

    /// What another process stored meanwhile.
    async fn elsewhere(&mut self) -> Vec<Sse> {
        tokio::time::sleep(LOOK).await;
        // It may be here that it was taken up.
        self.heard = self.server.live.subscribe(self.run);
        self.stored().await
    }

    /// What was stored at the last moment, and that this is all.
    async fn end(&mut self) -> Vec<Sse> {
        self.is_done = true;
        let mut sent = self.stored().await;
        let run = self.server.app.store.run(self.run).ok().flatten();
        let data = json!({"run_id": self.run.to_string(), "status": run.map(|run| run.status).unwrap_or_default()});
        sent.push(Sse::default().event("done").data(data.to_string()));
        sent
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
