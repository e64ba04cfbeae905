//! Streams runs of pipelines: an event per change of a node, and at the end the response of the route without a stream.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event as Sse;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::authoring::agentflow_event::{AgentFlowEvent, build_fields};
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::DefinitionKind;
use futures_util::stream::{self, Stream, StreamExt as _};

use super::owner::{UserQuery, find_owner};
use super::pipelines::{RunPipelineRequest, RunStoredRequest, compile_unstored, stored_response, unstored_response};
use super::wire::{EventId, encode_event, parse_last_event_id, with_event};
use crate::body::{JsonObject, OptionalJsonObject};
use crate::caller::Caller;
use crate::compat::agentflow::node_events::NodeEvents;
use crate::compat::runs::{CompatRun, describe_start, find_definition, read_snapshot};
use crate::guard;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::answer::{find_own_run, open_run};
use crate::runs::events::{self, EventEncoder};
use crate::runs::start::StartContext;
use crate::state::RunHost;

/// Builds the response of the route without a stream.
pub(crate) type BuildResponse = Arc<dyn Fn(&CompatRun) -> Map + Send + Sync>;

/// Runs a pipeline and streams the events of its nodes. After a lost connection, `Last-Event-ID` continues the stream;
/// if no events are left, the response is 204.
#[utoipa::path(post, path = "/api/pipeline/run/stream", operation_id = "agentflow_run_stream", tag = "AgentFlow", security(("key" = ["run", "write"])), request_body = RunPipelineRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument), (status = 422, description = "The pipeline has errors", body = ProblemDocument)))]
pub(crate) async fn stream_unstored(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(wanted, text): JsonObject<RunPipelineRequest>,
) -> ApiResult<Response> {
    if let Some(last) = parse_last_event_id(&headers) {
        return resume_stream(&host, &caller, last, Arc::new(unstored_response)).await;
    }
    let call = StartContext::admit_caller(&host, &caller, wanted.user_id.clone(), &headers)?
        .with_interface(TriggerKind::AgentFlow);
    let definition = compile_unstored(&call, &caller, wanted).await?;
    start_stream(&call, &definition, &text, Arc::new(unstored_response)).await
}

/// Runs a stored pipeline and streams the events of its nodes.
#[utoipa::path(post, path = "/api/pipelines/{id}/run/stream", operation_id = "agentflow_run_kept_stream", tag = "AgentFlow", security(("key" = ["run"])), request_body = Option<RunStoredRequest>,
    params(("id" = String, Path), UserQuery, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument), (status = 422, body = ProblemDocument)))]
pub(crate) async fn stream_stored(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<UserQuery>,
    headers: HeaderMap,
    OptionalJsonObject(request, text): OptionalJsonObject<RunStoredRequest>,
) -> ApiResult<Response> {
    stream_stored_run(&host, &caller, &headers, StoredRunQuery { id, user: whose.user_id.or(request.user_id), text })
        .await
}

/// Like the POST route, for a browser's `EventSource`, which can only send GET. Rejects pages of other sites.
#[utoipa::path(get, path = "/api/pipelines/{id}/run/stream", operation_id = "agentflow_follow_kept", tag = "AgentFlow", security(("key" = ["run"])),
    params(("id" = String, Path), UserQuery, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument), (status = 422, body = ProblemDocument)))]
pub(crate) async fn follow_stored(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    PathParam(id): PathParam<String>,
    QueryParams(whose): QueryParams<UserQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    guard::reject_cross_site(&headers)?;
    let wanted = StoredRunQuery { id, user: whose.user_id, text: String::new() };
    stream_stored_run(&host, &caller, &headers, wanted).await
}

/// A request to run a stored pipeline.
struct StoredRunQuery {
    id: String,
    /// The user whose pipeline is meant, if the request names one.
    user: Option<String>,
    /// The body.
    text: String,
}

async fn stream_stored_run(
    host: &Arc<RunHost>,
    caller: &Caller,
    headers: &HeaderMap,
    StoredRunQuery { id, user, text }: StoredRunQuery,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Run)?;
    if let Some(last) = parse_last_event_id(headers) {
        return resume_stream(host, caller, last, Arc::new(stored_response)).await;
    }
    let user = find_owner(&host.app.store, caller, user, DefinitionKind::Workflow, &id).await?;
    let call = StartContext::admit_caller(host, caller, Some(user), headers)?.with_interface(TriggerKind::AgentFlow);
    let (definition, _) =
        find_definition(&host.catalog, call.user().to_owned(), flowloom_formats::pipeline::FORMAT, &id).await?;
    start_stream(&call, &definition, &text, Arc::new(stored_response)).await
}

/// Starts a run and streams its events from the beginning.
async fn start_stream(
    call: &StartContext<'_>,
    definition: &CatalogEntry,
    request: &str,
    whole: BuildResponse,
) -> ApiResult<Response> {
    let (active, plan) = start_run(call, definition, request).await?;
    Ok(events::stream_response(true, stream_nodes(call.host, active, &plan, 0, whole)))
}

/// Starts a run, or finds the run that the same request has started.
async fn start_run(
    call: &StartContext<'_>,
    definition: &CatalogEntry,
    request: &str,
) -> ApiResult<(ActiveRun, Arc<Plan>)> {
    let starting = StartRunRequest { needs_events: true, ..StartRunRequest::with_inputs(Map::new().into()) };
    let request = describe_start(&definition.id, request);
    let active = call
        .start_once(&request, async |id| call.start_run(definition, StartRunRequest { id, ..starting }).await)
        .await?;
    let plan = match (&active.subscription, &definition.prepared) {
        (Some(_), Some(prepared)) => prepared.plan.clone(),
        // The definition under this id may have changed since.
        _ => open_run(&call.host.app.runs, active.id).await?.plan,
    };
    Ok((active, plan))
}

/// Streams the events of a run after the last one that the client has.
pub(crate) async fn resume_stream(
    host: &Arc<RunHost>,
    caller: &Caller,
    last: EventId,
    whole: BuildResponse,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Run)?;
    let run = find_own_run(&host.app.store, caller, &last.run.to_string()).await?;
    let opened = open_run(&host.app.runs, run).await?;
    let state = opened.state();
    if state.status.is_final() && last.seq >= state.seq {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let active = host.supervisor.find_started(run);
    Ok(events::stream_response(last.seq == 0, stream_nodes(host, active, &opened.plan, last.seq, whole)))
}

/// The events of a run's nodes after a given event, followed by its response.
pub(crate) fn stream_nodes(
    host: &Arc<RunHost>,
    active: ActiveRun,
    plan: &Plan,
    after: u64,
    whole: BuildResponse,
) -> impl Stream<Item = Sse> + Send + use<> {
    let ActiveRun { id, subscription, .. } = active;
    let subscription = subscription.or_else(|| host.supervisor.subscribe(id));
    let encoder = Box::new(NodeEncoder { events: NodeEvents::from_plan(plan), after });
    let nodes = events::encode_stream(host.clone(), id, 0, encoder, subscription);
    let host = host.clone();
    nodes.chain(stream::once(async move { final_event(&host, id, whole).await }))
}

/// The final event: the response of the route without a stream, or an error.
async fn final_event(host: &Arc<RunHost>, run: RunId, whole: BuildResponse) -> Sse {
    match read_snapshot(&host.app.runs, run).await {
        Ok(ended) => {
            let at = ended.state.finished_at.unwrap_or_else(|| SystemClock.now_ms());
            encode_event(&AgentFlowEvent::new("complete", at, whole(&ended)), EventId { run, seq: ended.state.seq })
        }
        Err(problem) => error_event(&problem),
    }
}

/// An error event.
pub(crate) fn error_event(problem: &Problem) -> Sse {
    let why = [("code", problem.code().to_string().into()), ("error", Value::from(problem.detail()))];
    with_event(Sse::default(), &AgentFlowEvent::new("error", SystemClock.now_ms(), build_fields(why)))
}

/// Encodes the events of a run's nodes.
struct NodeEncoder {
    events: NodeEvents,
    /// Sequence number of the last event that the client has.
    after: u64,
}

impl EventEncoder for NodeEncoder {
    fn encode_event(&mut self, record: &Record) -> Vec<Sse> {
        // Earlier events are read, too, because later ones depend on them.
        let event = self.events.convert(record).filter(|_| record.seq > self.after);
        event.map(|event| encode_event(&event, EventId::of_record(record))).into_iter().collect()
    }
}
