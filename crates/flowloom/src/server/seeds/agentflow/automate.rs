//! `/api/automate`: a wish becomes a pipeline, which runs at once.

// The macros that describe routes write out more of a path than is needed.
#![allow(unused_qualifications)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use flowloom_core::plan::Format;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};

use super::author::{Wish, authored, thought};
use crate::server::Server;
use crate::server::body::Body;
use crate::server::keys::{Caller, Scope};
use crate::server::problem::{Answer, Document};
use crate::server::seeds::{Ended, definition, run};
use crate::server::start::{Call, Starting, admit};

/// Makes a pipeline of a wish, tries it, keeps it and runs it: two runs, one after the other.
#[utoipa::path(post, path = "/api/automate", operation_id = "agentflow_automate", tag = "AgentFlow", security(("key" = ["write"])), request_body = Wish,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and body start both runs once")),
    responses((status = 200, description = "`{status, pipeline, results, log, run_id, thinker_run_id, usage}`, or why there is no pipeline: `{status, reason, missing_blocks, log}`"),
        (status = 202, description = "It takes longer than a call may wait"), (status = 400, body = Document), (status = 404, body = Document),
        (status = 409, body = Document), (status = 422, body = Document)))]
pub(crate) async fn automate(
    State(server): State<Arc<Server>>,
    caller: Caller,
    headers: HeaderMap,
    Body(wish, text): Body<Wish>,
) -> Answer<Response> {
    caller.may(Scope::Write)?;
    wish.check()?;
    let call = Call { server: &server, owner: admit(&server, &caller, wish.user_id.clone())?, headers: &headers };
    let thinker = thought(&call, &wish, &text).await?;
    let made = authored(&server, &thinker).await?;
    let pipeline = made.get("pipeline_json").cloned().unwrap_or_default();
    let id = pipeline.get("id").and_then(Value::as_str);
    let (Status::Succeeded, Some(id)) = (thinker.state.status, id) else {
        let told = made.into_iter().filter(|(key, _)| &**key != "pipeline_json");
        return Ok(thinker.answer(told.collect()));
    };
    let headers = for_the_run(&headers);
    let call = Call { headers: &headers, ..call };
    let (definition, _) = definition(&server, call.owner.clone(), Format::Pipeline, id).await?;
    let ended = run(&call, (&definition, Starting::with(Map::new().into()), "")).await?;
    Ok(ended.answer(told(&made, &pipeline, &ended)))
}

/// The same key means the same call, so the second run of it has a key of its own.
fn for_the_run(headers: &HeaderMap) -> HeaderMap {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let own = key.and_then(|key| HeaderValue::try_from(format!("{key}/run")).ok());
    let mut headers = headers.clone();
    if let Some(own) = own {
        headers.insert("idempotency-key", own);
    }
    headers
}

/// The run's result, with what the thinker did before it.
fn told(made: &Map, pipeline: &Value, ended: &Ended) -> Map {
    let mut told = ended.result();
    let log = |map: &Map| map.get("log").and_then(Value::as_list).unwrap_or_default().to_vec();
    let both = [log(made), log(&told)].concat();
    let entries = [
        ("status", ended.state.status.row().steps.into()),
        ("pipeline", pipeline.clone()),
        ("log", Value::list(both)),
        ("run_id", ended.id.to_string().into()),
        ("thinker_run_id", made.get("run_id").cloned().unwrap_or_default()),
        ("usage", made.get("usage").cloned().unwrap_or_default()),
    ];
    told.extend(entries.into_iter().map(|(key, value)| (key.into(), value)));
    told
}
