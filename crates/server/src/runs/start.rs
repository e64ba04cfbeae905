//! Starting runs: `POST /api/v1/runs`, and what every other route that starts one shares.

// The macros that describe routes write out more of a path than is needed.
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

/// What is run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
    /// The id of a workflow.
    workflow: String,
    /// Its inputs, by name; a step list takes any value.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    inputs: Option<Value>,
    /// The agent on whose behalf it runs.
    #[serde(default)]
    agent: Option<String>,
    /// Whose run it is, where the key does not say.
    #[serde(default)]
    user: Option<String>,
    /// Bounds: `tokens=2000,usd=0.05,steps=100,time=30s`.
    #[serde(default)]
    budget: Option<String>,
}

/// Starts a run. With `Accept: text/event-stream` its events are the answer.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", operation_id = "start_run", request_body = NewRun, params(Waiting,
    ("Idempotency-Key" = Option<String>, Header, description = "The same key and body start one run")),
    security(("key" = ["run"])),
    responses((status = 200, description = "It has ended", content((Shown = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "It goes on, or waits", body = Shown),
        (status = 404, description = "There is no such workflow"),
        (status = 409, description = "It is uncertain, or the Idempotency-Key was used for another call")))]
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

/// Whether the caller may start a run now, and whose it is.
pub(crate) fn admit(server: &Server, caller: &Caller, user: Option<String>) -> Answer<String> {
    caller.may(Scope::Run)?;
    server.live.admit()?;
    caller.acts_for(user)
}

/// A call that starts a run.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Arc<Server>,
    /// Whose run it is.
    pub(crate) owner: String,
    pub(crate) headers: &'a HeaderMap,
}

/// With what a definition is started.
pub(crate) struct Starting {
    pub(crate) inputs: Value,
    /// The agent on whose behalf it runs.
    pub(crate) agent: Option<String>,
    /// Bounds, as [`budget`] reads them.
    pub(crate) budget: Option<String>,
    /// Under which key the conversation is kept.
    pub(crate) keep: Option<String>,
    /// Whether the call wants to hear what happens, whatever it accepts as an answer.
    pub(crate) is_heard: bool,
}

impl Starting {
    /// Nothing but inputs.
    pub(crate) fn with(inputs: Value) -> Starting {
        Starting { inputs, agent: None, budget: None, keep: None, is_heard: false }
    }
}

impl Call<'_> {
    /// The run that `begin` starts, or that the same call has started before under its Idempotency-Key. `request` is
    /// what makes it the same call.
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
            Started::Other => Err(Problem::new(Code::KeyReused, "this Idempotency-Key was used for another call")),
        }
    }

    /// Binds the call's Idempotency-Key to a run that was there before, so that what the call says to it is said once.
    pub(crate) async fn is_for(&self, run: RunId) -> Answer<()> {
        let Some(key) = self.headers.get("idempotency-key") else { return Ok(()) };
        let key = key.to_str().unwrap_or_default();
        Ok(self.server.app.store.started_as((&self.owner, key), run).await?)
    }

    /// The definition that is meant.
    pub(crate) async fn definition(&self, id: &str) -> Answer<Arc<Definition>> {
        if let Some(at_hand) = self.server.catalog.at_hand(id) {
            return Ok(at_hand);
        }
        let (server, name, owner) = (self.server.clone(), id.to_owned(), self.owner.clone());
        let found = crate::blocking::blocking(move || server.catalog.find(&owner, &name)).await??;
        found.ok_or_else(|| Problem::not_there("workflow", id))
    }

    /// Starts a run of a definition.
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
