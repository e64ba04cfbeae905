//! The routes that need a thinker, which does not exist yet: they say so.

// The macros that describe routes write out more of a path than is needed.
#![allow(unused_qualifications)]

use flowloom_core::code::Code;

use crate::server::keys::{Caller, Scope};
use crate::server::problem::{Answer, Document, Problem};

fn not_yet(caller: &Caller) -> Answer<()> {
    caller.may(Scope::Write)?;
    Err(Problem::new(
        Code::NotYet,
        "pipelines are not written from plain language yet; put one with POST /api/pipelines",
    ))
}

/// Not yet: asks what is unclear in a wish.
#[utoipa::path(post, path = "/api/clarify", operation_id = "agentflow_clarify", tag = "AgentFlow", security(("key" = ["write"])), request_body = Object, responses((status = 501, body = Document)))]
pub(crate) async fn clarify(caller: Caller) -> Answer<()> {
    not_yet(&caller)
}

/// Not yet: makes a pipeline of a wish.
#[utoipa::path(post, path = "/api/create-agent", operation_id = "agentflow_create_agent", tag = "AgentFlow", security(("key" = ["write"])), request_body = Object, responses((status = 501, body = Document)))]
pub(crate) async fn create_agent(caller: Caller) -> Answer<()> {
    not_yet(&caller)
}

/// Not yet: the same with its stages as events.
#[utoipa::path(post, path = "/api/create-agent/stream", operation_id = "agentflow_create_agent_stream", tag = "AgentFlow", security(("key" = ["write"])), request_body = Object, responses((status = 501, body = Document)))]
pub(crate) async fn create_agent_stream(caller: Caller) -> Answer<()> {
    not_yet(&caller)
}

/// Not yet: makes a pipeline of a wish and runs it.
#[utoipa::path(post, path = "/api/automate", operation_id = "agentflow_automate", tag = "AgentFlow", security(("key" = ["write"])), request_body = Object, responses((status = 501, body = Document)))]
pub(crate) async fn automate(caller: Caller) -> Answer<()> {
    not_yet(&caller)
}
