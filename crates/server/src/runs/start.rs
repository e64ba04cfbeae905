//! Starts runs: `POST /api/v1/runs`, and the functions shared by all routes that start runs.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_app::definitions::catalog::Definition;
use flowloom_app::keys::Scope;
use flowloom_app::runs::service::{Call as StartCall, NewRun};
use flowloom_app::runs::supervisor::Begun;
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{Waiting, answer, wants_events};
use super::shown::Shown;
use crate::body::Body;
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::Answer;
use crate::state::Server;

/// A run to start.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRun)]
pub(crate) struct RunRequest {
    /// Id of the workflow.
    workflow: String,
    /// Inputs by name; step lists accept any value.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    inputs: Option<Value>,
    /// The agent as which the run acts.
    #[serde(default)]
    agent: Option<String>,
    /// User who owns the run, if the key does not determine it.
    #[serde(default)]
    user: Option<String>,
    /// Limits of the run: `tokens=2000,usd=0.05,steps=100,time=30s`.
    #[serde(default)]
    budget: Option<String>,
}

/// Starts a run. With `Accept: text/event-stream`, the response streams the run's events.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", operation_id = "start_run", request_body = RunRequest, params(Waiting,
    ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = Shown),
        (status = 404, description = "The workflow does not exist"),
        (status = 409, description = "The outcome of the run is uncertain, or the Idempotency-Key was used for another request")))]
pub(crate) async fn start(
    State(server): State<Server>,
    caller: Caller,
    Params(waiting): Params<Waiting>,
    headers: HeaderMap,
    Body(new, text): Body<RunRequest>,
) -> Answer<Response> {
    let call = Call::admitted(&server, &caller, new.user.clone(), &headers)?;
    let run = call.once(&text, async |id| {
        let definition = call.definition(&new.workflow).await?;
        let inputs = new.inputs.unwrap_or_else(|| Map::new().into());
        let starting = NewRun { agent: new.agent, budget: new.budget, ..NewRun::with(inputs) };
        call.begin(&definition, NewRun { id, ..starting }).await
    });
    answer(&server, run.await?, waiting, &headers).await
}

/// A call of a route, a schedule or a tool that starts a run.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Server,
    pub(crate) start: StartCall,
}

impl<'a> Call<'a> {
    /// The call of a caller who may start a run now, for themselves or for `user`.
    pub(crate) fn admitted(
        server: &'a Server,
        caller: &Caller,
        user: Option<String>,
        headers: &HeaderMap,
    ) -> Answer<Call<'a>> {
        caller.may(Scope::Run)?;
        server.live.admit()?;
        let (user, is_heard) = (caller.acts_for(user)?, wants_events(headers));
        Ok(Call { server, start: StartCall { user, idempotency_key: idempotency_key(headers), is_heard } })
    }

    /// What this process does on behalf of `user`.
    pub(crate) fn of(server: &'a Server, user: &str) -> Call<'a> {
        Call { server, start: StartCall::of(user) }
    }

    /// The same under an idempotency key.
    pub(crate) fn with_key(mut self, key: Option<String>) -> Call<'a> {
        self.start.idempotency_key = key;
        self
    }

    /// The user whose run it is.
    pub(crate) fn user(&self) -> &str {
        &self.start.user
    }

    /// See [`Runs::once`](flowloom_app::runs::service::Runs::once).
    pub(crate) async fn once(
        &self,
        request: &str,
        begin: impl AsyncFnOnce(Option<RunId>) -> Answer<Begun>,
    ) -> Answer<Begun> {
        self.server.runs.once(&self.start, request, begin).await
    }

    /// Binds the call's idempotency key to a run that was there before, so that what the call says to it is said once.
    pub(crate) async fn is_for(&self, run: RunId) -> Answer<()> {
        Ok(self.server.runs.bind_key(&self.start, run).await?)
    }

    /// Finds the definition to run. Fails with `NotThere`.
    pub(crate) async fn definition(&self, id: &str) -> Answer<Arc<Definition>> {
        Ok(self.server.runs.definition(&self.start.user, id).await?)
    }

    /// Starts a run of a definition. Fails with `StepRefused` if it has errors.
    pub(crate) async fn begin(&self, definition: &Definition, new: NewRun) -> Answer<Begun> {
        Ok(self.server.runs.start(&self.start, definition, new).await?)
    }
}

/// The idempotency key that a request names.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Option<String> {
    headers.get("idempotency-key").map(|key| key.to_str().unwrap_or_default().to_owned())
}
