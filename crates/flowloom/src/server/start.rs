//! Starting runs: `POST /api/v1/runs`.

// The macros that describe routes write out more of a path than is needed.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
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

use super::Server;
use super::body::Body;
use super::keys::{Caller, Scope};
use super::problem::{Answer, Document, Problem};
use super::run::{Waiting, answer};
use crate::inputs;

/// What is run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
    /// The id of a workflow.
    workflow: String,
    /// Its inputs, by name; a step list takes any value.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    inputs: Option<Value>,
    /// The agent on whose behalf it runs.
    #[serde(default)]
    agent: Option<String>,
    /// Whose run it is, where the key does not say.
    #[serde(default)]
    user: Option<String>,
    /// Bounds, as `--budget` takes them: `tokens=2000,usd=0.05,steps=100,time=30s`.
    #[serde(default)]
    budget: Option<String>,
}

/// Starts a run. With `Accept: text/event-stream` its events are the answer.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", request_body = NewRun, params(Waiting,
    ("Idempotency-Key" = Option<String>, Header, description = "The same key and body start one run")),
    responses((status = 200, description = "It has ended"), (status = 202, description = "It goes on, or waits"),
        (status = 404, body = Document), (status = 409, body = Document), (status = 422, body = Document), (status = 429, body = Document)))]
pub(crate) async fn start(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Query(waiting): Query<Waiting>,
    headers: HeaderMap,
    Body(new, text): Body<NewRun>,
) -> Answer<Response> {
    caller.may(Scope::Run)?;
    server.live.admit()?;
    let owner = match (&caller.user, new.user.clone()) {
        (Some(user), Some(other)) if *user != other => return Err(Problem::not_there("user", &other)),
        (Some(user), _) => user.clone(),
        (None, other) => other.unwrap_or_else(|| "local".to_owned()),
    };
    let id = match headers.get("idempotency-key") {
        None => None,
        Some(key) => Some(once(&server, &owner, key.to_str().unwrap_or_default(), &text).await?),
    };
    let id = match id {
        // Started before by the same call.
        Some(id) if matches!(server.app.store.run(id), Ok(Some(_))) => id,
        id => begin(&server, new, owner, id).await?,
    };
    answer(&server, id, waiting, &headers).await
}

/// The run of an Idempotency-Key.
async fn once(server: &Server, owner: &str, key: &str, text: &str) -> Answer<RunId> {
    let request = Hash::of(text.as_bytes()).to_string();
    let id = RunId(uuid::Uuid::now_v7());
    match server.app.store.start_once((owner, key), &request, id, SystemClock.now_ms()).await? {
        Started::Run(id) => Ok(id),
        Started::Other => Err(Problem::new(Code::KeyReused, "this Idempotency-Key was used for another call")),
    }
}

async fn begin(server: &Arc<Server>, new: NewRun, owner: String, id: Option<RunId>) -> Answer<RunId> {
    let (shared, name) = (server.clone(), new.workflow.clone());
    let found = super::blocking(move || shared.catalog.find(&name)).await?;
    let definition = found.ok_or_else(|| Problem::not_there("workflow", &new.workflow))?;
    let Some(prepared) = definition.ready(&server.catalog).await? else {
        let message = format!("the workflow {} has errors", definition.id);
        return Err(Problem::new(Code::StepRefused, message).with_errors(definition.problems.clone()));
    };
    let mut limits = server.app.config.limits.within(&prepared.plan.limits);
    if let Some(budget) = &new.budget {
        inputs::budget(budget, &mut limits).map_err(|failure| Problem::from(failure.error))?;
    }
    let start = Start {
        plan: prepared.plan.clone(),
        bundle: prepared.keep(&server.app),
        inputs: new.inputs.unwrap_or_else(|| Map::new().into()),
        owner,
        agent: new.agent,
        limits,
        depth: 0,
        keep: None,
        id,
    };
    let run = prepared.engine.start(start)?;
    let id = run.id();
    server.live.drive(run);
    Ok(id)
}
