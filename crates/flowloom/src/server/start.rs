//! Starting runs: `POST /api/v1/runs`.

// The macros that describe routes write out more of a path than is needed.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use flowloom_core::code::Code;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::{Run, Start};
use flowloom_store::Started;
use serde::Deserialize;
use utoipa::ToSchema;

use super::body::Body;
use super::keys::{Caller, Scope};
use super::params::Params;
use super::problem::{Answer, Problem};
use super::run::{Waiting, answer, wants_events};
use super::shown::Shown;
use super::{Server, events};
use crate::inputs;

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
    /// Bounds, as `--budget` takes them: `tokens=2000,usd=0.05,steps=100,time=30s`.
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
        id => {
            let (run, plan) = begin(&server, new, owner, id).await?;
            let id = run.id();
            // Heard before it begins, so that no text is missed.
            let heard = wants_events(&headers).then(|| run.subscribe());
            let ending = server.live.drive(run, plan).await;
            return match heard {
                Some(heard) => Ok(events::heard_from(server, id, 0, true, Some(heard))),
                None => answer(&server, id, Some(ending), waiting, &headers).await,
            };
        }
    };
    answer(&server, id, server.live.ending(id), waiting, &headers).await
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

/// The run that a call asks for, ready to be driven.
async fn begin(server: &Arc<Server>, new: NewRun, owner: String, id: Option<RunId>) -> Answer<(Run, Arc<Plan>)> {
    let definition = super::catalog::find(server, &new.workflow).await?;
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
    Ok((prepared.engine.start(start)?, prepared.plan.clone()))
}
