//! Synchronises a whole folder of workflows: determines which are new, changed, unchanged or deleted.

use std::collections::HashSet;
use std::path::Path;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Actor, ChangeResult, DefinitionChange, DefinitionKey, DefinitionKind, Origin, Store};
use serde::{Deserialize, Serialize};

use super::error::DefinitionError;
use super::stored::{DefinitionContent, compile_for_user, new_definition};
use crate::definitions::source::{LoadedDefinition, Loader, problem_of_whole_file};
use crate::definitions::{folder, found};
use crate::error::AppError;

/// A workflow of the folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SyncItem {
    /// Id of the workflow.
    pub id: String,
    #[serde(flatten)]
    content: DefinitionContent,
}

/// The workflows of a folder.
#[derive(Clone, Debug, Serialize)]
pub struct SyncFolder {
    /// The workflows.
    pub items: Vec<SyncItem>,
    /// Paths of the other files that may have been workflows, relative to the folder. What was stored from one of them is not
    /// deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
}

/// Ids of the workflows by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncOutcome {
    /// Workflows that are new.
    pub created: Vec<String>,
    /// Workflows that have changed.
    pub updated: Vec<String>,
    /// Workflows that are the same.
    pub unchanged: Vec<String>,
    /// Workflows that were removed.
    pub deleted: Vec<String>,
    /// Those of the changed ones that were not stored by a synchronization, but by hand or through the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<String>,
}

/// The changes to apply and their outcome.
pub struct SyncPlan {
    changes: Vec<DefinitionChange>,
    outcome: SyncOutcome,
}

/// Reads the workflows of a folder with all files that belong to them. Returns those with errors separately, among them
/// workflows that have the same id.
pub fn read_folder(root: &Path, loader: &Loader<'_>) -> (SyncFolder, Vec<LoadedDefinition>) {
    let (mut found, mut others, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for path in folder::list_files(root) {
        let source = loader.compile(&path);
        if !found::is_definition(&path, &source, loader.config) {
            others.push(path.strip_prefix(root).unwrap_or(&path).display().to_string());
            continue;
        }
        match build_item(root, &source).filter(|_| !source.is_refused()) {
            Some(item) => found.push((item, source)),
            None => refused.push(source),
        }
    }
    let ids: Vec<(&str, &str)> = found.iter().map(|(item, source)| (item.id.as_str(), source.name())).collect();
    let mut shared = folder::find_shared_ids(&ids);
    let mut items = Vec::new();
    for (index, (item, mut source)) in found.into_iter().enumerate() {
        match shared.remove(&index) {
            None => items.push(item),
            Some(problem) => {
                source.compiled.diagnostics.push(problem);
                refused.push(source);
            }
        }
    }
    items.sort_by(|a, b| a.id.cmp(&b.id));
    (SyncFolder { items, others }, refused)
}

/// Stores the workflow in a file, with the files that belong to it, under its own id or else its file name. Returns
/// that id, or the source with its diagnostics if it has errors. Fails if the user would have too many definitions, or
/// if the store cannot be written.
pub async fn store_file(
    store: &Store,
    loader: &Loader<'_>,
    user: &str,
    file: &Path,
    by: &Actor,
) -> Result<Result<String, LoadedDefinition>, AppError> {
    let source = loader.compile(file);
    let root = file.parent().unwrap_or(Path::new(""));
    let Some(item) = build_item(root, &source).filter(|_| source.compiled.plan.is_some()) else {
        return Ok(Err(source));
    };
    let compiled = compile_for_user(store, loader, user, &item.content)?;
    if compiled.source.is_refused() {
        return Ok(Err(compiled.source));
    }
    let key = DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Workflow, id: item.id.clone() };
    let new = new_definition(key, &item.content, &compiled, Origin::Api)?;
    store.change_definitions(vec![DefinitionChange::Put(new)], by, SystemClock.now_ms()).await?;
    Ok(Ok(item.id))
}

/// Builds an item from a compiled file of a folder; `None` if the file is outside the folder.
fn build_item(root: &Path, source: &LoadedDefinition) -> Option<SyncItem> {
    let below = |path: &str| Path::new(path).strip_prefix(root).map(|path| path.display().to_string()).ok();
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let files = source.files().iter().filter_map(|(path, bytes)| Some((below(path)?, text(bytes)))).collect();
    let entry = below(source.name())?;
    let own = source.compiled.plan.as_ref().and_then(|plan| plan.id.clone());
    let id = own.unwrap_or_else(|| folder::id_from_path(&entry));
    Some(SyncItem { id, content: DefinitionContent { entry, files, format: None } })
}

/// Plans the changes for the workflows of a folder. Returns the diagnostics as JSON if any of them has errors, or if the file of
/// one that would be deleted is still there. Fails if two workflows have the same id, if the content of one is invalid, or if the
/// store cannot be read.
pub fn plan_sync(
    store: &Store,
    loader: &Loader<'_>,
    user: &str,
    folder: SyncFolder,
    prune: bool,
) -> Result<Result<SyncPlan, Vec<serde_json::Value>>, AppError> {
    let key = |id: &str| DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Workflow, id: id.to_owned() };
    let mut planned = SyncPlan { changes: Vec::new(), outcome: SyncOutcome::default() };
    let mut problems = Vec::new();
    let mut ids = HashSet::new();
    for item in &folder.items {
        item.content.validate()?;
        if !ids.insert(item.id.as_str()) {
            return Err(DefinitionError::SharedId(item.id.clone()).into());
        }
        let compiled = compile_for_user(store, loader, user, &item.content)?;
        if compiled.source.is_refused() {
            problems.extend(compiled.source.problems());
            continue;
        }
        let new = new_definition(key(&item.id), &item.content, &compiled, Origin::Sync)?;
        let hash = flowloom_core::Hash::of_bytes(new.content.as_bytes()).to_string();
        let list = match store.get_definition(&new.key)? {
            None => &mut planned.outcome.created,
            Some(row) if row.hash == hash => &mut planned.outcome.unchanged,
            Some(row) => {
                if row.origin != Origin::Sync {
                    planned.outcome.replaced.push(item.id.clone());
                }
                &mut planned.outcome.updated
            }
        };
        list.push(item.id.clone());
        planned.changes.push(DefinitionChange::Put(new));
    }
    if prune {
        let stored_rows = store.list_definitions(user, DefinitionKind::Workflow)?.into_iter();
        let others: HashSet<&str> = folder.others.iter().map(String::as_str).collect();
        for row in stored_rows.filter(|row| row.origin == Origin::Sync && !ids.contains(row.key.id.as_str())) {
            let entry = DefinitionContent::parse(&row.content)?.entry;
            if others.contains(entry.as_str()) {
                problems.push(describe_left_file(&row.key.id, &entry));
                continue;
            }
            planned.outcome.deleted.push(row.key.id.clone());
            planned.changes.push(DefinitionChange::Delete(row.key));
        }
    }
    Ok(if problems.is_empty() { Ok(planned) } else { Err(problems) })
}

/// The error of a workflow that would be deleted although its file is there: a merge may have broken it.
fn describe_left_file(id: &str, entry: &str) -> serde_json::Value {
    let message = format!("{entry} is no workflow any more, and the stored workflow {id} is from it");
    let problem = Diagnostic::new_error(Code::UnknownFormat, entry, Span::default(), message)
        .with_help("repair the file, or remove it to delete the workflow");
    problem_of_whole_file(&problem)
}

/// Applies a plan in one transaction; a dry run only returns the outcome. Fails if another definition uses one that is
/// deleted, if a user would have too many, or if the store cannot be written.
pub async fn apply_plan(store: &Store, planned: SyncPlan, is_dry: bool, by: &Actor) -> Result<SyncOutcome, AppError> {
    if !is_dry {
        let done: Vec<ChangeResult> = store.change_definitions(planned.changes, by, SystemClock.now_ms()).await?;
        debug_assert!(!done.contains(&ChangeResult::Missing), "every definition planned for deletion existed");
    }
    Ok(planned.outcome)
}
