//! A run's bundle: everything that compiling and running its definition read from files and configuration. Resume,
//! replay and fork read it, never the folder.

use std::collections::BTreeMap;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::plan::{Format, Plan};
use flowloom_core::request::ToolDeclaration;
use flowloom_formats::agent::OfferedFlow;
use flowloom_formats::{Sources, compile};
use serde::{Deserialize, Serialize};

use super::sources::{Declared, Surroundings};
use crate::config::mcp::Mcp;
use crate::config::{Agent, Function, Tools};

/// What models are offered that no definition has in it.
#[derive(Clone, Debug, Default)]
pub struct Offered {
    /// What servers said they have, by their names.
    pub servers: Declared,
    /// The workflows of an agent; `None` for what is no agent, and before they were looked for.
    pub flows: Option<Flows>,
}

/// The workflows that an agent is offered, by id.
pub(crate) type Flows = BTreeMap<String, Flow>;

/// A workflow that an agent is offered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// As the model sees it.
    pub declaration: ToolDeclaration,
    /// What its runs are made of.
    pub bundle: Bundle,
}

/// The content of a bundle, stored as JSON under its hash.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// Path of the definition in `files`.
    pub entry: String,
    /// Its format.
    pub format: Format,
    /// Texts by the path that definitions and configuration use.
    pub files: BTreeMap<String, String>,
    /// The user's functions.
    pub functions: BTreeMap<String, Function>,
    /// The user's MCP servers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<String, Mcp>,
    /// What they said they have, where the definition offers it to a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub offered: Declared,
    /// The workflows that an agent is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Flows>,
    /// What agents may call.
    pub agents: BTreeMap<String, Agent>,
    /// The model of steps that name none.
    pub model: Option<String>,
    /// Aliases of models.
    pub aliases: Vec<(String, String)>,
    /// Whether a graph's edges that lead nowhere are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lenient: bool,
    /// The server that the HTTP tools of a graph's agents are on.
    #[serde(default, skip_serializing_if = "Tools::is_empty")]
    pub tools: Tools,
    /// Folders of agents in `files`, by the agent's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agent_folders: BTreeMap<String, String>,
}

impl Bundle {
    /// Reads the text of a stored bundle. Fails if it is damaged.
    pub fn parse(text: &str) -> Result<Bundle, StepError> {
        serde_json::from_str(text)
            .map_err(|error| StepError::new(Code::StoreCorrupt, format!("the bundle is damaged: {error}")))
    }

    /// The same with what models are offered.
    pub fn offering(self, offered: &Offered) -> Bundle {
        Bundle { offered: offered.servers.clone(), flows: offered.flows.clone(), ..self }
    }

    /// The text that is stored; the same bundle always gives the same text.
    pub fn text(&self) -> Result<String, StepError> {
        serde_json::to_string(self).map_err(|error| StepError::new(Code::StoreFailed, error.to_string()))
    }

    /// What compiling reads.
    pub fn sources(&self) -> Sources {
        let files = self.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
        self.surroundings().with_files(files)
    }

    /// What a definition under these settings may name.
    pub(crate) fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            functions: &self.functions,
            mcp: &self.mcp,
            declared: &self.offered,
            flows: self.flows.as_ref().map(described),
            tools: &self.tools,
            agent_folders: self.agent_folders.clone(),
            is_lenient: self.lenient,
            source_bytes: u64::MAX,
        }
    }
}

/// Workflows as definitions are compiled with them.
pub(crate) fn described(flows: &Flows) -> Vec<OfferedFlow> {
    let flow = |(id, flow): (&String, &Flow)| OfferedFlow { id: id.clone(), declaration: flow.declaration.clone() };
    flows.iter().map(flow).collect()
}

/// Compiles a bundle, which compiled when its run was created.
pub fn plan_of(bundle: &Bundle) -> Result<Arc<Plan>, StepError> {
    let compiled = compile(&bundle.entry, &bundle.sources(), Some(bundle.format));
    compiled.plan.map(Arc::new).ok_or_else(|| {
        let why = compiled.diagnostics.iter().find(|diagnostic| diagnostic.is_error());
        let why = why.map(|diagnostic| diagnostic.message.clone()).unwrap_or_default();
        StepError::new(Code::StoreCorrupt, format!("the run's own definition does not compile any more: {why}"))
    })
}
