//! Commands to runs: `cancel`, `resume`, `retry`, `answer` and `resolve`.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use flowloom_app::error::AppError;
use flowloom_app::keys::Scope;
use flowloom_app::runs::commands::{DECISION_TIMEOUT, SentCommand, new_command};
use flowloom_app::runs::open_steps::{select_question, select_uncertain};
use flowloom_app::runs::retry::{build_retry, parse_step_path};
use flowloom_app::runs::stored::LoadedRun;
use flowloom_core::code::Code;
use flowloom_core::event::Resolution;
use flowloom_core::id::RunId;
use flowloom_core::state::RunState;
use flowloom_core::value::Value;
use flowloom_runtime::RunError;
use flowloom_runtime::command::CommandAction;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{WaitQuery, build_run_response, open_own_run, open_run, respond_with_run};
use super::run_schema::RunSchema;
use super::start::idempotency_key;
use crate::blocking::run_blocking;
use crate::body::{JsonObject, OptionalJsonBody};
use crate::caller::Caller;
use crate::params::{PathParam, QueryParams};
use crate::problem::{ApiResult, Problem};
use crate::state::{RunHost, Server};

/// Characters that an id cannot have in a URL as they are.
const RESERVED_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A request that sends a command to a run. Query parameters are separate arguments, because the OpenAPI document is
/// derived from the handlers.
pub(crate) struct CommandRequest {
    host: Arc<RunHost>,
    caller: Caller,
    /// Id of the run, from the path.
    id: String,
    headers: HeaderMap,
}

impl FromRequestParts<Server> for CommandRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> ApiResult<CommandRequest> {
        let caller = Caller::from_request_parts(parts, server).await?;
        let PathParam(id) = PathParam::from_request_parts(parts, server).await?;
        Ok(CommandRequest { host: server.host.clone(), caller, id, headers: parts.headers.clone() })
    }
}

impl CommandRequest {
    /// Opens the run if the caller may send commands to it.
    async fn open_run(&self) -> ApiResult<LoadedRun> {
        self.caller.require_scope(Scope::Run)?;
        open_own_run(&self.host.app.runs, &self.caller, &self.id).await
    }

    /// Sends a command to a run that has not ended, like [`CommandRequest::send_action`]. `build` makes the command for the
    /// state of the run, and for the same command if the request is a repetition.
    async fn send_command(
        self,
        opened: LoadedRun,
        waiting: WaitQuery,
        build: impl FnOnce(&RunState, Option<&CommandAction>) -> ApiResult<CommandAction>,
    ) -> ApiResult<Response> {
        let (run, state, repeated) = (opened.id, opened.state(), self.find_repeated(opened.id).await?);
        let known = repeated.as_ref().map(|(_, action)| action);
        if known.is_none() && state.status.is_final() {
            return Err(RunError::Ended(state.status).into());
        }
        let action = build(&state, known)?;
        let receiver = match repeated {
            Some((receiver, _)) if receiver != run => open_run(&self.host.app.runs, receiver).await?,
            _ => opened,
        };
        self.send_action(run, receiver, waiting, action).await
    }

    /// The action of the command that this request repeats, and the run that received it: this run, or one of
    /// its child runs.
    async fn find_repeated(&self, run: RunId) -> ApiResult<Option<(RunId, CommandAction)>> {
        let Some(key) = idempotency_key(&self.headers)? else { return Ok(None) };
        let store = self.host.app.store.clone();
        let found = run_blocking(move || store.find_command_within(run, &key)).await??;
        Ok(found.map(|(receiver, known)| (receiver, known.command.action)))
    }

    /// Sends a command and responds with the state of `run`: 200 if the command was applied, 202 if it is stored.
    async fn send_action(
        self,
        run: RunId,
        opened: LoadedRun,
        waiting: WaitQuery,
        action: CommandAction,
    ) -> ApiResult<Response> {
        let command = new_command(idempotency_key(&self.headers)?, self.caller.user_id(), action);
        let (started, limit) = (Instant::now(), waiting.duration().unwrap_or(DECISION_TIMEOUT).min(DECISION_TIMEOUT));
        let sent = self.host.service.send_command(opened, command, &self.caller.to_actor(), limit).await;
        let SentCommand { receiver, command, is_applied } = sent.map_err(|error| name_sent_command(run, error))?;
        let (location, waiting) = (command_path(receiver, &command), waiting.subtract_time(started.elapsed()));
        let active = self.host.supervisor.find_started(run);
        let response = build_run_response(&self.host, active, waiting, &self.headers).await;
        let mut response = response.map_err(|problem| problem.of_sent_command(location.clone()))?;
        *response.status_mut() = if is_applied { StatusCode::OK } else { StatusCode::ACCEPTED };
        if let Ok(location) = HeaderValue::from_str(&location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok(response)
    }
}

/// The path of a command to a run.
fn command_path(run: RunId, command: &str) -> String {
    format!("/api/v1/runs/{run}/commands/{}", utf8_percent_encode(command, RESERVED_CHARACTERS))
}

/// The problem of a request that sends a command to `run`. It names the command if that is stored, as far as is known.
fn name_sent_command(run: RunId, error: AppError) -> Problem {
    let path = match &error {
        AppError::AfterCommand { command, .. } => Some(command_path(run, command)),
        _ => None,
    };
    let problem = Problem::from(error);
    match path {
        Some(path) => problem.of_sent_command(path),
        None => problem,
    }
}

/// Cancels a run.
#[utoipa::path(post, path = "/api/v1/runs/{id}/cancel", tag = "runs", operation_id = "cancel_run",
    params(("id" = String, Path), WaitQuery, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body are one command; the key is the id of the command")), security(("key" = ["run"])),
    responses((status = 200, description = "The command was applied; the body is the state of the run", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The command is stored and will be applied; `Location` names it", body = RunSchema),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has ended")))]
pub(crate) async fn cancel_run(
    call: CommandRequest,
    QueryParams(waiting): QueryParams<WaitQuery>,
) -> ApiResult<Response> {
    let opened = call.open_run().await?;
    call.send_command(opened, waiting, |_, _| Ok(CommandAction::Cancel {})).await
}

/// Resumes an interrupted run. For a run that has ended, responds with its state.
#[utoipa::path(post, path = "/api/v1/runs/{id}/resume", tag = "runs", operation_id = "resume_run",
    params(("id" = String, Path), WaitQuery, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body are one command; the key is the id of the command")), security(("key" = ["run"])),
    responses((status = 200, description = "The command was applied; the body is the state of the run", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The command is stored and will be applied; `Location` names it", body = RunSchema),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has ended")))]
pub(crate) async fn resume_run(
    call: CommandRequest,
    QueryParams(waiting): QueryParams<WaitQuery>,
) -> ApiResult<Response> {
    let opened = call.open_run().await?;
    // A run that has ended needs no resuming; its state answers the request.
    if opened.state().status.is_final() {
        let active = call.host.supervisor.find_started(opened.id);
        return respond_with_run(&call.host, active, waiting, &call.headers).await;
    }
    call.send_command(opened, waiting, |_, _| Ok(CommandAction::RESUME)).await
}

/// The steps that a retry performs again.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryRequest {
    /// Path of a step: it and what follows it run again. Without it, only what failed runs again.
    #[serde(default)]
    from: Option<String>,
}

/// Retries a run that has ended. Succeeded steps are kept, and the limits and the budget continue to count.
#[utoipa::path(post, path = "/api/v1/runs/{id}/retry", tag = "runs", operation_id = "retry_run", request_body = Option<RetryRequest>,
    params(("id" = String, Path), WaitQuery, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body are one command; the key is the id of the command")), security(("key" = ["run"])),
    responses((status = 200, description = "The run continues; the body is its state", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The command is stored and will be applied; `Location` names it", body = RunSchema),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has not ended, nothing failed, or there is no such step")))]
pub(crate) async fn retry_run(
    call: CommandRequest,
    QueryParams(waiting): QueryParams<WaitQuery>,
    OptionalJsonBody(request): OptionalJsonBody<RetryRequest>,
) -> ApiResult<Response> {
    let opened = call.open_run().await?;
    let action = match call.find_repeated(opened.id).await? {
        Some(_) => CommandAction::Retry { from: request.from.as_deref().and_then(parse_step_path) },
        None => build_retry(&call.host.app.runs, &opened, request.from.as_deref())?,
    };
    call.send_action(opened.id, opened, waiting, action).await
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
    params(("id" = String, Path), WaitQuery, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body are one command; the key is the id of the command")), security(("key" = ["run"])),
    responses((status = 200, description = "The command was applied; the body is the state of the run", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The command is stored and will be applied; `Location` names it", body = RunSchema),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has no such question, or another command answered it")))]
pub(crate) async fn answer_run(
    call: CommandRequest,
    QueryParams(waiting): QueryParams<WaitQuery>,
    JsonObject(reply, _): JsonObject<AnswerRequest>,
) -> ApiResult<Response> {
    let build = |state: &RunState, known: Option<&CommandAction>| {
        if let Some(path) = known.and_then(CommandAction::path) {
            return Ok(CommandAction::Answer { path: path.clone(), value: reply.value });
        }
        let step = select_question(state, reply.path.as_deref())?;
        let path = step.path.clone();
        let subject_hash = step.question.and_then(|question| question.subject);
        if reply
            .subject
            .is_some_and(|subject| subject_hash.is_none_or(|subject_hash| subject_hash.to_string() != subject))
        {
            return Err(Problem::new(Code::AnswerInvalid, "the subject belongs to another question"));
        }
        Ok(CommandAction::Answer { path, value: reply.value })
    };
    let opened = call.open_run().await?;
    call.send_command(opened, waiting, build).await
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
    params(("id" = String, Path), WaitQuery, ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body are one command; the key is the id of the command")), security(("key" = ["run"])),
    responses((status = 200, description = "The command was applied; the body is the state of the run", content((RunSchema = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The command is stored and will be applied; `Location` names it", body = RunSchema),
        (status = 403, description = "The output could send a secret without hosts anywhere"),
        (status = 404, description = "The run does not exist, or belongs to another user"),
        (status = 409, description = "The run has no such uncertain effect, or another command resolved it")))]
pub(crate) async fn resolve_run(
    call: CommandRequest,
    QueryParams(waiting): QueryParams<WaitQuery>,
    JsonObject(decision, _): JsonObject<ResolveRequest>,
) -> ApiResult<Response> {
    let how = match (decision.how, decision.value) {
        (ResolutionKind::Resend, None) => Resolution::Resend,
        (ResolutionKind::Fail, None) => Resolution::Fail,
        (ResolutionKind::Value, Some(value)) => Resolution::Value(value),
        _ => return Err(Problem::new(Code::RequestInvalid, "\"value\" requires, and is only for, how: value")),
    };
    let build = |state: &RunState, known: Option<&CommandAction>| {
        let path = match known.and_then(CommandAction::path) {
            Some(path) => path.clone(),
            None => select_uncertain(state, &decision.path)?.path.clone(),
        };
        Ok(CommandAction::Resolve { path, how })
    };
    let opened = call.open_run().await?;
    call.send_command(opened, waiting, build).await
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[test]
    fn a_problem_names_the_command_that_was_stored() {
        let run = RunId::new(0, [7; 10]);
        let sent = AppError::AfterCommand { command: "my key".to_owned(), source: Box::new(AppError::Stopping) };
        let response = name_sent_command(run, sent).into_response();
        let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let path = format!("/api/v1/runs/{run}/commands/my%20key");
        assert_eq!((header(header::LOCATION), header(header::RETRY_AFTER)), (Some(path.as_str()), None));
        let refused = name_sent_command(run, AppError::Stopping).into_response();
        assert!(
            !refused.headers().contains_key(header::LOCATION) && refused.headers().contains_key(header::RETRY_AFTER)
        );
    }
}
