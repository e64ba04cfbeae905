//! Starts runs: `POST /api/v1/runs`, and the functions shared by all routes that start runs.

// The route macros expand to longer paths than necessary.
#![allow(unused_qualifications)]
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_app::definitions::catalog::Definition;
use flowloom_app::keys::Scope;
use flowloom_app::runs::inputs::budget;
use flowloom_app::runs::supervisor::Begun;
use flowloom_core::code::Code;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::Start;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::Started;
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{Waiting, answer, wants_events};
use super::shown::Shown;
use crate::body::Body;
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// A run to start.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
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
    /// Bounds: `tokens=2000,usd=0.05,steps=100,time=30s`.
    #[serde(default)]
    budget: Option<String>,
}

/// Starts a run. With `Accept: text/event-stream`, the response streams the run's events.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", operation_id = "start_run", request_body = NewRun, params(Waiting,
    ("Idempotency-Key" = Option<String>, Header, description = "Requests with the same key and body start a single run")),
    security(("key" = ["run"])),
    responses((status = 200, description = "The run has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "The run is still running or waiting", body = Shown),
        (status = 404, description = "The workflow does not exist"),
        (status = 409, description = "The outcome of the run is uncertain, or the Idempotency-Key was used for another request")))]
pub(crate) async fn start(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Params(waiting): Params<Waiting>,
    headers: HeaderMap,
    Body(new, text): Body<NewRun>,
) -> Answer<Response> {
    let call = Call { server: &server, owner: admit(&server, &caller, new.user.clone())?, headers: &headers };
    let run = call.once(&text, async |id| {
        let definition = call.definition(&new.workflow).await?;
        let inputs = new.inputs.unwrap_or_else(|| Map::new().into());
        let starting = Starting { agent: new.agent, budget: new.budget, ..Starting::with(inputs) };
        call.begin(&definition, starting, id).await
    });
    answer(&server, run.await?, waiting, &headers).await
}

/// Checks that the caller may start a run now. Returns the user who will own it.
pub(crate) fn admit(server: &Server, caller: &Caller, user: Option<String>) -> Answer<String> {
    caller.may(Scope::Run)?;
    server.live.admit()?;
    caller.acts_for(user)
}

/// A request that starts a run.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Arc<Server>,
    /// The user who owns the run.
    pub(crate) owner: String,
    pub(crate) headers: &'a HeaderMap,
}

/// What to start a definition with.
pub(crate) struct Starting {
    pub(crate) inputs: Value,
    /// The agent as which the run acts.
    pub(crate) agent: Option<String>,
    /// Bounds, as [`budget`] reads them.
    pub(crate) budget: Option<String>,
    /// The memory key under which the conversation is stored.
    pub(crate) keep: Option<String>,
    /// Whether the request streams events, even if it does not accept an event stream.
    pub(crate) is_heard: bool,
}

impl Starting {
    /// Options with inputs only.
    pub(crate) fn with(inputs: Value) -> Starting {
        Starting { inputs, agent: None, budget: None, keep: None, is_heard: false }
    }
}

impl Call<'_> {
    /// Calls the given function to start a run, or returns the run that the same request started under its
    /// Idempotency-Key. `request` identifies the request. Fails with `KeyReused` if the key was used for another
    /// request.
    pub(crate) async fn once(
        &self,
        request: &str,
        begin: impl AsyncFnOnce(Option<RunId>) -> Answer<Begun>,
    ) -> Answer<Begun> {
        let Some(key) = self.headers.get("idempotency-key") else { return begin(None).await };
        let key = key.to_str().unwrap_or_default();
        let request = Hash::of(request.as_bytes()).to_string();
        let id = RunId(uuid::Uuid::now_v7());
        let store = &self.server.app.store;
        match store.start_once((&self.owner, key), &request, id, SystemClock.now_ms()).await? {
            Started::Run(id) if matches!(store.run(id), Ok(Some(_))) => Ok(self.server.live.again(id)),
            Started::Run(id) => begin(Some(id)).await,
            Started::Other => Err(Problem::new(Code::KeyReused, "this Idempotency-Key was used for another request")),
        }
    }

    /// Binds the request's Idempotency-Key to an existing run, so that the request is applied to it only once.
    pub(crate) async fn is_for(&self, run: RunId) -> Answer<()> {
        let Some(key) = self.headers.get("idempotency-key") else { return Ok(()) };
        let key = key.to_str().unwrap_or_default();
        Ok(self.server.app.store.started_as((&self.owner, key), run).await?)
    }

    /// Finds the definition to run. Fails with `NotThere`.
    pub(crate) async fn definition(&self, id: &str) -> Answer<Arc<Definition>> {
        if let Some(at_hand) = self.server.catalog.at_hand(id) {
            return Ok(at_hand);
        }
        let (server, name, owner) = (self.server.clone(), id.to_owned(), self.owner.clone());
        let found = crate::blocking::blocking(move || server.catalog.find(&owner, &name)).await??;
        found.ok_or_else(|| Problem::not_there("workflow", id))
    }

    /// Starts a run of a definition. Fails with `StepRefused` if it has errors.
    pub(crate) async fn begin(&self, definition: &Definition, starting: Starting, id: Option<RunId>) -> Answer<Begun> {
        let server = self.server;
        let Some(prepared) = definition.ready(&server.catalog, &self.owner).await? else {
            let message = format!("the workflow {} has errors", definition.id);
            return Err(Problem::new(Code::StepRefused, message).with_errors(definition.problems.clone()));
        };
        let mut limits = server.app.config.limits.within(&prepared.plan.limits);
        if let Some(text) = &starting.budget {
            budget(text, &mut limits)?;
        }
        let run = prepared.engine.start(Start {
            plan: prepared.plan.clone(),
            bundle: prepared.keep(&server.app),
            inputs: starting.inputs,
            owner: self.owner.clone(),
            agent: starting.agent,
            limits,
            depth: 0,
            workflow: Some(definition.id.clone()),
            keep: starting.keep,
            id,
        })?;
        let is_heard = starting.is_heard || wants_events(self.headers);
        Ok(server.live.begin(run, prepared.plan.clone(), is_heard).await)
    }
}
