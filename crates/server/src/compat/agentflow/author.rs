//! Creates pipelines from plain language: `/api/clarify`, `/api/create-agent` and its stream (docs/author.md).

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::Event as Sse;
use axum::response::{IntoResponse as _, Response};
use flowloom_app::authoring::agentflow_event::AgentFlowEvent;
use flowloom_app::authoring::{AuthoringEvents, AuthoringJob, AuthoringOptions, BuiltInWorkflow, to_value};
use flowloom_app::definitions::catalog::CatalogEntry;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_author::clarify::ConversationMessage;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::wire::{EventId, encode_event, parse_last_event_id};
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::compat::runs::{CompatRun, run_and_wait};
use crate::compat::schemas::{ClarificationSchema, CreatedAgentSchema};
use crate::guard;
use crate::params::QueryParams;
use crate::problem::{ApiResult, Problem, ProblemDocument};
use crate::runs::answer::{find_own_run, open_run};
use crate::runs::events::{self, EventEncoder};
use crate::runs::start::StartContext;
use crate::state::RunHost;

/// Maximum size of a goal, in bytes: each stage sends it to a model.
const MAX_GOAL_BYTES: usize = 1 << 20;

/// A message of the clarification.
#[derive(Deserialize, Serialize, ToSchema)]
pub(crate) struct ClarifyMessage {
    /// The user's text.
    message: String,
    /// Earlier messages of `user` and `assistant`.
    #[serde(default)]
    #[schema(value_type = Vec<Object>)]
    history: Vec<ConversationMessage>,
    /// User who owns the run; a key that belongs to a user determines it.
    #[serde(default, skip_serializing)]
    user_id: Option<String>,
}

/// Asks a question if a goal is unclear; after three answers the goal is accepted as it is.
#[utoipa::path(post, path = "/api/clarify", operation_id = "agentflow_clarify", tag = "AgentFlow", security(("key" = ["run"])), request_body = ClarifyMessage,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "`{ready, refined_intent, question}`", body = ClarificationSchema), (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument),
        (status = 409, body = ProblemDocument), (status = 422, description = "The model returned no usable answer", body = ProblemDocument), (status = 502, description = "The provider of the model failed", body = ProblemDocument)))]
pub(crate) async fn clarify_goal(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(request, text): JsonObject<ClarifyMessage>,
) -> ApiResult<Response> {
    check_goal("message", &request.message)?;
    let call = StartContext::admit_caller(&host, &caller, request.user_id.clone(), &headers)?
        .with_interface(TriggerKind::AgentFlow);
    let definition = compile_built_in(&call, BuiltInWorkflow::Clarifier).await?;
    let mut inputs = to_value(&request)?.as_map().cloned().unwrap_or_default();
    inputs.insert("how".into(), to_value(&AuthoringOptions::from_config(&host.app.config))?);
    let ended = run_and_wait(&call, &definition, start_options(&host, inputs.into()), &text).await?;
    match (&ended.state.error, ended.state.status) {
        (None, Status::Succeeded) => Ok(Json(ended.presented.output).into_response()),
        (Some(error), _) => Err(clarify_problem(error.clone())),
        (None, _) => Ok(ended.to_response(Map::new())),
    }
}

/// The problem of a failed clarification. If the provider of the model failed, the status shows it.
fn clarify_problem(error: StepFailure) -> Problem {
    let is_provider = error.code == Code::ModelFailed;
    let problem = Problem::from(error);
    if is_provider { problem.with_status(StatusCode::BAD_GATEWAY) } else { problem }
}

/// A goal in plain language.
#[derive(Clone, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CreateAgentRequest {
    /// The goal, complete without the earlier conversation.
    pub(crate) intent: String,
    /// User who owns the pipeline; a key that belongs to a user determines it.
    #[serde(default)]
    pub(crate) user_id: Option<String>,
}

impl CreateAgentRequest {
    pub(crate) fn validate(&self) -> ApiResult<()> {
        check_goal("intent", &self.intent)
    }
}

/// Fails with `RequestInvalid` if a goal is empty, or longer than what the stages can ask a model about.
fn check_goal(field: &str, goal: &str) -> ApiResult<()> {
    if goal.trim().is_empty() {
        return Err(Problem::new(Code::RequestInvalid, format!("the {field} is empty")));
    }
    if goal.len() > MAX_GOAL_BYTES {
        let message = format!("the {field} has {} bytes; at most {MAX_GOAL_BYTES} are possible", goal.len());
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    Ok(())
}

/// Creates a pipeline for a goal, tests it and stores it.
#[utoipa::path(post, path = "/api/create-agent", operation_id = "agentflow_create_agent", tag = "AgentFlow", security(("key" = ["write"])), request_body = CreateAgentRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    responses((status = 200, description = "`{pipeline_json, status, log, missing_blocks, usage, run_id}`", body = CreatedAgentSchema), (status = 202, description = "The run takes longer than a request may wait", body = CreatedAgentSchema),
        (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn create_agent(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(request, text): JsonObject<CreateAgentRequest>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Write)?;
    request.validate()?;
    let call = StartContext::admit_caller(&host, &caller, request.user_id.clone(), &headers)?
        .with_interface(TriggerKind::AgentFlow);
    let ended = run_authoring(&call, &caller, &request, &text).await?;
    Ok(ended.to_response(authoring_response(&ended)))
}

/// Like `/api/create-agent`, with an event per stage. After a lost connection, `Last-Event-ID` continues the stream; if
/// no events are left, the response is 204, so that a browser's `EventSource` does not start another run.
#[utoipa::path(post, path = "/api/create-agent/stream", operation_id = "agentflow_create_agent_stream", tag = "AgentFlow", security(("key" = ["write"])), request_body = CreateAgentRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn create_agent_stream(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(request, text): JsonObject<CreateAgentRequest>,
) -> ApiResult<Response> {
    stream_authoring(&host, &caller, &headers, request, &text).await
}

/// Like the POST route, for a browser's `EventSource`, which can only send GET. Rejects pages of other sites.
#[utoipa::path(get, path = "/api/create-agent/stream", operation_id = "agentflow_follow_create_agent", tag = "AgentFlow", security(("key" = ["write"])),
    params(CreateAgentRequest, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and goal start a single run"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn follow_create_agent(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    QueryParams(request): QueryParams<CreateAgentRequest>,
) -> ApiResult<Response> {
    guard::reject_cross_site(&headers)?;
    let text = request.intent.clone();
    stream_authoring(&host, &caller, &headers, request, &text).await
}

async fn stream_authoring(
    host: &Arc<RunHost>,
    caller: &Caller,
    headers: &HeaderMap,
    request: CreateAgentRequest,
    text: &str,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Write)?;
    request.validate()?;
    if let Some(last) = parse_last_event_id(headers) {
        let run = find_own_run(&host.app.store, caller, &last.run.to_string()).await?;
        return resume_stream(host, run, last.seq).await;
    }
    let call = StartContext::admit_caller(host, caller, request.user_id.clone(), headers)?
        .with_interface(TriggerKind::AgentFlow);
    let ActiveRun { id, subscription, .. } = start_authoring(&call, caller, &request, text).await?;
    let subscription = subscription.or_else(|| host.supervisor.subscribe(id));
    Ok(events::stream_encoded(host.clone(), id, 0, Box::new(StageEncoder::starting_after(0)), subscription))
}

/// Starts an authoring run, or finds the run that the same request has started.
pub(crate) async fn start_authoring(
    call: &StartContext<'_>,
    caller: &Caller,
    request: &CreateAgentRequest,
    body: &str,
) -> ApiResult<ActiveRun> {
    let definition = compile_built_in(call, BuiltInWorkflow::Planner).await?;
    let starting =
        StartRunRequest { needs_events: true, ..start_options(call.host, build_job(call, caller, request).await?) };
    call.start_once(body, async |id| call.start_run(&definition, StartRunRequest { id, ..starting }).await).await
}

/// Streams the events of an authoring run after the last one that the client has.
async fn resume_stream(host: &Arc<RunHost>, run: RunId, after: u64) -> ApiResult<Response> {
    let opened = open_run(&host.app.runs, run).await?;
    if opened.state().status.is_final() {
        let mut events = AuthoringEvents::default();
        let has_more = opened.records.iter().any(|record| events.convert(record).is_some() && record.seq > after);
        if !has_more {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
    }
    let subscription = host.supervisor.subscribe(run);
    Ok(events::stream_encoded(host.clone(), run, 0, Box::new(StageEncoder::starting_after(after)), subscription))
}

/// Encodes the stages of an authoring run in AgentFlow's form.
pub(crate) struct StageEncoder {
    events: AuthoringEvents,
    /// Sequence number of the last event that the client has.
    after: u64,
}

impl StageEncoder {
    pub(crate) fn starting_after(after: u64) -> StageEncoder {
        StageEncoder { events: AuthoringEvents::default(), after }
    }

    /// Converts an event that the client does not have yet.
    pub(crate) fn convert(&mut self, record: &Record) -> Option<AgentFlowEvent> {
        // Earlier events are read, too, because later ones depend on them.
        self.events.convert(record).filter(|_| record.seq > self.after)
    }
}

impl EventEncoder for StageEncoder {
    fn encode_event(&mut self, record: &Record) -> Vec<Sse> {
        let event = self.convert(record);
        event.map(|event| encode_event(&event, EventId::of_record(record))).into_iter().collect()
    }
}

/// Runs the authoring pipeline to its end.
pub(crate) async fn run_authoring(
    call: &StartContext<'_>,
    caller: &Caller,
    request: &CreateAgentRequest,
    body: &str,
) -> ApiResult<CompatRun> {
    let definition = compile_built_in(call, BuiltInWorkflow::Planner).await?;
    let inputs = build_job(call, caller, request).await?;
    run_and_wait(call, &definition, start_options(call.host, inputs), body).await
}

/// AgentFlow's response to a finished authoring run, successful or not.
pub(crate) fn authoring_response(ended: &CompatRun) -> Map {
    let mut events = AuthoringEvents::default();
    let progress: Vec<_> = ended.records.iter().filter_map(|record| events.convert(record)).collect();
    let mut answer = ended.presented.output.as_map().cloned().unwrap_or_default();
    if ended.state.status != Status::Succeeded {
        let last = progress.iter().rev().find(|event| event.name == "error");
        let field = |key: &str| last.and_then(|event| event.data.get(key)).cloned();
        answer = Map::from_iter([
            ("pipeline_json".into(), Value::Null),
            ("status".into(), flowloom_formats::steps::status_word(ended.state.status).into()),
            ("log".into(), Value::list(progress.iter().filter_map(log_entry).collect())),
            ("missing_blocks".into(), field("missing_blocks").unwrap_or_else(|| Value::list(Vec::new()))),
            ("reason".into(), field("error").unwrap_or_default()),
            ("code".into(), field("code").unwrap_or_default()),
        ]);
    }
    answer.insert("usage".into(), events.usage());
    answer.insert("run_id".into(), ended.id.to_string().into());
    answer
}

/// The entry of the log for an event: one for each stage that has ended. The prompts are in the run's events.
fn log_entry(event: &AgentFlowEvent) -> Option<Value> {
    let fields: &[&str] = match &*event.name {
        "stage_result" => &["status", "matched", "missing", "created", "failed"],
        "error" => &["code", "error"],
        _ => return None,
    };
    let step = ("step", event.data.get("stage").cloned().unwrap_or_default());
    let others = fields.iter().filter_map(|field| Some((*field, event.data.get(field)?.clone())));
    Some(Value::map(std::iter::once(step).chain(others)))
}

/// Compiles a built-in workflow for the caller.
async fn compile_built_in(call: &StartContext<'_>, which: BuiltInWorkflow) -> ApiResult<CatalogEntry> {
    let (host, user) = (call.host.clone(), call.user().to_owned());
    let found = crate::blocking::compile_blocking(move |stop| {
        host.catalog.compile_unstored(&user, which.id(), which.load_content(), stop)
    });
    Ok(found.await??)
}

async fn build_job(call: &StartContext<'_>, caller: &Caller, request: &CreateAgentRequest) -> ApiResult<Value> {
    let shared = call.host.clone();
    // Files of the folder take precedence over stored definitions, so a pipeline stored under the id of a file could
    // not be run.
    let taken = crate::blocking::run_blocking(move || shared.catalog.folder_ids()).await?;
    // A caller who acts for all users opens pipelines without naming their user.
    let has_global_id = caller.user.is_none();
    let how =
        AuthoringOptions { keep: true, taken, has_global_id, ..AuthoringOptions::from_config(&call.host.app.config) };
    Ok(to_value(&AuthoringJob::new(&request.intent, call.user(), how))?)
}

fn start_options(host: &Arc<RunHost>, inputs: Value) -> StartRunRequest {
    StartRunRequest { budget: host.app.config.author.budget.clone(), ..StartRunRequest::with_inputs(inputs) }
}
