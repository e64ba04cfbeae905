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

/// Selects the user who owns the definitions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Whose {
    /// User who owns the definitions. A key that belongs to a user determines the user itself. If neither is given, the
    /// definitions shared by everyone.
    #[serde(default)]
    pub(crate) user: Option<String>,
}

/// The key of a definition that the caller may change.
pub(crate) fn changeable(caller: &Caller, user: Option<String>, kind: Kind, id: &str) -> Answer<DefinitionKey> {
    Ok(DefinitionKey { holder: holder(caller, user, id)?, kind, id: id.to_owned() })
}

/// The user who owns what the caller stores under an id. Fails with `RequestInvalid` if the id is malformed.
pub(crate) fn holder(caller: &Caller, user: Option<String>, id: &str) -> Answer<String> {
    caller.may(Scope::Write)?;
    if !is_id(id) {
        let message = format!("{id:?} is not a valid id; ids have up to 256 letters, digits and -_.:");
        return Err(Problem::new(Code::RequestInvalid, message));
    }
    caller.acts_for(user)
}

/// Applies one change.
pub(crate) async fn change(server: &Server, change: Change) -> Answer<Changed> {
    let changed = server.app.store.change_definitions(vec![change], SystemClock.now_ms()).await?;
    Ok(changed.first().copied().unwrap_or(Changed::Missing))
}

/// Deletes a definition. Fails with `NotThere` if there is none.
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

/// Fails with `NotMine` if the id belongs to a file of the served folder.
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
