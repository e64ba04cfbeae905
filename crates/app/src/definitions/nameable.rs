//! The names that a definition can use besides its own: functions, models, blocks, agents and workflows. Editors
//! propose it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_core::json::parse_value;
use flowloom_core::value::Value;
use flowloom_formats::markdown::{FLOWS_FOLDER, PROMPTS_FOLDER};
use flowloom_formats::{graph, list_built_in_functions, pipeline};
use flowloom_store::{DefinitionKind, DefinitionRow, Store};

use super::agents_above::list_folders_above;
use super::find::find_named;
use super::folder::{derive_file_id, find_definition_id, id_from_path, list_files};
use super::source::Loader;
use super::stored::list_definitions;
use crate::config::Config;
use crate::config::functions::to_value;
use crate::error::AppError;
use crate::tools::descriptor::ToolDescriptor;
use crate::wiring::build_default_models;

/// The names of folders of agents.
pub const AGENTS_FOLDERS: [&str; 2] = ["agents", "Agents"];

/// The ends of the names of texts that can be included.
const TEXT_EXTENSIONS: [&str; 2] = [".mdx", ".md"];

/// A thing that a definition can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nameable {
    /// Its name.
    pub name: String,
    /// A short description.
    pub description: String,
    /// The inputs of a block or of a function.
    pub inputs: Vec<Nameable>,
    /// The constants of a function's action in Markdown workflows.
    pub helpers: Vec<Nameable>,
}

/// The things that a definition can name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameableThings {
    /// Built-in and configured functions.
    pub functions: Vec<Nameable>,
    /// Aliases, local models, and models whose prices are known.
    pub models: Vec<Nameable>,
    /// Built-in blocks, and those in files next to the definition.
    pub blocks: Vec<Nameable>,
    /// Configured agents, and those in folders next to the definition and above it.
    pub agents: Vec<Nameable>,
    /// The other definitions of the folder, by id.
    pub workflows: Vec<Nameable>,
    /// Configured secrets.
    pub secrets: Vec<Nameable>,
    /// Texts that a Markdown definition can include.
    pub texts: Vec<Nameable>,
}

impl Nameable {
    fn new(name: impl Into<String>, description: impl Into<String>) -> Nameable {
        Nameable { name: name.into(), description: description.into(), inputs: Vec::new(), helpers: Vec::new() }
    }
}

impl NameableThings {
    /// The names that the definition at `path` can use. Reads the folders next to it.
    pub fn collect(config: &Config, path: &Path) -> NameableThings {
        let folder = path.parent().unwrap_or(Path::new(""));
        NameableThings {
            functions: list_functions(config),
            models: list_models(config),
            blocks: list_blocks(folder),
            agents: list_agents(config, path),
            workflows: list_workflows(folder, path),
            secrets: list_secrets(config),
            texts: list_texts(folder, path),
        }
    }
}

impl NameableThings {
    /// The names that a definition of `user` can use on a server: those that are configured, and those that are stored
    /// for the user or for everyone. `workflows` are the ids of the catalog. Fails if the store cannot be read.
    pub fn of_user(
        store: &Store,
        config: &Config,
        user: &str,
        workflows: Vec<String>,
    ) -> Result<NameableThings, AppError> {
        let stored = |kind| list_definitions(store, user, kind);
        let mut blocks: Vec<Nameable> = stored(DefinitionKind::Block)?.iter().map(describe_stored).collect();
        for block in pipeline::built_in_blocks().iter().map(describe_block) {
            if !blocks.iter().any(|known| known.name == block.name) {
                blocks.push(block);
            }
        }
        let configured = config.agents.keys().map(|name| Nameable::new(name, "configured"));
        let agents = stored(DefinitionKind::Agent)?;
        Ok(NameableThings {
            functions: list_functions(config),
            models: list_models(config),
            blocks,
            agents: configured.chain(agents.iter().map(describe_stored)).collect(),
            workflows: workflows.into_iter().map(|id| Nameable::new(id, "")).collect(),
            secrets: list_secrets(config),
            texts: Vec::new(),
        })
    }
}

/// A stored block or agent, by its id.
fn describe_stored(row: &DefinitionRow) -> Nameable {
    let value = parse_value(&row.content).unwrap_or_default();
    let description = value.get("description").and_then(Value::as_str).unwrap_or_default();
    Nameable { inputs: list_block_inputs(&value), ..Nameable::new(&row.key.id, description) }
}

fn describe_block(block: &Value) -> Nameable {
    let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Nameable { inputs: list_block_inputs(block), ..Nameable::new(text("id"), text("description")) }
}

/// The inputs of a block, each with its type and whether it is required.
pub fn list_block_inputs(block: &Value) -> Vec<Nameable> {
    block.get("input_schema").map(list_properties).unwrap_or_default()
}

/// The properties of a schema, each with its type and whether it is required.
fn list_properties(schema: &Value) -> Vec<Nameable> {
    let required = schema.get("required").and_then(Value::as_list).unwrap_or_default();
    let describe = |(name, field): (&Arc<str>, &Value)| {
        let is_required = required.iter().any(|one| one.as_str() == Some(&**name)) && field.get("default").is_none();
        let kind = field.get("type").and_then(Value::as_str).map(str::to_owned);
        let parts: Vec<String> = kind.into_iter().chain(is_required.then(|| "required".to_owned())).collect();
        Nameable::new(&**name, parts.join(", "))
    };
    let properties = schema.get("properties").and_then(Value::as_map);
    properties.into_iter().flat_map(|properties| properties.iter()).map(describe).collect()
}

fn list_functions(config: &Config) -> Vec<Nameable> {
    let own = config.functions.iter().map(|(name, function)| {
        let place = function.url.as_ref().or(function.workflow.as_ref());
        let inputs = function.parameters.as_ref().map(|schema| list_properties(&to_value(schema)));
        let helpers = function.helpers.keys().map(|helper| Nameable::new(helper, "")).collect();
        let description = function.description.as_ref().or(place).cloned().unwrap_or_default();
        Nameable { inputs: inputs.unwrap_or_default(), helpers, ..Nameable::new(name, description) }
    });
    let built_in = list_built_in_functions().into_iter();
    let built_in = built_in.filter(|(name, _)| !config.functions.contains_key(name));
    own.chain(built_in.map(|(name, description)| Nameable::new(name, description))).collect()
}

fn list_models(config: &Config) -> Vec<Nameable> {
    let models = build_default_models(config);
    let aliases = config.aliases.iter().map(|(alias, model)| Nameable::new(alias, format!("alias of {model}")));
    let local = models.list_local_models().into_iter().map(|model| Nameable::new(model, "on this machine"));
    let priced = flowloom_models::list_priced_models().into_iter().map(|model| Nameable::new(model, ""));
    let mut all: Vec<Nameable> = aliases.chain(local).collect();
    let default = config.default_model.value.iter().map(|model| Nameable::new(model, "the default model"));
    for model in default.chain(priced) {
        if !all.iter().any(|known| known.name == model.name) {
            all.push(model);
        }
    }
    all
}

fn list_blocks(folder: &Path) -> Vec<Nameable> {
    let files = list_entries(&folder.join("blocks")).into_iter().filter(|name| name.ends_with(".json"));
    let read = |name: String| {
        let text = std::fs::read_to_string(folder.join("blocks").join(name)).ok()?;
        parse_value(&text).ok()
    };
    let mut all: Vec<Nameable> = files.filter_map(read).map(|block| describe_block(&block)).collect();
    all.extend(pipeline::built_in_blocks().iter().map(describe_block));
    all.retain(|block| !block.name.is_empty());
    all
}

/// The configured agents, and those in the folders of agents next to the definition and above it, each once.
fn list_agents(config: &Config, path: &Path) -> Vec<Nameable> {
    let mut all: Vec<Nameable> = config.agents.keys().map(|name| Nameable::new(name, "configured")).collect();
    let own = path.parent().unwrap_or(Path::new("")).to_owned();
    let above = list_folders_above(path, &config.project.root).into_iter().map(|folder| folder.path);
    for (levels, place) in std::iter::once(own).chain(above).enumerate() {
        for parent in AGENTS_FOLDERS {
            let folder = place.join(parent);
            for name in list_entries(&folder).into_iter().filter(|name| folder.join(name).is_dir()) {
                let detail = format!("folder {}{parent}/{name}/", "../".repeat(levels));
                let id = read_agent_id(&folder.join(&name)).unwrap_or(name);
                // Some file systems show one folder under two spellings.
                if !all.iter().any(|known| known.name == id) {
                    all.push(Nameable::new(id, detail));
                }
            }
        }
    }
    all
}

/// The id of the agent of a folder; `None` if its settings have none.
fn read_agent_id(folder: &Path) -> Option<String> {
    let settings = std::fs::read_to_string(folder.join(graph::AGENT_SETTINGS_FILE)).ok()?;
    let settings = parse_value(&settings).ok()?;
    let id = graph::AGENT_ID_KEYS.iter().find_map(|key| settings.get(key)?.as_str());
    id.or_else(|| settings.get("name")?.as_str()).map(str::to_owned)
}

/// Maximum number of files of a folder that are compiled to find a tool.
const MAX_COMPILED_FILES: usize = 200;

/// The file of the workflow that the agent at `path` calls with a tool of this name: a file of its folder with this id or this
/// name as a tool, or else one of the project with this id; `None` if there is none.
pub fn find_tool_file(config: &Config, path: &Path, tool: &str) -> Option<PathBuf> {
    let plain = tool.strip_prefix("@@").unwrap_or(tool);
    let folder = path.parent().unwrap_or(Path::new(""));
    let in_folder = |id: &str| list_folder_files(folder, path).find(|file| derive_file_id(folder, file) == id);
    let found = in_folder(plain).or_else(|| in_folder(plain.strip_prefix("flow_")?));
    let loader = Loader::new(config);
    let is_tool = |file: &PathBuf| {
        let Some(plan) = loader.compile(file).compiled.plan else { return false };
        let id = find_definition_id(Some(&plan), folder, file);
        ToolDescriptor::new(&id, Arc::new(plan)).declaration.name == plain
    };
    let found = found.or_else(|| list_folder_files(folder, path).take(MAX_COMPILED_FILES).find(is_tool));
    found.or_else(|| find_named(config, Path::new(plain)).ok().filter(|file| file.is_file() && file != path))
}

/// The files of the folder itself: a folder of thousands would delay every answer.
fn list_folder_files(folder: &Path, own: &Path) -> impl Iterator<Item = PathBuf> {
    list_files(folder).into_iter().filter(move |file| file.parent() == Some(folder) && file != own)
}

fn list_workflows(folder: &Path, own: &Path) -> Vec<Nameable> {
    let files = list_folder_files(folder, own);
    let id = |file: PathBuf| {
        let below = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
        Nameable::new(id_from_path(&below), below)
    };
    files.map(id).collect()
}

/// The configured secrets. Those that only the environment has are not shown.
fn list_secrets(config: &Config) -> Vec<Nameable> {
    let describe =
        |hosts: &[String]| if hosts.is_empty() { String::new() } else { format!("for {}", hosts.join(", ")) };
    config.secrets.iter().map(|(name, settings)| Nameable::new(name, describe(&settings.hosts))).collect()
}

/// The texts that a Markdown definition in a folder can include, without their extensions.
fn list_texts(folder: &Path, own: &Path) -> Vec<Nameable> {
    let mut places = vec![folder.to_owned(), folder.join(PROMPTS_FOLDER)];
    places.extend(folder.parent().filter(|_| folder.ends_with(FLOWS_FOLDER)).map(|parent| parent.join(PROMPTS_FOLDER)));
    let mut texts: Vec<Nameable> = Vec::new();
    let mut known = HashSet::new();
    for place in places {
        for file in list_entries(&place).into_iter().filter(|file| place.join(file) != own) {
            let Some(stem) = TEXT_EXTENSIONS.iter().find_map(|end| file.strip_suffix(end)) else { continue };
            if known.insert(stem.to_owned()) {
                texts.push(Nameable::new(
                    stem,
                    place.strip_prefix(folder).unwrap_or(&place).join(&file).display().to_string(),
                ));
            }
        }
    }
    texts
}

/// The names in a folder, sorted; none if it cannot be read.
fn list_entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
