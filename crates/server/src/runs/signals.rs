//! Signals to runs: `cancel`, `resume`, `answer` and `resolve`.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use flowloom_app::engines::Opened;
use flowloom_app::keys::Scope;
use flowloom_app::runs::supervisor::Begun;
use flowloom_core::code::Code;
use flowloom_core::event::Resolution;
use flowloom_core::path::Path as StepPath;
use flowloom_core::state::{Phase, RunState};
use flowloom_core::value::Value;
use flowloom_runtime::journal::Wish;
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{Waiting, answer, open};
use super::shown::Shown;
use crate::body::Body;
use crate::caller::Caller;
use crate::params::{At, Params};
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// A request that signals a run. Query parameters are separate arguments, because the OpenAPI document is derived from
/// the handlers.
pub(crate) struct Call {
    server: Server,
    caller: Caller,
    /// Id of the run, from the path.
    id: String,
    headers: HeaderMap,
}

impl FromRequestParts<Server> for Call {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Answer<Call> {
        let caller = Caller::from_request_parts(parts, server).await?;
        let At(id) = At::from_request_parts(parts, server).await?;
        Ok(Call { server: server.clone(), caller, id, headers: parts.headers.clone() })
    }
}

impl Call {
    /// The name of the caller in the journal.
    fn by(&self) -> String {
        self.caller.holder().to_owned()
    }

    /// Opens the run if the caller may signal it.
    async fn open(&self) -> Answer<Opened> {
        self.caller.may(Scope::Run)?;
        open(&self.server, &self.caller, &self.id).await
    }

    /// Responds with the state of the run after waiting.
    async fn answer(self, begun: Begun, waiting: Waiting) -> Answer<Response> {
        answer(&self.server, begun, waiting, &self.headers).await
    }
}

/// Cancels a run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("id" = String, Path), Waiting), security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = Shown),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has already ended, or its outcome is uncertain")))]
pub(crate) async fn cancel(call: Call, Params(waiting): Params<Waiting>) -> Answer<Response> {
    let by = call.by();
    tell(call, waiting, |_| Ok(Wish::Cancel { by })).await
}

/// Resumes an interrupted run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resume", tag = "runs", operation_id = "resume_run",
    params(("id" = String, Path), Waiting), security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = Shown),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has already ended, or its outcome is uncertain")))]
pub(crate) async fn resume(call: Call, Params(waiting): Params<Waiting>) -> Answer<Response> {
    let opened = call.open().await?;
    let begun = call.server.runs.go_on(opened).await?;
    call.answer(begun, waiting).await
}

/// The answer to a question of a run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reply {
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
#[utoipa::path(post, path = "/api/v1/runs/{id}/answer", tag = "runs", operation_id = "answer_run", request_body = Reply,
    params(("id" = String, Path), Waiting), security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = Shown),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has no such question, or its outcome is uncertain")))]
pub(crate) async fn reply(
    call: Call,
    Params(waiting): Params<Waiting>,
    Body(reply, _): Body<Reply>,
) -> Answer<Response> {
    let by = call.by();
    let wish = |state: &RunState| {
        let path = chosen(state, reply.path.as_deref(), Phase::Waiting, "question")?;
        let asked = state.step(&path).and_then(|step| step.question.as_ref()?.subject);
        if reply.subject.is_some_and(|subject| asked.is_none_or(|asked| asked.to_string() != subject)) {
            return Err(Problem::new(Code::AnswerInvalid, "the subject belongs to another question"));
        }
        Ok(Wish::Answer { path, value: reply.value, by })
    };
    tell(call, waiting, wish).await
}

/// A decision about an uncertain effect, which may or may not have happened.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    /// Path of the effect.
    path: String,
    /// `resend`, `fail` or `value`.
    how: How,
    /// Output of the effect; required with `value`.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    value: Option<Value>,
}

/// How an uncertain effect is resolved.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// Send the effect again.
    Resend,
    /// Record the effect as failed.
    Fail,
    /// Record the effect as successful with this output.
    Value,
}

/// Resolves an uncertain effect and resumes the run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resolve", tag = "runs", operation_id = "resolve_run", request_body = Decision,
    params(("id" = String, Path), Waiting), security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = Shown),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has no such uncertain effect, or its outcome is still uncertain")))]
pub(crate) async fn resolve(
    call: Call,
    Params(waiting): Params<Waiting>,
    Body(decision, _): Body<Decision>,
) -> Answer<Response> {
    let by = call.by();
    let how = match (decision.how, decision.value) {
        (How::Resend, None) => Resolution::Resend,
        (How::Fail, None) => Resolution::Fail,
        (How::Value, Some(value)) => Resolution::Value(value),
        _ => return Err(Problem::new(Code::RequestInvalid, "\"value\" requires, and is only for, how: value")),
    };
    let wish = |state: &RunState| {
        let path = chosen(state, Some(&decision.path), Phase::Uncertain, "uncertain effect")?;
        Ok(Wish::Resolve { path, how, by })
    };
    tell(call, waiting, wish).await
}

/// The named step, or the only candidate. Fails with `NothingToDo`.
fn chosen(state: &RunState, path: Option<&str>, phase: Phase, what: &str) -> Answer<StepPath> {
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
async fn tell(call: Call, waiting: Waiting, wish: impl FnOnce(&RunState) -> Answer<Wish>) -> Answer<Response> {
    let opened = call.open().await?;
    let state = opened.state();
    if state.status.is_final() {
        return Err(Problem::new(Code::NothingToDo, format!("the run has already ended: {}", state.status.name())));
    }
    let begun = call.server.runs.post(opened, wish(&state)?).await?;
    call.answer(begun, waiting).await
}
