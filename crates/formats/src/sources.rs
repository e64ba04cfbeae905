//! What a definition may refer to: files, functions, servers of tools, workflows.

use std::collections::BTreeMap;

use flowloom_core::expr::Template;
use flowloom_core::value::Value;

use crate::agent::OfferedFlow;
use crate::functions::FunctionDeclaration;
use crate::servers::ToolServer;

/// Files by the path that definitions use for them, and what else a definition may name.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Contents by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Functions that exist, built in or configured.
    pub functions: Vec<String>,
    /// Functions that the configuration declares; they take the place of built-in ones.
    pub configured: Vec<String>,
    /// What the configuration says of functions to models, by function.
    pub declared: BTreeMap<String, FunctionDeclaration>,
    /// What configured functions lend to the attributes of their actions in Markdown, by function.
    pub helpers: BTreeMap<String, Value>,
    /// Servers whose tools are functions too.
    pub servers: Vec<ToolServer>,
    /// Workflows that agents may use as tools; `None` if it is not known which there are.
    pub flows: Option<Vec<OfferedFlow>>,
    /// Whether a graph's edges that lead nowhere are left out with a warning.
    pub is_lenient: bool,
    /// The server that the HTTP tools of a graph's agents are on.
    pub tools: ToolHost,
    /// Folders of agents that the configuration names, by the agent's id.
    pub agent_folders: BTreeMap<String, String>,
    /// Largest file that is read, in bytes.
    pub source_bytes: u64,
}

/// The server that the HTTP tools of a graph's agents are on.
#[derive(Clone, Debug, Default)]
pub struct ToolHost {
    /// The address below which they are, for example `https://example.org/api`.
    pub base: Option<String>,
    /// Headers of every call; secrets in them are names.
    pub headers: Vec<(String, Template)>,
    /// Whether the user's id is sent along, as `X-User-Id`.
    pub forwards_user: bool,
}
