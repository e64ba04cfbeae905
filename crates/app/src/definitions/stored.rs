//! Stored definitions, for the server and for `sync`: parses uploads, compiles them with the stored blocks, agents and
//! tools, and writes them to the store.

use std::collections::{BTreeMap, HashSet};

use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::{compile, graph, pipeline, steps};
use flowloom_store::{DefinitionKey, DefinitionKind, DefinitionRow, NewDefinition, Origin, SHARED_USER, Store};
use serde::{Deserialize, Serialize};

use super::error::DefinitionError;
use crate::definitions::bundle::AvailableTools;
use crate::definitions::source::{LoadedDefinition, Loader, read_agents};
use crate::error::AppError;

/// Maximum length of an id, in characters.
const MAX_ID_CHARS: usize = 256;

/// Maximum number of files of one definition.
pub(super) const MAX_DEFINITION_FILES: usize = 1000;

/// The tenant who stored or sent a definition; `None` if it is the operator's own. What a step of a run stored is
/// never the operator's: a model may have written it.
pub fn find_tenant(row: &DefinitionRow) -> Option<String> {
    let is_operators = row.key.user == SHARED_USER && row.origin != Origin::Function;
    (!is_operators).then(|| row.key.user.clone())
}

/// The stored content of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DefinitionContent {
    /// Path of the entry file in `files`.
    pub entry: String,
    /// The entry and the files that belong to it, by relative path.
    pub files: BTreeMap<String, String>,
    /// The format, unless it is to be detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
}

impl DefinitionContent {
    /// A definition of one file.
    pub fn single(entry: &str, text: String) -> DefinitionContent {
        DefinitionContent { entry: entry.to_owned(), files: BTreeMap::from([(entry.to_owned(), text)]), format: None }
    }

    /// An agent definition of one file.
    pub fn agent(text: String) -> DefinitionContent {
        DefinitionContent {
            format: Some(flowloom_formats::agent::FORMAT),
            ..DefinitionContent::single("agent.json", text)
        }
    }

    /// Parses stored content. Fails with `StoreCorrupt`.
    pub fn parse(text: &str) -> Result<DefinitionContent, DefinitionError> {
        serde_json::from_str(text).map_err(DefinitionError::Damaged)
    }

    /// The JSON that is stored. Fails if it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, DefinitionError> {
        serde_json::to_string(self).map_err(DefinitionError::Unserializable)
    }

    /// The text of the entry file.
    pub fn entry_text(&self) -> &str {
        self.files.get(&self.entry).map_or("", String::as_str)
    }

    /// Rejects content with too many files, without its entry, or with paths that could leave the folder
    /// (`RequestInvalid`).
    pub fn validate(&self) -> Result<(), DefinitionError> {
        if self.files.len() > MAX_DEFINITION_FILES {
            return Err(DefinitionError::TooManyFiles);
        }
        if !self.files.contains_key(&self.entry) {
            return Err(DefinitionError::EntryMissing(self.entry.clone()));
        }
        let is_odd = |path: &str| path.split('/').any(|part| matches!(part, "" | "." | "..")) || path.contains('\\');
        match self.files.keys().find(|path| is_odd(path)) {
            Some(path) => Err(DefinitionError::UnsafePath(path.clone())),
            None => Ok(()),
        }
    }
}

/// A compiled workflow.
pub struct CompiledDefinition {
    /// The definition with the files that were read for it.
    pub source: LoadedDefinition,
    /// The stored definitions it depends on.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A stored definition that a workflow depends on, and its hash at compile time; `None` if it did not exist.
pub(crate) struct Dependency {
    pub kind: DefinitionKind,
    pub id: String,
    pub hash: Option<String>,
}

/// Compiles a workflow for a user, with the blocks, agents and tools that are the user's or everyone's. Fails if the
/// store cannot be read; errors of the definition are diagnostics.
pub fn compile_for_user(
    store: &Store,
    loader: &Loader<'_>,
    user: &str,
    content: &DefinitionContent,
) -> Result<CompiledDefinition, AppError> {
    compile_with_tools(store, loader, user, content, AvailableTools::default())
}

/// Compiles a workflow like [`compile_for_user`], with the tools that are available to its models. Fails if the store
/// cannot be read.
pub(crate) fn compile_with_tools(
    store: &Store,
    loader: &Loader<'_>,
    user: &str,
    content: &DefinitionContent,
    available: AvailableTools,
) -> Result<CompiledDefinition, AppError> {
    let mut sources = loader.source_settings(&available).with_files(BTreeMap::new());
    sources.files = content.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
    let format = loader.format.or(content.format);
    let mut parts: Vec<Dependency> = Vec::new();
    let mut looked_up = HashSet::new();
    let mut compiled = compile(&content.entry, &sources, format);
    let reader = loader.file_reader();
    if compiled.format == Some(graph::FORMAT) && read_agents(reader, &mut sources) {
        compiled = compile(&content.entry, &sources, format);
    }
    let compiled = loop {
        let before = sources.files.len();
        for path in &compiled.missing_files {
            let Some((kind, id)) = parse_dependency(path) else { continue };
            // A definition with more parts than that is reported with the parts that were not looked up.
            if parts.len() >= MAX_DEFINITION_FILES || !looked_up.insert((kind, id.clone())) {
                continue;
            }
            let row = find_definition(store, user, kind, &id)?;
            parts.push(Dependency { kind, id, hash: row.as_ref().map(|row| row.hash.clone()) });
            if let Some(row) = row {
                sources.files.insert(path.clone(), row.content.into_bytes());
            }
        }
        if sources.files.len() == before {
            break compiled;
        }
        compiled = compile(&content.entry, &sources, format);
    };
    let source = LoadedDefinition::of_files(&content.entry, sources.files, compiled, available);
    Ok(CompiledDefinition { source, dependencies: parts })
}

/// Finds the definition that is effective for a user: the user's own, or else everyone's. Fails if the store cannot be
/// read.
pub fn find_definition(
    store: &Store,
    user: &str,
    kind: DefinitionKind,
    id: &str,
) -> Result<Option<DefinitionRow>, AppError> {
    let key = |user: &str| DefinitionKey { user: user.to_owned(), kind, id: id.to_owned() };
    match store.get_definition(&key(user))? {
        None if user != SHARED_USER => Ok(store.get_definition(&key(SHARED_USER))?),
        found => Ok(found),
    }
}

/// Lists the definitions of one kind that are effective for a user, sorted by id. Fails if the store cannot be read.
pub fn list_definitions(store: &Store, user: &str, kind: DefinitionKind) -> Result<Vec<DefinitionRow>, AppError> {
    let shared = store.list_definitions(SHARED_USER, kind)?;
    let mut all: BTreeMap<String, DefinitionRow> = shared.into_iter().map(|row| (row.key.id.clone(), row)).collect();
    if user != SHARED_USER {
        all.extend(store.list_definitions(user, kind)?.into_iter().map(|row| (row.key.id.clone(), row)));
    }
    Ok(all.into_values().collect())
}

/// The stored definition that a missing file refers to.
fn parse_dependency(path: &str) -> Option<(DefinitionKind, String)> {
    let below =
        |folder: &str| path.rsplit_once(folder).filter(|(before, _)| before.is_empty() || before.ends_with('/'));
    let places = [
        (DefinitionKind::Block, pipeline::BLOCKS_FOLDER, ".json"),
        (DefinitionKind::Agent, graph::AGENTS_FOLDER, "/jsonSchema.json"),
        (DefinitionKind::Tool, graph::TOOLS_FOLDER, ".json"),
    ];
    let named = |(kind, folder, end): (DefinitionKind, &str, &str)| {
        let id = below(folder)?.1.strip_suffix(end)?;
        is_definition_id(id).then(|| (kind, id.to_owned()))
    };
    places.into_iter().find_map(named)
}

/// Whether the text is a valid definition id.
pub fn is_definition_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.:".contains(c);
    (1..=MAX_ID_CHARS).contains(&id.len()) && id.chars().all(is_plain) && !id.starts_with('.')
}

/// Builds the stored form of a workflow. Fails if the content cannot be written as JSON.
pub fn new_definition(
    key: DefinitionKey,
    content: &DefinitionContent,
    compiled: &CompiledDefinition,
    origin: Origin,
) -> Result<NewDefinition, AppError> {
    let format = compiled.source.compiled.format.map(|format| format.name().to_owned());
    let uses = compiled.dependencies.iter().map(|part| (part.kind, part.id.clone())).collect();
    Ok(NewDefinition { key, format, content: content.to_json()?, origin, uses })
}

/// A stored step list as AgentOS lists it: `id` and `createdAt` come from the store, not from the file. Fails if the
/// stored content is damaged.
pub fn to_agentos_json(row: &DefinitionRow) -> Result<Value, AppError> {
    let mut map = steps::read_definition(DefinitionContent::parse(&row.content)?.entry_text());
    map.insert("id".into(), row.key.id.as_str().into());
    map.insert("createdAt".into(), (row.updated_at as i64).into());
    Ok(map.into())
}
