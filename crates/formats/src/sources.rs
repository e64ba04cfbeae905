//! What a definition may refer to: files, functions, servers of tools, workflows.

use std::collections::BTreeMap;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::expr::Template;
use flowloom_core::value::Value;

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

/// What the configuration says of a function to models.
#[derive(Clone, Debug, Default)]
pub struct FunctionDeclaration {
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub parameters: Option<Value>,
    /// Whether a person must agree to each call that a model asks for.
    pub needs_approval: bool,
}

/// A server of tools that the configuration names.
#[derive(Clone, Debug, Default)]
pub struct ToolServer {
    /// Its name.
    pub name: String,
    /// Its tools; `None` if it has not been asked.
    pub tools: Option<Vec<ToolDeclaration>>,
    /// Which calls that a model asks for a person must agree to.
    pub approval: Approval,
}

/// Which tools of a server need a person's agreement.
#[derive(Clone, Debug, Default)]
pub enum Approval {
    /// None.
    #[default]
    Never,
    /// All.
    Always,
    /// These.
    Of(Vec<String>),
}

/// A workflow that agents may use as a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedFlow {
    /// Its id.
    pub id: String,
    /// As a model sees it.
    pub declaration: ToolDeclaration,
}
