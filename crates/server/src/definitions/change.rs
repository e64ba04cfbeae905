//! What all routes that change definitions share: whose they are, and how one is changed or taken away.

use flowloom_app::definitions::stored::is_id;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Change, Changed, DefinitionKey, Kind};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::caller::Caller;
use crate::problem::{Answer, Problem};
use crate::state::Server;

/// Whose definitions are meant.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Whose {
    /// Those of this user. A key that belongs to a user decides that itself; without either, those that everyone has.
    #[serde(default)]
    pub(crate) user: Option<String>,
}

/// The key of a definition that the caller may change.
pub(crate) fn changeable(caller: &Caller, user: Option<String>, kind: Kind, id: &str) -> Answer<DefinitionKey> {
    Ok(DefinitionKey { holder: holder(caller, user, id)?, kind, id: id.to_owned() })
}

/// Whose it is what the caller puts under an id.
pub(crate) fn holder(caller: &Caller, user: Option<String>, id: &str) -> Answer<String> {
    caller.may(Scope::Write)?;
    if !is_id(id) {
        let message = format!("{id:?} cannot be an id; ids have up to 256 letters, digits and -_.:");
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    caller.acts_for(user)
}

/// Makes one change.
pub(crate) async fn change(server: &Server, change: Change) -> Answer<Changed> {
    let changed = server.app.store.change_definitions(vec![change], SystemClock.now_ms()).await?;
    Ok(changed.first().copied().unwrap_or(Changed::Missing))
}

/// Takes a definition away.
pub(crate) async fn delete(server: &Server, key: DefinitionKey) -> Answer<()> {
    let (what, id) = (key.kind.name(), key.id.clone());
    if key.kind == Kind::Block {
        return Ok(server.app.blocks.remove(&key.holder, &key.id).await?);
    }
    match change(server, Change::Delete(key)).await? {
        Changed::Missing => Err(Problem::not_there(what, &id)),
        _ => Ok(()),
    }
}

/// Refuses to change what lies in the served folder.
pub(crate) async fn not_in_folder(server: &Server, id: &str) -> Answer<()> {
    let (shared, wanted) = (server.clone(), id.to_owned());
    let found = crate::blocking::blocking(move || shared.catalog.file(&wanted)).await?;
    match found.as_ref().and_then(|definition| definition.file()) {
        Some(file) => {
            let message = format!("the workflow {id} is the file {file} of the served folder; change it there");
            Err(Problem::new(Code::NotMine, message))
        }
        None => Ok(()),
    }
}
