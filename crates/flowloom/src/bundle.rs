//! A run's bundle: everything that compiling and running its definition read from files and configuration. Resume,
//! replay and fork read it, never the folder.

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::plan::Format;
use flowloom_formats::Sources;
use serde::{Deserialize, Serialize};

use crate::config::{Agent, Function, Mcp, Tools};
use crate::flows::{self, Flows};
use crate::mcp::{self, Declared, Offered};

/// The content of a bundle, stored as JSON under its hash.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Bundle {
    /// Path of the definition in `files`.
    pub(crate) entry: String,
    /// Its format.
    pub(crate) format: Format,
    /// Texts by the path that definitions and configuration use.
    pub(crate) files: BTreeMap<String, String>,
    /// The user's functions.
    pub(crate) functions: BTreeMap<String, Function>,
    /// The user's MCP servers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) mcp: BTreeMap<String, Mcp>,
    /// What they said they have, where the definition offers it to a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) offered: Declared,
    /// The workflows that an agent is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flows: Option<Flows>,
    /// What agents may call.
    pub(crate) agents: BTreeMap<String, Agent>,
    /// The model of steps that name none.
    pub(crate) model: Option<String>,
    /// Aliases of models.
    pub(crate) aliases: Vec<(String, String)>,
    /// Whether a graph's edges that lead nowhere are left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lenient: bool,
    /// The server that the HTTP tools of a graph's agents are on.
    #[serde(default, skip_serializing_if = "Tools::is_empty")]
    pub(crate) tools: Tools,
    /// Folders of agents in `files`, by the agent's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) agent_folders: BTreeMap<String, String>,
}

impl Bundle {
    pub(crate) fn parse(text: &str) -> Result<Bundle, StepError> {
        serde_json::from_str(text)
            .map_err(|error| StepError::new(Code::StoreCorrupt, format!("the bundle is damaged: {error}")))
    }

    /// The same with what models are offered.
    pub(crate) fn offering(self, offered: &Offered) -> Bundle {
        Bundle { offered: offered.servers.clone(), flows: offered.flows.clone(), ..self }
    }

    /// The text that is stored; the same bundle always gives the same text.
    pub(crate) fn text(&self) -> Result<String, StepError> {
        serde_json::to_string(self).map_err(|error| StepError::new(Code::StoreFailed, error.to_string()))
    }

    /// What compiling reads.
    pub(crate) fn sources(&self) -> Sources {
        let files = self.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
        Sources { files, ..self.surroundings() }
    }

    /// The same without files: what a definition under these settings may name.
    pub(crate) fn surroundings(&self) -> Sources {
        let configured: Vec<String> = self.functions.keys().cloned().collect();
        Sources {
            files: BTreeMap::new(),
            functions: configured.clone(),
            configured,
            declared: Function::declared(&self.functions),
            helpers: Function::helpers(&self.functions),
            servers: mcp::described(&self.mcp, &self.offered),
            flows: self.flows.as_ref().map(flows::described),
            is_lenient: self.lenient,
            tools: self.tools.host(),
            agent_folders: self.agent_folders.clone(),
            source_bytes: u64::MAX,
        }
    }
}
