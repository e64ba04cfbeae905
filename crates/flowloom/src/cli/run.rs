//! Arguments of `flowloom init`, `run`, `dev` and `check`.

use std::path::PathBuf;

use clap::Args;
use flowloom_app::model_choice::check_model_choice;
use flowloom_app::user_names::check_user_name;

use super::ReportStyle;
use super::format_names::FormatParser;

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Folder of the project
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Start with this definition, in any format [default: a small flow]
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// Definition file or folder, the name of a workflow of the project, or `-` for stdin
    pub(crate) file: PathBuf,
    /// Input value: name=text, name=@file, or name:=JSON
    #[arg(short, long = "in", value_name = "NAME=VALUE")]
    pub(crate) input_values: Vec<String>,
    /// File with all inputs as JSON (or text, for step lists); `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Model of steps that do not set one (p:m), or a model alias (name=p:m, *=p:m)
    #[arg(long, value_name = "MODEL", value_parser = check_model_choice)]
    pub(crate) model: Vec<String>,
    /// Agent to run as, with the tools granted in [agents.ID]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// User that owns the run
    #[arg(long, value_name = "ID", default_value = "local", value_parser = check_user_name)]
    pub(crate) user: String,
    /// Format of the definition [default: detected]
    #[arg(long = "as", value_name = "FORMAT", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) format: Option<String>,
    /// Ignore dangling edges of a graph
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Limits of the run: tokens=N,usd=N,steps=N,time=30s (a time without a unit is in seconds)
    #[arg(long, value_name = "LIMITS")]
    pub(crate) budget: Option<String>,
    /// Also write the result to this folder, as result.json and output.md
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// Print every event as one line of JSON on stdout; with --json, the result is the last line
    #[arg(long)]
    pub(crate) events: bool,
    /// Do not stream text as it is generated
    #[arg(long)]
    pub(crate) no_stream: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Only runs with this status, such as failed or interrupted
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only runs of workflows with this name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only runs of the workflow with this id, or in the file with this name
    #[arg(long, value_name = "ID")]
    pub(crate) workflow: Option<String>,
    /// Only runs that were started by this: terminal, api, openai, mcp, schedule, schedule:ID, webhook, webhook:ID
    #[arg(long, value_name = "TRIGGER")]
    pub(crate) trigger: Option<String>,
    /// Only runs before this one
    #[arg(long, value_name = "RUN")]
    pub(crate) before: Option<String>,
    /// Only runs since: a duration such as 2h, or a time such as 2026-11-23
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Maximum number of runs to list
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Definition files or folders, or names of workflows of the project
    #[arg(default_value = ".")]
    pub(crate) files: Vec<PathBuf>,
    /// Apply the fixes that need no judgement
    #[arg(long)]
    pub(crate) fix: bool,
    /// Format of the definitions [default: detected]
    #[arg(long = "as", value_name = "FORMAT", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) format: Option<String>,
    /// Ignore dangling edges of a graph
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Output format of the problems
    #[arg(long, value_enum, default_value_t = ReportStyle::Human)]
    pub(crate) report: ReportStyle,
}
