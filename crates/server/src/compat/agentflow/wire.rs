//! How AgentFlow writes times, lists and events.

use axum::http::HeaderMap;
use axum::response::sse::Event as Sse;
use flowloom_app::authoring::happened::Happened;
use flowloom_core::id::RunId;
use serde::Deserialize;
use utoipa::IntoParams;

/// Default and maximum number of entries of a list.
const USUAL: u32 = 50;
const MOST: u32 = 500;

/// Query parameter of lists.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Limit {
    /// Maximum number of entries (1 to 500; default 50).
    #[serde(default)]
    limit: Option<u32>,
}

impl Limit {
    pub(crate) fn count(&self) -> u32 {
        self.limit.unwrap_or(USUAL).clamp(1, MOST)
    }
}

/// Formats a time in AgentFlow's form (RFC 3339).
pub(crate) fn time(ms: u64) -> String {
    jiff::Timestamp::from_millisecond(ms as i64).map(|time| time.to_string()).unwrap_or_default()
}

/// Encodes an event with an id from which the stream can be continued: the run and the sequence number.
pub(crate) fn sse(happened: &Happened, (run, seq): (RunId, u64)) -> Sse {
    said(Sse::default().id(format!("{run}:{seq}")), happened)
}

/// Adds an event's name and data to an SSE event.
pub(crate) fn said(sse: Sse, happened: &Happened) -> Sse {
    sse.event(&happened.name).data(flowloom_core::json::write(&happened.data))
}

/// Parses `Last-Event-ID`: the run and the sequence number of the last event that the client has.
pub(crate) fn last_of(headers: &HeaderMap) -> Option<(RunId, u64)> {
    let (run, seq) = headers.get("last-event-id")?.to_str().ok()?.split_once(':')?;
    Some((RunId::parse(run)?, seq.parse().ok()?))
}
