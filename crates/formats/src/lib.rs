//! The front ends: each turns a definition into a plan, and a run's state into the format's own result.
//!
//! Pure: no I/O, no clock. What a definition refers to comes in [`Sources`]; what is missing goes back in
//! [`Compiled::needs`], for the program to load before it compiles again.

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
    pub flows: Option<Vec<agent::OfferedFlow>>,
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

/// What compiling gives.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// The plan; `None` if there are errors.
    pub plan: Option<Plan>,
    /// The format, once it is known.
    pub format: Option<Format>,
    /// Everything that is wrong.
    pub diagnostics: Vec<Diagnostic>,
    /// Files that the definition names and `Sources` does not have.
    pub needs: Vec<String>,
    /// Servers of tools that must say what they have before the definition can run.
    pub asks: Vec<String>,
}

/// A run's result as its format writes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Presented {
    /// The format's own result shape.
    pub result: Value,
    /// The one value that answers the question the run was started with; `null` if there is none.
    pub output: Value,
}

/// Files beside a definition of this format that belong to it, as patterns; `*` stands for a name.
pub fn beside(format: Format) -> &'static [&'static str] {
    match format {
        Format::Pipeline => &["blocks/*.json"],
        Format::Graph => &["agents/*/jsonSchema.json", "agents/*/systemPrompt.md"],
        Format::Agent => &["tools/*.json"],
        Format::Flow | Format::Steps | Format::Markdown => &[],
    }
}

/// Compiles the file `entry` of `sources`, in the given format or the one it is recognised as.
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

/// The result of a run of `plan` that left `env` behind.
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
