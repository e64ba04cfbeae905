//! The names that a definition may refer to: files, functions, MCP servers, workflows.

use std::collections::BTreeMap;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::expr::Template;
use flowloom_core::value::Value;

use crate::stop::StopFlag;

/// Files by the paths that definitions use, and everything else that a definition may refer to.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// File contents by path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Known functions, built-in or configured.
    pub functions: Vec<String>,
    /// Functions that the configuration declares; they override built-in ones.
    pub configured: Vec<String>,
    /// Declarations of functions for models, by function.
    pub declared: BTreeMap<String, FunctionDeclaration>,
    /// Helper values of configured functions for the attributes of their actions in Markdown, by function.
    pub helpers: BTreeMap<String, Value>,
    /// MCP servers whose tools are functions.
    pub servers: Vec<ToolServer>,
    /// Workflows that agents may use as tools; `None` if they are not known.
    pub flows: Option<Vec<AvailableFlow>>,
    /// Whether dangling edges of a graph are dropped with a warning.
    pub is_lenient: bool,
    /// The server of the HTTP tools of a graph's agents.
    pub tools: ToolHost,
    /// Agent folders from the configuration, by agent id.
    pub agent_folders: BTreeMap<String, String>,
    /// Maximum size of a file, in bytes.
    pub source_bytes: u64,
    /// Stops compiling.
    pub stop: StopFlag,
}

/// The server of the HTTP tools of a graph's agents.
#[derive(Clone, Debug, Default)]
pub struct ToolHost {
    /// The base URL, for example `https://example.org/api`.
    pub base: Option<String>,
    /// Headers of every call. Secrets in them are names.
    pub headers: Vec<(String, Template)>,
    /// Whether the user's id is sent in the header `X-User-Id`.
    pub forwards_user: bool,
}

/// The declaration of a function for models, from the configuration.
#[derive(Clone, Debug, Default)]
pub struct FunctionDeclaration {
    /// The purpose of the function, for models.
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub parameters: Option<Value>,
    /// Whether a person must approve each call that a model requests.
    pub needs_approval: bool,
}

/// An MCP server from the configuration.
#[derive(Clone, Debug, Default)]
pub struct ToolServer {
    /// Its name.
    pub name: String,
    /// The tools; `None` if the server has not been queried.
    pub tools: Option<Vec<ToolDeclaration>>,
    /// The calls that need approval.
    pub approval: Approval,
}

/// The tools of a server that need a person's approval.
#[derive(Clone, Debug, Default)]
pub enum Approval {
    /// None.
    #[default]
    Never,
    /// All.
    Always,
    /// These.
    Tools(Vec<String>),
}

/// A workflow that is available to agents as a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct AvailableFlow {
    /// Its id.
    pub id: String,
    /// The declaration for models.
    pub declaration: ToolDeclaration,
}
