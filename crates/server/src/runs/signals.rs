//! Signals to runs: `cancel`, `resume`, `answer` and `resolve`.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use flowloom_app::engines::LoadedRun;
use flowloom_app::keys::Scope;
use flowloom_app::runs::supervisor::ActiveRun;
use flowloom_core::code::Code;
use flowloom_core::event::Resolution;
use flowloom_core::path::Path as StepPath;
use flowloom_core::state::{Phase, RunState};
use flowloom_core::value::Value;
use flowloom_runtime::journal::Signal;
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{WaitQuery, open_own_run, respond_with_run};
use super::run_schema::RunSchema;
use crate::body::JsonBody;
use crate::caller::Caller;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem};
use crate::state::Server;

/// A request that signals a run. Query parameters are separate arguments, because the OpenAPI document is derived from
/// the handlers.
pub(crate) struct SignalRequest {
    server: Server,
    caller: Caller,
    /// Id of the run, from the path.
    id: String,
    headers: HeaderMap,
}

impl FromRequestParts<Server> for SignalRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> ApiResult<SignalRequest> {
        let caller = Caller::from_request_parts(parts, server).await?;
        let PathParam(id) = PathParam::from_request_parts(parts, server).await?;
        Ok(SignalRequest { server: server.clone(), caller, id, headers: parts.headers.clone() })
    }
}

impl SignalRequest {
    /// The name of the caller in the journal.
    fn caller_name(&self) -> String {
        self.caller.user_id().to_owned()
    }

    /// Opens the run if the caller may signal it.
    async fn open_run(&self) -> ApiResult<LoadedRun> {
        self.caller.require_scope(Scope::Run)?;
        open_own_run(&self.server.app, &self.caller, &self.id).await
    }

    /// Responds with the state of the run after waiting.
    async fn respond(self, active: ActiveRun, waiting: WaitQuery) -> ApiResult<Response> {
        respond_with_run(&self.server, active, waiting, &self.headers).await
    }
}

/// Cancels a run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("id" = String, Path), WaitQuery), security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = RunSchema),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has already ended, or its outcome is uncertain")))]
pub(crate) async fn cancel_run(
    call: SignalRequest,
    QueryParams(waiting): QueryParams<WaitQuery>,
) -> ApiResult<Response> {
    let by = call.caller_name();
    handle_signal(call, waiting, |_| Ok(Signal::Cancel { by })).await
}

/// Resumes an interrupted run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resume", tag = "runs", operation_id = "resume_run",
    params(("id" = String, Path), WaitQuery), security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = RunSchema),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has already ended, or its outcome is uncertain")))]
pub(crate) async fn resume_run(
    call: SignalRequest,
    QueryParams(waiting): QueryParams<WaitQuery>,
) -> ApiResult<Response> {
    let opened = call.open_run().await?;
    let active = call.server.runs.continue_run(opened).await?;
    call.respond(active, waiting).await
}

/// The answer to a question of a run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerRequest {
    /// The answer, any JSON value.
    #[schema(value_type = serde_json::Value)]
    value: Value,
    /// Path of the step that asks, if there are several.
    #[serde(default)]
    path: Option<String>,
    /// The `subject` of the question that is answered; the request is rejected if it does not match.
    #[serde(default)]
    subject: Option<String>,
}

/// Answers a question of a waiting run and resumes it.
#[utoipa::path(post, path = "/api/v1/runs/{id}/answer", tag = "runs", operation_id = "answer_run", request_body = AnswerRequest,
    params(("id" = String, Path), WaitQuery), security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = RunSchema),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has no such question, or its outcome is uncertain")))]
pub(crate) async fn answer_run(
    call: SignalRequest,
    QueryParams(waiting): QueryParams<WaitQuery>,
    JsonBody(reply, _): JsonBody<AnswerRequest>,
) -> ApiResult<Response> {
    let by = call.caller_name();
    let signal = |state: &RunState| {
        let path = select_step(state, reply.path.as_deref(), Phase::Waiting, "question")?;
        let subject_hash = state.find_step(&path).and_then(|step| step.question.as_ref()?.subject);
        if reply
            .subject
            .is_some_and(|subject| subject_hash.is_none_or(|subject_hash| subject_hash.to_string() != subject))
        {
            return Err(Problem::new(Code::AnswerInvalid, "the subject belongs to another question"));
        }
        Ok(Signal::Answer { path, value: reply.value, by })
    };
    handle_signal(call, waiting, signal).await
}

/// A decision about an uncertain effect, which may or may not have happened.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveRequest {
    /// Path of the effect.
    path: String,
    /// `resend`, `fail` or `value`.
    how: ResolutionKind,
    /// Output of the effect; required with `value`.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    value: Option<Value>,
}

/// How an uncertain effect is resolved.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResolutionKind {
    /// Send the effect again.
    Resend,
    /// Record the effect as failed.
    Fail,
    /// Record the effect as successful with this output.
    Value,
}

/// Resolves an uncertain effect and resumes the run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resolve", tag = "runs", operation_id = "resolve_run", request_body = ResolveRequest,
    params(("id" = String, Path), WaitQuery), security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = RunSchema),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has no such uncertain effect, or its outcome is still uncertain")))]
pub(crate) async fn resolve_run(
    call: SignalRequest,
    QueryParams(waiting): QueryParams<WaitQuery>,
    JsonBody(decision, _): JsonBody<ResolveRequest>,
) -> ApiResult<Response> {
    let by = call.caller_name();
    let how = match (decision.how, decision.value) {
        (ResolutionKind::Resend, None) => Resolution::Resend,
        (ResolutionKind::Fail, None) => Resolution::Fail,
        (ResolutionKind::Value, Some(value)) => Resolution::Value(value),
        _ => return Err(Problem::new(Code::RequestInvalid, "\"value\" requires, and is only for, how: value")),
    };
    let signal = |state: &RunState| {
        let path = select_step(state, Some(&decision.path), Phase::Uncertain, "uncertain effect")?;
        Ok(Signal::Resolve { path, how, by })
    };
    handle_signal(call, waiting, signal).await
}

/// The named step, or the only candidate. Fails with `NothingToDo`.
fn select_step(state: &RunState, path: Option<&str>, phase: Phase, what: &str) -> ApiResult<StepPath> {
    let open: Vec<_> = state.steps().iter().filter(|step| step.phase == phase).collect();
    let found = match (path, open.as_slice()) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(path), _) => open.iter().find(|step| step.path.as_str() == path),
    };
    let paths: Vec<&str> = open.iter().map(|step| step.path.as_str()).collect();
    let message = || format!("the run has no such open {what}; expected one of: {}", paths.join(", "));
    found.map(|step| step.path.clone()).ok_or_else(|| Problem::new(Code::NothingToDo, message()))
}

/// Sends a signal to a run, wherever it is driven, and resumes it.
async fn handle_signal(
    call: SignalRequest,
    waiting: WaitQuery,
    signal: impl FnOnce(&RunState) -> ApiResult<Signal>,
) -> ApiResult<Response> {
    let opened = call.open_run().await?;
    let state = opened.state();
    if state.status.is_final() {
        return Err(Problem::new(Code::NothingToDo, format!("the run has already ended: {}", state.status.name())));
    }
    let active = call.server.runs.post_signal(opened, signal(&state)?).await?;
    call.respond(active, waiting).await
}
