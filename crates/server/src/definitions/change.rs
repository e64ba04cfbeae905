//! Shared parts of all routes that change definitions: the owner, and how a definition is changed or deleted.

use std::sync::Arc;

use flowloom_app::blocks::BlockRegistry;
use flowloom_app::definitions::catalog::Catalog;
use flowloom_app::definitions::stored::is_definition_id;
use flowloom_app::keys::Scope;
use flowloom_core::code::Code;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{
    ChangeResult, ChangedDefinition, DefinitionChange, DefinitionCondition, DefinitionKey, DefinitionKind, Store,
};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};

/// Selects the user who owns the definitions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OwnerQuery {
    /// User who owns the definitions. A key that belongs to a user determines the user itself. If neither is given, the
    /// definitions shared by everyone.
    #[serde(default)]
    pub(crate) user: Option<String>,
}

/// The key of a definition that the caller may change.
pub(crate) fn writable_key(
    caller: &Caller,
    user: Option<String>,
    kind: DefinitionKind,
    id: &str,
) -> ApiResult<DefinitionKey> {
    Ok(DefinitionKey { user: writable_user(caller, user, id)?, kind, id: id.to_owned() })
}

/// The user who owns what the caller stores under an id. Fails with `RequestInvalid` if the id is malformed.
pub(crate) fn writable_user(caller: &Caller, user: Option<String>, id: &str) -> ApiResult<String> {
    caller.require_scope(Scope::Write)?;
    check_id(id)?;
    caller.resolve_user(user)
}

/// Fails with `RequestInvalid` if an id is malformed.
pub(crate) fn check_id(id: &str) -> ApiResult<()> {
    match is_definition_id(id) {
        true => Ok(()),
        false => {
            let message = format!("{id:?} is not a valid id; ids have up to 256 letters, digits and -_.:");
            Err(Problem::new(Code::RequestInvalid, message))
        }
    }
}

/// The definition that a request changes, and the content that it must have.
pub(crate) struct ChangeTarget {
    pub(crate) key: DefinitionKey,
    pub(crate) condition: DefinitionCondition,
}

impl From<DefinitionKey> for ChangeTarget {
    fn from(key: DefinitionKey) -> ChangeTarget {
        ChangeTarget { key, condition: DefinitionCondition::default() }
    }
}

/// Applies one change under a condition.
pub(crate) async fn apply_change(
    store: &Store,
    change: DefinitionChange,
    condition: DefinitionCondition,
    caller: &Caller,
) -> ApiResult<ChangedDefinition> {
    let (changes, now) = (vec![change], SystemClock.now_ms());
    let changed = store.change_definitions_if(changes, condition, &caller.to_actor(), now).await?;
    Ok(changed.into_iter().next().unwrap_or(ChangedDefinition { result: ChangeResult::Missing, row: None }))
}

/// Stored definitions, of which blocks are changed through their registry.
#[derive(Clone)]
pub(crate) struct DefinitionStore {
    pub(crate) store: Arc<Store>,
    pub(crate) blocks: Arc<BlockRegistry>,
}

/// Deletes a definition. Fails with `NotThere` if there is none.
pub(crate) async fn delete_definition(
    stored: &DefinitionStore,
    target: impl Into<ChangeTarget>,
    caller: &Caller,
) -> ApiResult<()> {
    let ChangeTarget { key, condition } = target.into();
    let (what, id) = (key.kind.name(), key.id.clone());
    if key.kind == DefinitionKind::Block {
        return Ok(stored.blocks.remove_block(&key.user, &key.id, condition, &caller.to_actor()).await?);
    }
    match apply_change(&stored.store, DefinitionChange::Delete(key), condition, caller).await?.result {
        ChangeResult::Missing => Err(Problem::not_found(what, &id)),
        _ => Ok(()),
    }
}

/// Fails with `NotMine` if the id belongs to a file of the served folder.
pub(crate) async fn reject_folder_file(catalog: &Arc<Catalog>, id: &str) -> ApiResult<()> {
    let (catalog, wanted) = (catalog.clone(), id.to_owned());
    let found = crate::blocking::run_blocking(move || catalog.find_file(&wanted)).await?;
    match found.as_ref().and_then(|definition| definition.file_path()) {
        Some(file) => {
            let message = format!("the workflow {id} is the file {file} of the served folder; change it there");
            Err(Problem::new(Code::NotMine, message))
        }
        None => Ok(()),
    }
}
