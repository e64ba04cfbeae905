//! The routes of the original systems, so that their clients work unchanged (docs/api.md).

mod agentflow;
mod agentos;
mod anythingllm;
mod runs;
mod schemas;

use utoipa_axum::router::OpenApiRouter;

use crate::state::Server;

/// The routes of all of them.
pub(crate) fn routes() -> OpenApiRouter<Server> {
    agentos::routes().merge(anythingllm::routes()).merge(agentflow::routes())
}
