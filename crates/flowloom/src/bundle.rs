//! A run's bundle: everything that compiling and running its definition read from files and configuration. Resume,
//! replay and fork read the bundle, never the folder.

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
    /// The definition's format.
    pub(crate) format: Format,
    /// File contents by the path that definitions and configuration use.
    pub(crate) files: BTreeMap<String, String>,
    /// Configured functions by id.
    pub(crate) functions: BTreeMap<String, Function>,
    /// Configured MCP servers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) mcp: BTreeMap<String, Mcp>,
    /// The tool lists of those servers, where the definition offers them to a model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) offered: Declared,
    /// The workflows that an agent may call as tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flows: Option<Flows>,
    /// Tools granted to agents, by agent id.
    pub(crate) agents: BTreeMap<String, Agent>,
    /// The model of steps that do not set one.
    pub(crate) model: Option<String>,
    /// Model aliases as (alias, model).
    pub(crate) aliases: Vec<(String, String)>,
    /// Whether dangling edges of a graph are ignored instead of rejected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lenient: bool,
    /// The server that provides the HTTP tools of a graph's agents.
    #[serde(default, skip_serializing_if = "Tools::is_empty")]
    pub(crate) tools: Tools,
    /// Folders of agents in `files`, by the agent's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) agent_folders: BTreeMap<String, String>,
}

impl Bundle {
    /// Parses a stored bundle. Fails with `StoreCorrupt`.
    pub(crate) fn parse(text: &str) -> Result<Bundle, StepError> {
        serde_json::from_str(text)
            .map_err(|error| StepError::new(Code::StoreCorrupt, format!("the bundle is damaged: {error}")))
    }

    /// The same bundle with the tools available to models.
    pub(crate) fn offering(self, offered: &Offered) -> Bundle {
        Bundle { offered: offered.servers.clone(), flows: offered.flows.clone(), ..self }
    }

    /// The JSON to store; the same bundle always gives the same text.
    pub(crate) fn text(&self) -> Result<String, StepError> {
        serde_json::to_string(self).map_err(|error| StepError::new(Code::StoreFailed, error.to_string()))
    }

    /// The input of the compiler: all files and names.
    pub(crate) fn sources(&self) -> Sources {
        let files = self.files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
        Sources { files, ..self.surroundings() }
    }

    /// The input of the compiler without files: the names that a definition under these settings may use.
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
