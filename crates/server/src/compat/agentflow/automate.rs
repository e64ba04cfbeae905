//! `/api/automate` and its stream: creates a pipeline and runs it immediately.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event as Sse;
use flowloom_app::authoring::agentflow_event::AgentFlowEvent;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::StartRunRequest;
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_core::event::Record;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::value::{Map, Value};
use flowloom_store::StoreError;
use futures_util::stream::{self, BoxStream, StreamExt as _};

use super::author::{self, CreateAgentRequest, StageEncoder, authoring_response, run_authoring};
use super::run_stream::{self, BuildResponse};
use super::wire::{EventId, encode_event, parse_last_event_id};
use crate::body::JsonObject;
use crate::caller::Caller;
use crate::compat::runs::{CompatRun, describe_start, find_definition, read_snapshot, wait_for_end};
use crate::compat::schemas::AutomationSchema;
use crate::guard;
use crate::params::QueryParams;
use crate::problem::{ApiResult, ProblemDocument};
use crate::runs::answer::{find_own_run, open_run};
use crate::runs::events::{self, EventEncoder};
use crate::runs::start::StartContext;
use crate::state::RunHost;

/// Creates a pipeline for a goal, tests it, stores it and runs it: two runs, one after the other.
#[utoipa::path(post, path = "/api/automate", operation_id = "agentflow_automate", tag = "AgentFlow", security(("key" = ["write", "run"])), request_body = CreateAgentRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start both runs only once")),
    responses((status = 200, description = "`{status, pipeline, results, log, run_id, thinker_run_id, usage}`, or why there is no pipeline: `{status, reason, missing_blocks, log}`", body = AutomationSchema),
        (status = 202, description = "The run takes longer than a request may wait", body = AutomationSchema), (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument),
        (status = 409, body = ProblemDocument), (status = 422, body = ProblemDocument)))]
pub(crate) async fn automate_goal(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(request, text): JsonObject<CreateAgentRequest>,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Write)?;
    request.validate()?;
    let call = StartContext::admit_caller(&host, &caller, request.user_id.clone(), &headers)?
        .with_interface(TriggerKind::AgentFlow);
    let planner_run = run_authoring(&call, &caller, &request, &text).await?;
    let authored = authoring_response(&planner_run);
    let Some(id) = created_pipeline_id(&authored) else {
        let fields = authored.into_iter().filter(|(key, _)| &**key != "pipeline_json");
        return Ok(planner_run.to_response(fields.collect()));
    };
    let call = call.with_key(Some(thread_key(planner_run.id)));
    let NewPipelineRun { active, .. } =
        start_new_pipeline(&call, &id, StartRunRequest::with_inputs(Map::new().into())).await?;
    let ended = wait_for_end(&call, active).await?;
    Ok(ended.to_response(automation_response(&authored, &ended)))
}

/// Like `/api/automate`, with an event per stage and node. After a lost connection, `Last-Event-ID` continues the
/// stream; if no events are left, the response is 204.
#[utoipa::path(post, path = "/api/automate/stream", operation_id = "agentflow_automate_stream", tag = "AgentFlow", security(("key" = ["write", "run"])), request_body = CreateAgentRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start both runs only once"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn automate_stream(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    JsonObject(request, text): JsonObject<CreateAgentRequest>,
) -> ApiResult<Response> {
    stream_automation(&host, &caller, &headers, request, &text).await
}

/// Like the POST route, for a browser's `EventSource`, which can only send GET. Rejects pages of other sites.
#[utoipa::path(get, path = "/api/automate/stream", operation_id = "agentflow_follow_automate", tag = "AgentFlow", security(("key" = ["write", "run"])),
    params(CreateAgentRequest, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and goal start both runs only once"), ("Last-Event-ID" = Option<String>, Header, description = "Id of the last event that the client has")),
    responses((status = 200, description = "Stream of events", body = String, content_type = "text/event-stream"), (status = 204, description = "No further events"),
        (status = 400, body = ProblemDocument), (status = 404, body = ProblemDocument), (status = 409, body = ProblemDocument)))]
pub(crate) async fn follow_automate(
    State(host): State<Arc<RunHost>>,
    caller: Caller,
    headers: HeaderMap,
    QueryParams(request): QueryParams<CreateAgentRequest>,
) -> ApiResult<Response> {
    guard::reject_cross_site(&headers)?;
    let text = request.intent.clone();
    stream_automation(&host, &caller, &headers, request, &text).await
}

async fn stream_automation(
    host: &Arc<RunHost>,
    caller: &Caller,
    headers: &HeaderMap,
    request: CreateAgentRequest,
    text: &str,
) -> ApiResult<Response> {
    caller.require_scope(Scope::Write)?;
    request.validate()?;
    let (active, after) = match parse_last_event_id(headers) {
        Some(last) => {
            let run = find_own_run(&host.app.store, caller, &last.run.to_string()).await?;
            if open_run(&host.app.runs, run).await?.plan.format == flowloom_formats::pipeline::FORMAT {
                let authored = find_authored(host, run).await?;
                return run_stream::resume_stream(host, caller, last, response_with(authored)).await;
            }
            (host.supervisor.find_started(run), last.seq)
        }
        None => {
            let call = StartContext::admit_caller(host, caller, request.user_id.clone(), headers)?
                .with_interface(TriggerKind::AgentFlow);
            (author::start_authoring(&call, caller, &request, text).await?, 0)
        }
    };
    let ActiveRun { id, subscription, .. } = active;
    let subscription = subscription.or_else(|| host.supervisor.subscribe(id));
    let stages = events::encode_stream(
        host.clone(),
        id,
        0,
        Box::new(AutomationEncoder(StageEncoder::starting_after(after))),
        subscription,
    );
    let shared = host.clone();
    let nodes = stream::once(async move { stream_pipeline_run(&shared, id).await }).flatten();
    Ok(events::stream_response(after == 0, stages.chain(nodes)))
}

/// Streams the run of the new pipeline, if there is one.
async fn stream_pipeline_run(host: &Arc<RunHost>, planner_run: RunId) -> BoxStream<'static, Sse> {
    match start_pipeline_run(host, planner_run).await {
        Ok(Some(PipelineRun { active, plan, authored })) => {
            run_stream::stream_nodes(host, active, &plan, 0, response_with(authored)).boxed()
        }
        // The stages have reported the reason.
        Ok(None) => stream::empty().boxed(),
        Err(problem) => stream::once(async move { run_stream::error_event(&problem) }).boxed(),
    }
}

/// Starts the run of the pipeline that an authoring run created, for the same user. Repeated calls return the same run.
async fn start_pipeline_run(host: &Arc<RunHost>, planner_run: RunId) -> ApiResult<Option<PipelineRun>> {
    let ended = read_snapshot(&host.app.runs, planner_run).await?;
    let authored = authoring_response(&ended);
    let Some(id) = created_pipeline_id(&authored) else { return Ok(None) };
    let user = ended.state.created.as_deref().map(|created| created.user.clone()).unwrap_or_default();
    let call = StartContext::for_user(host, &user, TriggerKind::AgentFlow.to_trigger())
        .with_key(Some(thread_key(planner_run)));
    let starting = StartRunRequest { needs_events: true, ..StartRunRequest::with_inputs(Map::new().into()) };
    let NewPipelineRun { active, plan } = start_new_pipeline(&call, &id, starting).await?;
    let plan = match (&active.subscription, plan) {
        // It may not be stored yet.
        (Some(_), Some(plan)) => plan,
        _ => open_run(&host.app.runs, active.id).await?.plan,
    };
    Ok(Some(PipelineRun { active, plan, authored }))
}

/// Starts the run of a new pipeline, or finds the one that was started, although the pipeline may be deleted by now.
async fn start_new_pipeline(call: &StartContext<'_>, id: &str, starting: StartRunRequest) -> ApiResult<NewPipelineRun> {
    let mut plan = None;
    let begin = async |run| {
        let (catalog, user) = (&call.host.catalog, call.user().to_owned());
        let (definition, _) = find_definition(catalog, user, flowloom_formats::pipeline::FORMAT, id).await?;
        plan = definition.prepared.as_ref().map(|prepared| prepared.plan.clone());
        call.start_run(&definition, StartRunRequest { id: run, ..starting }).await
    };
    let active = call.start_once(&describe_start(id, ""), begin).await?;
    Ok(NewPipelineRun { active, plan })
}

/// The run of a new pipeline, and its plan if this request has started it.
struct NewPipelineRun {
    active: ActiveRun,
    plan: Option<Arc<Plan>>,
}

/// The run of a new pipeline, and the response of the authoring run that created it.
struct PipelineRun {
    active: ActiveRun,
    plan: Arc<Plan>,
    authored: Map,
}

/// The response of the authoring run whose pipeline a run runs; empty if there is none.
async fn find_authored(host: &Arc<RunHost>, pipeline_run: RunId) -> ApiResult<Map> {
    let shared = host.clone();
    let planner_run = crate::blocking::run_blocking(move || {
        let store = &shared.app.store;
        let Some(row) = store.get_run(pipeline_run)? else { return Ok(None) };
        let keys = store.list_start_keys(&row.user, KEY_PREFIX, pipeline_run)?;
        Ok::<_, StoreError>(keys.iter().find_map(|key| RunId::parse(key.strip_prefix(KEY_PREFIX)?)))
    });
    match planner_run.await?? {
        Some(planner_run) => Ok(authoring_response(&read_snapshot(&host.app.runs, planner_run).await?)),
        None => Ok(Map::new()),
    }
}

/// Builds the final event from the response of the authoring run and the run of the pipeline.
fn response_with(authored: Map) -> BuildResponse {
    Arc::new(move |ended| automation_response(&authored, ended))
}

/// The id of the created pipeline, if there is one.
fn created_pipeline_id(authored: &Map) -> Option<String> {
    authored.get("pipeline_json")?.get("id")?.as_str().map(str::to_owned)
}

/// Start of the idempotency keys of pipelines' runs; the id of the authoring run follows.
const KEY_PREFIX: &str = "automate/";

/// Derives the idempotency key of the pipeline's run from the authoring run, so that every follower gets the same run.
fn thread_key(planner_run: RunId) -> String {
    format!("{KEY_PREFIX}{planner_run}")
}

/// The response of the pipeline's run, with the log of the authoring run.
fn automation_response(authored: &Map, ended: &CompatRun) -> Map {
    let mut fields = pipeline_response(ended);
    let log = |map: &Map| map.get("log").and_then(Value::as_list).unwrap_or_default().to_vec();
    let both = [log(authored), log(&fields)].concat();
    let field = |name: &str| authored.get(name).cloned().unwrap_or_default();
    let entries = [
        ("pipeline", field("pipeline_json")),
        ("log", Value::list(both)),
        ("thinker_run_id", field("run_id")),
        ("usage", field("usage")),
    ];
    fields.extend(entries.into_iter().map(|(key, value)| (key.into(), value)));
    fields
}

/// The response of the pipeline's run alone.
fn pipeline_response(ended: &CompatRun) -> Map {
    let mut fields = ended.to_result();
    fields.insert("status".into(), flowloom_formats::steps::status_word(ended.state.status).into());
    fields.insert("run_id".into(), ended.id.to_string().into());
    fields
}

/// Encodes stages; the event `complete` of the authoring run becomes `pipeline`, since the stream continues.
struct AutomationEncoder(StageEncoder);

impl EventEncoder for AutomationEncoder {
    fn encode_event(&mut self, record: &Record) -> Vec<Sse> {
        let hear = |happened: AgentFlowEvent| match &*happened.name {
            "complete" => happened.with_name("pipeline"),
            _ => happened,
        };
        let fields = self.0.convert(record).map(hear);
        fields.map(|fields| encode_event(&fields, EventId::of_record(record))).into_iter().collect()
    }
}
