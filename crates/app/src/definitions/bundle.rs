//! A run's bundle: everything that compiling and running its definition read from files and configuration. Resume,
//! replay and fork read the bundle, never the folder.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::diagnostic::{Diagnostic, LineTable};
use flowloom_core::path::Path;
use flowloom_core::plan::{Format, Plan, isolate_step};
use flowloom_formats::agent::AvailableFlow;
use flowloom_formats::{Sources, StopFlag, compile};
use flowloom_runtime::effects::DefinitionIdentity;
use serde::{Deserialize, Serialize};

use super::error::DefinitionError;
use super::sources::{ServerTools, SourceSettings};
use crate::config::mcp::McpSettings;
use crate::config::{AgentSettings, Config, FunctionSettings, ToolSettings};

/// Tools available to models that are not part of the definition.
#[derive(Clone, Debug, Default)]
pub struct AvailableTools {
    /// Tool lists of MCP servers, by server name.
    pub servers: ServerTools,
    /// The workflows available to an agent; `None` if the definition is not an agent, or before they are loaded.
    pub flows: Option<WorkflowTools>,
}

/// The workflows available to an agent, by id.
pub(crate) type WorkflowTools = BTreeMap<String, WorkflowTool>;

/// A workflow available to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkflowTool {
    /// The tool declaration that the model sees.
    pub declaration: ToolDeclaration,
    /// The bundle of its runs.
    pub bundle: Bundle,
}

/// The content of a bundle, stored as JSON under its hash.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// Path of the definition in `files`.
    pub entry: String,
    /// The definition's format.
    pub format: Format,
    /// File contents by the path that definitions and configuration use.
    pub files: BTreeMap<String, String>,
    /// Configured functions by id.
    pub functions: BTreeMap<String, FunctionSettings>,
    /// Configured MCP servers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<String, McpSettings>,
    /// The tool lists of those servers, where the definition offers them to a model.
    #[serde(default, rename = "offered", skip_serializing_if = "BTreeMap::is_empty")]
    pub server_tools: ServerTools,
    /// The workflows that an agent may call as tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<WorkflowTools>,
    /// Tools granted to agents, by agent id.
    pub agents: BTreeMap<String, AgentSettings>,
    /// The model of steps that do not set one.
    pub model: Option<String>,
    /// Model aliases as (alias, model).
    pub aliases: Vec<(String, String)>,
    /// Whether dangling edges of a graph are ignored instead of rejected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lenient: bool,
    /// The server that provides the HTTP tools of a graph's agents.
    #[serde(default, skip_serializing_if = "ToolSettings::is_empty")]
    pub tools: ToolSettings,
    /// Folders of agents in `files`, by the agent's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agent_folders: BTreeMap<String, String>,
    /// The tenant who stored or sent the definition; `None` if it is the operator's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The only step that runs; `None` for the whole definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Path>,
    /// Whether a caller with a key chose values that the definition computes otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_steered: bool,
}

impl Bundle {
    /// Reads the text of a stored bundle. Fails if it is damaged.
    pub fn parse(text: &str) -> Result<Bundle, DefinitionError> {
        serde_json::from_str(text).map_err(DefinitionError::BundleDamaged)
    }

    /// The settings of the configuration, without a definition.
    pub(crate) fn from_config(config: &Config) -> Bundle {
        Bundle {
            entry: String::new(),
            format: flowloom_formats::steps::FORMAT,
            files: BTreeMap::new(),
            functions: config.functions.clone(),
            mcp: config.mcp.clone(),
            server_tools: ServerTools::new(),
            flows: None,
            agents: config.agents.clone(),
            model: config.default_model.value.clone(),
            aliases: config.aliases.clone(),
            lenient: false,
            agent_folders: AgentSettings::resolve_folders(&config.agents, &config.base_folder()),
            tools: config.tools.clone(),
            tenant: None,
            step: None,
            is_steered: false,
        }
    }

    /// Its settings, without its definition.
    pub(crate) fn copy_settings(&self) -> Bundle {
        Bundle {
            entry: String::new(),
            files: BTreeMap::new(),
            flows: None,
            tenant: None,
            step: None,
            is_steered: false,
            ..self.clone()
        }
    }

    /// The same bundle with the tools available to models.
    pub fn with_tools(self, available: &AvailableTools) -> Bundle {
        Bundle { server_tools: available.servers.clone(), flows: available.flows.clone(), ..self }
    }

    /// The owner and the file of the definition.
    pub(crate) fn definition_identity(&self) -> DefinitionIdentity {
        DefinitionIdentity {
            tenant: self.tenant.clone(),
            file: self.entry.clone(),
            id: None,
            is_steered: self.is_steered,
        }
    }

    /// The JSON to store; the same bundle always gives the same text. Fails if it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, DefinitionError> {
        serde_json::to_string(self).map_err(DefinitionError::Unserializable)
    }

    /// The input of the compiler: all files and names.
    pub fn to_sources(&self) -> Sources {
        let files = self.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
        self.to_sources_without_files().with_files(files)
    }

    /// The names that a definition under these settings may use.
    pub(crate) fn to_sources_without_files(&self) -> SourceSettings<'_> {
        SourceSettings {
            functions: &self.functions,
            mcp: &self.mcp,
            declared: &self.server_tools,
            flows: self.flows.as_ref().map(to_compiler_input),
            tools: &self.tools,
            agent_folders: self.agent_folders.clone(),
            is_lenient: self.lenient,
            source_bytes: u64::MAX,
            stop: StopFlag::default(),
        }
    }
}

/// The workflows in the form the compiler needs.
pub(crate) fn to_compiler_input(flows: &WorkflowTools) -> Vec<AvailableFlow> {
    let flow =
        |(id, flow): (&String, &WorkflowTool)| AvailableFlow { id: id.clone(), declaration: flow.declaration.clone() };
    flows.iter().map(flow).collect()
}

/// Compiles the bundle of a run. Fails with `StoreCorrupt` if the definition, which compiled when the run was created,
/// no longer does.
pub fn compile_bundle(bundle: &Bundle) -> Result<Arc<Plan>, DefinitionError> {
    try_compile(bundle).map_err(|errors| DefinitionError::BundleRejected(errors.into_iter().next().unwrap_or_default()))
}

/// Compiles a bundle that a person has changed. Fails with every error of the definition.
pub(crate) fn compile_changed_bundle(bundle: &Bundle) -> Result<Arc<Plan>, DefinitionError> {
    try_compile(bundle).map_err(DefinitionError::EditRejected)
}

/// The plan of a bundle, or the errors of its definition, each with its place.
fn try_compile(bundle: &Bundle) -> Result<Arc<Plan>, Vec<String>> {
    let compiled = compile(&bundle.entry, &bundle.to_sources(), Some(bundle.format));
    if let (Some(plan), Some(step)) = (&compiled.plan, &bundle.step) {
        return isolate_step(plan, step).map(Arc::new).map_err(|reason| vec![format!("{step}: {reason}")]);
    }
    compiled.plan.map(Arc::new).ok_or_else(|| {
        let errors = compiled.diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
        let place = |diagnostic: &Diagnostic| {
            let text = bundle.files.get(&diagnostic.file).map_or("", String::as_str);
            let position = LineTable::new(text).find_position(text, diagnostic.span.start);
            format!("{}:{position}: {}", diagnostic.file, diagnostic.message)
        };
        errors.map(place).collect()
    })
}
