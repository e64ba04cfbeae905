//! How AgentFlow writes times, lists and events.

use axum::http::HeaderMap;
use axum::response::sse::Event as Sse;
use flowloom_app::authoring::happened::Happened;
use flowloom_core::id::RunId;
use serde::Deserialize;
use utoipa::IntoParams;

/// Entries of a list that does not say how many, and at most.
const USUAL: u32 = 50;
const MOST: u32 = 500;

/// How many entries a list has.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Limit {
    /// Entries at most: 1 to 500, 50 if it is not said.
    #[serde(default)]
    limit: Option<u32>,
}

impl Limit {
    pub(crate) fn count(&self) -> u32 {
        self.limit.unwrap_or(USUAL).clamp(1, MOST)
    }
}

/// A time as AgentFlow writes it.
pub(crate) fn time(ms: u64) -> String {
    jiff::Timestamp::from_millisecond(ms as i64).map(|time| time.to_string()).unwrap_or_default()
}

/// An event as a stream has it, with the id from which the stream can be gone on with: the run and the place in its record.
pub(crate) fn sse(happened: &Happened, (run, seq): (RunId, u64)) -> Sse {
    said(Sse::default().id(format!("{run}:{seq}")), happened)
}

/// An event that adds its name and data to what is there.
pub(crate) fn said(sse: Sse, happened: &Happened) -> Sse {
    sse.event(&happened.name).data(flowloom_core::json::write(&happened.data))
}

/// The run and event that a client has last.
pub(crate) fn last_of(headers: &HeaderMap) -> Option<(RunId, u64)> {
    let (run, seq) = headers.get("last-event-id")?.to_str().ok()?.split_once(':')?;
    Some((RunId::parse(run)?, seq.parse().ok()?))
}
