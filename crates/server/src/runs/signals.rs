//! What gets a run on: `cancel`, `resume`, `answer` and `resolve`.

// The macros that describe routes write out more of a path than is needed.
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

/// A call that gets a run on. How it waits stands beside it: the routes' description is read off the handlers.
pub(crate) struct Call {
    server: Server,
    caller: Caller,
    /// The run, as the address names it.
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
    /// Who calls, as the record names them.
    fn by(&self) -> String {
        self.caller.holder().to_owned()
    }

    /// The run, if the caller may get it on.
    async fn open(&self) -> Answer<Opened> {
        self.caller.may(Scope::Run)?;
        open(&self.server, &self.caller, &self.id).await
    }

    /// The run as it stands then.
    async fn answer(self, begun: Begun, waiting: Waiting) -> Answer<Response> {
        answer(&self.server, begun, waiting, &self.headers).await
    }
}

/// Ends a run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("id" = String, Path), Waiting), security(("key" = ["run"])),
    responses((status = 200, description = "It has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "It goes on, or waits", body = Shown),
        (status = 404, description = "There is none, or it is another's"),
        (status = 409, description = "There is nothing to do, or it is uncertain")))]
pub(crate) async fn cancel(call: Call, Params(waiting): Params<Waiting>) -> Answer<Response> {
    let by = call.by();
    tell(call, waiting, |_| Ok(Wish::Cancel { by })).await
}

/// Goes on with a run that was interrupted.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resume", tag = "runs", operation_id = "resume_run",
    params(("id" = String, Path), Waiting), security(("key" = ["run"])),
    responses((status = 200, description = "It has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "It goes on, or waits", body = Shown),
        (status = 404, description = "There is none, or it is another's"),
        (status = 409, description = "There is nothing to do, or it is uncertain")))]
pub(crate) async fn resume(call: Call, Params(waiting): Params<Waiting>) -> Answer<Response> {
    let opened = call.open().await?;
    let begun = call.server.runs.go_on(opened).await?;
    call.answer(begun, waiting).await
}

/// An answer to a question of a run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reply {
    /// The answer: any JSON value.
    #[schema(value_type = serde_json::Value)]
    value: Value,
    /// The step that asks, if there are several.
    #[serde(default)]
    path: Option<String>,
    /// What is agreed to, as `subject` of the question names it; refused if the question is about something else.
    #[serde(default)]
    subject: Option<String>,
}

/// Answers a question of a run that waits, and lets it go on.
#[utoipa::path(post, path = "/api/v1/runs/{id}/answer", tag = "runs", operation_id = "answer_run", request_body = Reply,
    params(("id" = String, Path), Waiting), security(("key" = ["run"])),
    responses((status = 200, description = "It has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "It goes on, or waits", body = Shown),
        (status = 404, description = "There is none, or it is another's"),
        (status = 409, description = "There is nothing to do, or it is uncertain")))]
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
            return Err(Problem::new(Code::AnswerInvalid, "this is the subject of another question"));
        }
        Ok(Wish::Answer { path, value: reply.value, by })
    };
    tell(call, waiting, wish).await
}

/// A decision about an effect that may or may not have happened.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    /// The effect's path.
    path: String,
    /// `resend`, `fail`, or `value`.
    how: How,
    /// What it gave, with `value`.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    value: Option<Value>,
}

/// How it is decided.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// It is sent again.
    Resend,
    /// It counts as failed.
    Fail,
    /// It gave this value.
    Value,
}

/// Decides about an uncertain effect, and lets the run go on.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resolve", tag = "runs", operation_id = "resolve_run", request_body = Decision,
    params(("id" = String, Path), Waiting), security(("key" = ["run"])),
    responses((status = 200, description = "It has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "It goes on, or waits", body = Shown),
        (status = 404, description = "There is none, or it is another's"),
        (status = 409, description = "There is nothing to do, or it is uncertain")))]
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
        _ => return Err(Problem::new(Code::RequestInvalid, "a value belongs to how: value, and only there")),
    };
    let wish = |state: &RunState| {
        let path = chosen(state, Some(&decision.path), Phase::Uncertain, "uncertain effect")?;
        Ok(Wish::Resolve { path, how, by })
    };
    tell(call, waiting, wish).await
}

/// The step that is meant: the named one, or the only one.
fn chosen(state: &RunState, path: Option<&str>, phase: Phase, what: &str) -> Answer<StepPath> {
    let open: Vec<_> = state.steps().iter().filter(|step| step.phase == phase).collect();
    let found = match (path, open.as_slice()) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(path), _) => open.iter().find(|step| step.path.as_str() == path),
    };
    let paths: Vec<&str> = open.iter().map(|step| step.path.as_str()).collect();
    let message = || format!("the run has no such open {what}; open are: {}", paths.join(", "));
    found.map(|step| step.path.clone()).ok_or_else(|| Problem::new(Code::NothingToDo, message()))
}

/// Asks something of a run, wherever it is driven, and lets it go on.
async fn tell(call: Call, waiting: Waiting, wish: impl FnOnce(&RunState) -> Answer<Wish>) -> Answer<Response> {
    let opened = call.open().await?;
    let state = opened.state();
    if state.status.is_final() {
        return Err(Problem::new(Code::NothingToDo, format!("the run has ended: {}", state.status.name())));
    }
    let begun = call.server.runs.post(opened, wish(&state)?).await?;
    call.answer(begun, waiting).await
}
