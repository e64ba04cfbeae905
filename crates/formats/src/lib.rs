//! The front ends: each compiles the definitions of a format into a plan, and renders the result of a run in that
//! format.
//!
//! Pure functions: no I/O, no clock. Everything that a definition refers to is supplied in [`Sources`]. Missing files
//! are reported in [`Compiled::needs`]; the caller loads them and compiles again.

pub mod agent;
mod conversation;
mod detect;
pub mod flow;
mod functions;
pub mod graph;
pub mod markdown;
pub mod pipeline;
mod problems;
mod reader;
pub mod schema;
mod servers;
mod spoken;
pub mod steps;

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_core::expr::Template;
use flowloom_core::plan::{Env, Format, Plan};
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use detect::Detected;
pub use functions::FunctionDeclaration;
pub use problems::Problems;
use reader::Source;
pub use servers::{Approval, ToolServer};
pub use spoken::{Spoken, spoken};

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
    pub flows: Option<Vec<agent::OfferedFlow>>,
    /// Whether dangling edges of a graph are dropped with a warning.
    pub is_lenient: bool,
    /// The server of the HTTP tools of a graph's agents.
    pub tools: ToolHost,
    /// Agent folders from the configuration, by agent id.
    pub agent_folders: BTreeMap<String, String>,
    /// Maximum size of a file, in bytes.
    pub source_bytes: u64,
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

/// The result of compiling a definition.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// The plan; `None` if there are errors.
    pub plan: Option<Plan>,
    /// The format, if it was detected.
    pub format: Option<Format>,
    /// All problems.
    pub diagnostics: Vec<Diagnostic>,
    /// Files that the definition refers to and `Sources` lacks.
    pub needs: Vec<String>,
    /// MCP servers whose tool lists are needed before the definition can run.
    pub asks: Vec<String>,
}

/// The result of a run in the form of its format.
#[derive(Clone, Debug, PartialEq)]
pub struct Presented {
    /// The result in the shape of the format.
    pub result: Value,
    /// The main output: the one value that answers the input; `null` if there is none.
    pub output: Value,
}

/// Files next to a definition of this format that belong to it, as patterns; `*` matches a name.
pub fn beside(format: Format) -> &'static [&'static str] {
    match format {
        Format::Pipeline => &["blocks/*.json"],
        Format::Graph => &["agents/*/jsonSchema.json", "agents/*/systemPrompt.md"],
        Format::Agent => &["tools/*.json"],
        Format::Flow | Format::Steps | Format::Markdown => &[],
    }
}

/// Compiles the file `entry` of `sources` in the given format; `None` detects the format.
pub fn compile(entry: &str, sources: &Sources, format: Option<Format>) -> Compiled {
    let mut problems = Problems::new(entry);
    let Some(bytes) = sources.files.get(entry) else {
        problems.error(Code::Unreadable, Span::default(), format!("{entry} is not there"));
        return Compiled { diagnostics: problems.into_list(), needs: vec![entry.to_owned()], ..Compiled::default() };
    };
    let Some(text) = reader::read_text(bytes, sources.source_bytes, &mut problems) else {
        return Compiled { diagnostics: problems.into_list(), format, ..Compiled::default() };
    };
    let detected = match format {
        Some(format) => Some(Detected { format, tree: None }),
        None => detect::detect(entry, text, &mut problems),
    };
    let Some(Detected { format, tree }) = detected else {
        return Compiled { diagnostics: problems.into_list(), ..Compiled::default() };
    };
    let source = Source { file: entry, text, tree };
    let mut needs = Vec::new();
    let plan = match format {
        Format::Flow => flow::compile(source, &mut problems),
        Format::Steps => steps::compile(source, sources, &mut problems),
        Format::Pipeline => pipeline::compile(source, sources, &mut problems, &mut needs),
        Format::Graph => graph::compile(source, sources, &mut problems, &mut needs),
        Format::Markdown => markdown::compile(source, sources, &mut problems, &mut needs),
        Format::Agent => agent::compile(source, sources, &mut problems, &mut needs),
    };
    let plan = plan.filter(|_| !problems.has_errors());
    let asks = plan.as_ref().map(|plan| sources.asks(plan)).unwrap_or_default();
    Compiled { plan, format: Some(format), diagnostics: problems.into_list(), needs, asks }
}

/// The result of a run of `plan`. `env` holds the run's final variables.
pub fn present(plan: &Plan, state: &RunState, env: &Env) -> Presented {
    match plan.format {
        Format::Steps => steps::present(plan, state),
        Format::Pipeline => pipeline::present(plan, state, env),
        Format::Graph => graph::present(plan, state, env),
        Format::Markdown => markdown::present(plan, state, env),
        Format::Flow => flow::present(plan, state),
        Format::Agent => agent::present(state, env),
    }
}
