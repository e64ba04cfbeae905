//! How AgentFlow writes times, lists and events.

use axum::http::HeaderMap;
use axum::response::sse::Event as Sse;
use flowloom_app::authoring::agentflow_event::AgentFlowEvent;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::caller::Caller;
use crate::problem::ApiResult;

/// Default and maximum number of entries of a list.
const DEFAULT_ENTRIES: u32 = 50;
const MAX_ENTRIES: u32 = 500;

/// Query parameters of lists.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Maximum number of entries (0 to 500; default 50).
    #[serde(default)]
    limit: Option<u32>,
    /// Only what belongs to this user. A key that belongs to a user determines the user itself. If neither is given, what
    /// belongs to all users.
    #[serde(default)]
    user_id: Option<String>,
}

impl ListQuery {
    pub(crate) fn clamp_limit(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_ENTRIES).min(MAX_ENTRIES)
    }

    /// The user whose entries the list contains; `None` for those of all users. Fails if the caller may not act for the
    /// given user.
    pub(crate) fn select_user(self, caller: &Caller) -> ApiResult<Option<String>> {
        caller.select_user(self.user_id)
    }
}

/// Formats a time in AgentFlow's form (RFC 3339).
pub(crate) fn format_time(ms: u64) -> String {
    jiff::Timestamp::from_millisecond(ms as i64).map(|time| time.to_string()).unwrap_or_default()
}

/// The id of an event, from which a stream can be continued. It is sent as `run:seq`.
pub(crate) struct EventId {
    pub(crate) run: RunId,
    /// Sequence number of the event in the journal of the run.
    pub(crate) seq: u64,
}

impl EventId {
    /// The id of the event of a record.
    pub(crate) fn of_record(record: &Record) -> EventId {
        EventId { run: record.run, seq: record.seq }
    }
}

/// Encodes an event with its id.
pub(crate) fn encode_event(happened: &AgentFlowEvent, id: EventId) -> Sse {
    with_event(Sse::default().id(format!("{}:{}", id.run, id.seq)), happened)
}

/// Adds an event's name and data to an SSE event.
pub(crate) fn with_event(sse: Sse, happened: &AgentFlowEvent) -> Sse {
    sse.event(&happened.name).data(flowloom_core::json::write_json(&happened.data))
}

/// Parses `Last-Event-ID`: the id of the last event that the client has.
pub(crate) fn parse_last_event_id(headers: &HeaderMap) -> Option<EventId> {
    let (run, seq) = headers.get("last-event-id")?.to_str().ok()?.split_once(':')?;
    Some(EventId { run: RunId::parse(run)?, seq: seq.parse().ok()? })
}
