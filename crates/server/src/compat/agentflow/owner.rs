//! The owner of the pipelines and blocks that a request means. AgentFlow's clients send a `user_id` with some requests
//! and with others nothing, and all of AgentFlow's pipelines and blocks are everyone's.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_store::{DefinitionKind, SHARED_USER, Store};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::blocking::run_blocking;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};

/// Selects the user.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UserQuery {
    /// User who owns the pipelines and blocks. A key that belongs to a user determines the user itself. If neither is
    /// given, those of all users are available.
    #[serde(default)]
    pub(crate) user_id: Option<String>,
}

/// The user who owns what a request means by `id`: the given user, or else, for a caller who may act for every user, the
/// only one who has a definition with this id. Fails with `RequestInvalid` if several users have one.
pub(crate) async fn find_owner(
    store: &Arc<Store>,
    caller: &Caller,
    named: Option<String>,
    kind: DefinitionKind,
    id: &str,
) -> ApiResult<String> {
    if caller.user.is_some() || named.is_some() {
        return caller.resolve_user(named);
    }
    let (shared, wanted) = (store.clone(), id.to_owned());
    let mut owners = run_blocking(move || shared.list_owners(kind, Some(&wanted))).await??;
    match owners.len() {
        0 => Ok(caller.user_id().to_owned()),
        1 => Ok(owners.remove(0)),
        _ if owners.iter().any(|owner| owner == SHARED_USER) => Ok(SHARED_USER.to_owned()),
        _ => {
            let message = format!("several users have a {} {id}; name one of them with ?user_id=", kind.name());
            Err(Problem::new(Code::RequestInvalid, message))
        }
    }
}

/// The users whose definitions of a kind a list contains. The first is the one whose list also has what everyone may use.
pub(crate) async fn list_users(
    store: &Arc<Store>,
    caller: &Caller,
    named: Option<String>,
    kind: DefinitionKind,
) -> ApiResult<Vec<String>> {
    let is_all = caller.user.is_none() && named.is_none();
    let first = caller.resolve_user(named)?;
    if !is_all {
        return Ok(vec![first]);
    }
    let store = store.clone();
    let owners = run_blocking(move || store.list_owners(kind, None)).await??;
    let others = owners.into_iter().filter(|owner| *owner != first).collect::<Vec<_>>();
    Ok([vec![first], others].concat())
}
