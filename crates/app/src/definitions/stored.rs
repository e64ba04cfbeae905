//! Stored definitions, for the server and for `sync`: parses uploads, compiles them with the stored blocks, agents and
//! tools, and writes them to the store.

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::json::parse_value;
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::{compile, graph, pipeline};
use flowloom_store::{DefinitionKey, DefinitionRow, Kind, NewDefinition, Origin, SHARED, Store};
use serde::{Deserialize, Serialize};

use crate::definitions::bundle::Offered;
use crate::definitions::source::{Loader, Source, read_agents};

/// Maximum length of an id, in characters.
const ID: usize = 256;

/// Maximum number of files of one definition.
const FILES: usize = 1000;

/// The stored content of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Path of the entry file in `files`.
    pub entry: String,
    /// The entry and the files that belong to it, by relative path.
    pub files: BTreeMap<String, String>,
    /// The format, unless it is to be detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
}

impl Content {
    /// A definition of one file.
    pub fn single(entry: &str, text: String) -> Content {
        Content { entry: entry.to_owned(), files: BTreeMap::from([(entry.to_owned(), text)]), format: None }
    }

    /// An agent definition of one file.
    pub fn agent(text: String) -> Content {
        Content { format: Some(flowloom_formats::agent::FORMAT), ..Content::single("agent.json", text) }
    }

    /// Parses stored content. Fails with `StoreCorrupt`.
    pub fn parse(text: &str) -> Result<Content, StepError> {
        serde_json::from_str(text)
            .map_err(|error| StepError::new(Code::StoreCorrupt, format!("a definition is damaged: {error}")))
    }

    /// The JSON that is stored.
    pub fn text(&self) -> Result<String, StepError> {
        serde_json::to_string(self).map_err(|error| StepError::new(Code::StoreFailed, error.to_string()))
    }

    /// The text of the entry file.
    pub fn main(&self) -> &str {
        self.files.get(&self.entry).map_or("", String::as_str)
    }

    /// Rejects content with too many files, without its entry, or with paths that could leave the folder
    /// (`RequestInvalid`).
    pub fn check(&self) -> Result<(), StepError> {
        let refuse = |message: String| Err(StepError::new(Code::RequestInvalid, message));
        if self.files.len() > FILES {
            return refuse(format!("a definition may have at most {FILES} files"));
        }
        if !self.files.contains_key(&self.entry) {
            return refuse(format!("the entry {:?} is not among the files", self.entry));
        }
        let is_odd = |path: &str| path.split('/').any(|part| matches!(part, "" | "." | "..")) || path.contains('\\');
        match self.files.keys().find(|path| is_odd(path)) {
            Some(path) => refuse(format!("{path:?} is not a relative path without empty, \".\" or \"..\" parts")),
            None => Ok(()),
        }
    }
}

/// A compiled workflow.
pub struct Compiled {
    /// The definition with the files that were read for it.
    pub source: Source,
    /// The stored definitions it depends on.
    pub(crate) parts: Vec<Looked>,
}

/// A stored definition that a workflow depends on, and its hash at compile time; `None` if it did not exist.
pub(crate) struct Looked {
    pub kind: Kind,
    pub id: String,
    pub found: Option<String>,
}

/// Compiles a workflow for a user, with the blocks, agents and tools that are the user's or everyone's.
pub fn compile_for(store: &Store, loader: &Loader<'_>, holder: &str, content: &Content) -> Result<Compiled, StepError> {
    let mut sources = loader.surroundings(&Offered::default()).with_files(BTreeMap::new());
    sources.files = content.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
    let format = loader.format.or(content.format);
    let mut parts: Vec<Looked> = Vec::new();
    let mut compiled = compile(&content.entry, &sources, format);
    let limit = loader.config.limits.source_bytes;
    if compiled.format == Some(graph::FORMAT) && read_agents(limit, &mut sources) {
        compiled = compile(&content.entry, &sources, format);
    }
    let compiled = loop {
        let before = sources.files.len();
        for path in &compiled.needs {
            let Some((kind, id)) = part(path) else { continue };
            if parts.iter().any(|part| part.kind == kind && part.id == id) {
                continue;
            }
            let row = find(store, holder, kind, &id)?;
            parts.push(Looked { kind, id, found: row.as_ref().map(|row| row.hash.clone()) });
            if let Some(row) = row {
                sources.files.insert(path.clone(), row.content.into_bytes());
            }
        }
        if sources.files.len() == before {
            break compiled;
        }
        compiled = compile(&content.entry, &sources, format);
    };
    let source = Source::of_files(&content.entry, sources.files, compiled, Offered::default());
    Ok(Compiled { source, parts })
}

/// Finds the definition that is effective for a user: the user's own, or else everyone's.
pub fn find(store: &Store, holder: &str, kind: Kind, id: &str) -> Result<Option<DefinitionRow>, StepError> {
    let key = |holder: &str| DefinitionKey { holder: holder.to_owned(), kind, id: id.to_owned() };
    match store.definition(&key(holder))? {
        None if holder != SHARED => store.definition(&key(SHARED)),
        found => Ok(found),
    }
}

/// Lists the definitions of one kind that are effective for a user, sorted by id.
pub fn list(store: &Store, holder: &str, kind: Kind) -> Result<Vec<DefinitionRow>, StepError> {
    let shared = store.definitions(SHARED, kind)?;
    let mut all: BTreeMap<String, DefinitionRow> = shared.into_iter().map(|row| (row.key.id.clone(), row)).collect();
    if holder != SHARED {
        all.extend(store.definitions(holder, kind)?.into_iter().map(|row| (row.key.id.clone(), row)));
    }
    Ok(all.into_values().collect())
}

/// The stored definition that a missing file refers to.
fn part(path: &str) -> Option<(Kind, String)> {
    let below =
        |folder: &str| path.rsplit_once(folder).filter(|(before, _)| before.is_empty() || before.ends_with('/'));
    let places = [
        (Kind::Block, pipeline::BLOCKS, ".json"),
        (Kind::Agent, graph::AGENTS, "/jsonSchema.json"),
        (Kind::Tool, graph::TOOLS, ".json"),
    ];
    let named = |(kind, folder, end): (Kind, &str, &str)| {
        let id = below(folder)?.1.strip_suffix(end)?;
        is_id(id).then(|| (kind, id.to_owned()))
    };
    places.into_iter().find_map(named)
}

/// Whether the text is a valid definition id.
pub fn is_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    (1..=ID).contains(&id.len()) && id.chars().all(is_plain) && !id.starts_with('.')
}

/// Builds the stored form of a workflow.
pub fn workflow(
    key: DefinitionKey,
    content: &Content,
    compiled: &Compiled,
    origin: Origin,
) -> Result<NewDefinition, StepError> {
    let format = compiled.source.compiled.format.map(|format| format.name().to_owned());
    let uses = compiled.parts.iter().map(|part| (part.kind, part.id.clone())).collect();
    Ok(NewDefinition { key, format, content: content.text()?, origin, uses })
}

/// A stored step list as AgentOS lists it: `id` and `createdAt` come from the store, not from the file.
pub fn as_steps(row: &DefinitionRow) -> Result<Value, StepError> {
    let definition = parse_value(Content::parse(&row.content)?.main()).unwrap_or_default();
    let mut map = definition.as_map().cloned().unwrap_or_default();
    map.insert("id".into(), row.key.id.as_str().into());
    map.insert("createdAt".into(), (row.updated_at as i64).into());
    Ok(map.into())
}
