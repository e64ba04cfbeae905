//! Command-line arguments of `flowloom`.

mod blocks;
mod eval;
mod exit_codes;
mod fork;
mod format_names;
mod global;
mod help;
#[cfg(test)]
mod help_tests;
mod keys;
mod listing;
mod maintain;
mod man;
mod models;
mod new;
mod plan;
mod project_configs;
mod run;
mod serve;
mod talk;
mod target;
mod test;
mod worker;

use std::path::PathBuf;

use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Args, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use flowloom_app::user_names::check_user_name;

use crate::terminal::draw::DrawingFormat;
pub(crate) use blocks::BlocksCommand;
pub(crate) use eval::{EvalAuthorArgs, EvalCommand};
pub(crate) use fork::{DiffArgs, ForkArgs};
use format_names::FormatParser;
pub(crate) use global::{ExistingData, Global};
pub(crate) use help::{build_command, describe_error, find_help, hint_at_input};
pub(crate) use keys::KeysCommand;
pub(crate) use maintain::{ConvertArgs, FmtArgs, ImportArgs};
pub(crate) use man::write_man_pages;
pub(crate) use models::{ModelsCommand, PullArgs};
pub(crate) use new::NewArgs;
pub(crate) use plan::PlanArgs;
pub(crate) use project_configs::ProjectConfigs;
pub(crate) use run::{CheckArgs, InitArgs, OutputArgs, RunArgs, RunsArgs};
pub(crate) use serve::{
    DEFAULT_ADDRESS, HooksCommand, McpArgs, MissedPolicy, OverlapPolicy, ScheduleCommand, ServeArgs, SyncArgs,
};
pub(crate) use talk::{AgentArgs, ChatArgs, TalkArgs};
pub(crate) use test::{RecordTestArgs, TestArgs, TestCommand, TestReport};
pub(crate) use worker::WorkerArgs;

/// The model of the default configuration and of the examples.
pub(crate) const SMALL_MODEL: &str = "local:smollm2-135m";

/// Colours of the help.
const HELP_STYLES: Styles = Styles::styled()
    .header(AnsiColor::Yellow.on_default().bold())
    .usage(AnsiColor::Yellow.on_default().bold())
    .literal(AnsiColor::Green.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// Maximum width of help texts, in columns.
const MAX_HELP_COLUMNS: usize = 80;

/// Run agent workflows from files in six formats, on any model
#[derive(Debug, Parser)]
#[command(name = "flowloom", version, max_term_width = MAX_HELP_COLUMNS, arg_required_else_help = true, styles = HELP_STYLES)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the arguments of the process. A request for help or for the version is an error, too.
    pub(crate) fn parse_arguments() -> Result<Cli, clap::Error> {
        let mut command = build_command();
        let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
        let mut cli = Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
        cli.global.target = target::find_target(&cli.command);
        Ok(cli)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a definition
    Run(RunArgs),
    /// Run a definition again whenever one of its files is saved
    Dev(RunArgs),
    /// Create a project that runs at once
    Init(InitArgs),
    /// List the workflows of a folder
    List {
        /// Folder of the definitions
        #[arg(default_value = ".")]
        folder: PathBuf,
    },
    /// Create a pipeline from a plain-language description
    New(NewArgs),
    /// Report every problem of definitions, without running anything
    Check(CheckArgs),
    /// Format definition files
    Fmt(FmtArgs),
    /// Convert a definition to another format, and report what is lost
    Convert(ConvertArgs),
    /// List runs, newest first
    Runs(RunsArgs),
    /// Show a run: each step, and what it sent and received
    Show(ShowArgs),
    /// Resume an interrupted or waiting run
    Resume {
        /// Run id, unique start or end of an id, or `last`
        run: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Retry a run that has ended; succeeded steps are kept
    Retry(RetryArgs),
    /// Start a new run that begins with the record of another one
    Fork(ForkArgs),
    /// Show what a run can cost in the worst case
    Plan(PlanArgs),
    /// Test workflows without models and without the network
    Test(TestArgs),
    /// Compare two runs, or two definitions by what they mean
    Diff(DiffArgs),
    /// Print the events of a run, one line each
    Logs {
        /// Run id, unique start or end of an id, or `last`
        run: String,
        /// Follow the run until it ends or waits; with --json, each event is one line
        #[arg(long, short)]
        follow: bool,
    },
    /// List the notifications that runs have left for a user
    Notifications {
        /// The user
        #[arg(long, value_name = "ID", default_value = "local")]
        user: String,
        /// Maximum number of notifications to list
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Replay a run without effects, and check for divergence
    Replay {
        /// Run id, unique start or end of an id, or `last`
        run: String,
    },
    /// Cancel a run
    Cancel {
        /// Run id, unique start or end of an id, or `last`
        run: String,
    },
    /// Delete runs that have ended, with their child runs (memory and threads are kept)
    Delete {
        /// Run ids, unique starts or ends of ids, or `last`
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
    },
    /// Answer the question of a waiting run
    Answer(AnswerArgs),
    /// Resolve an uncertain effect, which may or may not have happened
    Resolve(ResolveArgs),
    /// List available models, or add a local one
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },
    /// Extract the flow from a community hub item
    Import(ImportArgs),
    /// Print the JSON Schema of a format
    Schema {
        /// Format: flow, steps, pipeline, graph, agent, or markdown (for the frontmatter)
        #[arg(value_parser = FormatParser, hide_possible_values = true)]
        format: String,
    },
    /// Serve an editor as its language server, on stdin and stdout
    Lsp {
        // Editors add it to every language server.
        #[arg(long, hide = true)]
        stdio: bool,
    },
    /// Let an editor step through runs, on stdin and stdout
    Dap,
    /// Chat with a graph or agent in the terminal
    Chat(ChatArgs),
    /// Chat with an agent that uses the workflows of a folder as tools
    Agent(AgentArgs),
    /// Draw the graph of a definition
    Graph(GraphArgs),
    /// Manage user profiles, which pipelines read as `user`
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Manage pipeline blocks (stored and built-in)
    Blocks {
        #[command(subcommand)]
        command: BlocksCommand,
        /// User that owns the blocks; blocks of `local` are shared with everyone
        #[arg(long, value_name = "ID", global = true, default_value = flowloom_store::SHARED_USER, value_parser = check_user_name)]
        user: String,
    },
    /// Serve the definitions of a folder over HTTP, with the studio
    Serve {
        #[command(flatten)]
        arguments: ServeArgs,
        /// Serve the API without the studio
        #[arg(long)]
        no_studio: bool,
    },
    /// Serve a folder and open the studio in the browser
    Studio {
        #[command(flatten)]
        arguments: ServeArgs,
        /// Print the address instead of opening it
        #[arg(long)]
        no_open: bool,
    },
    /// Drive the runs of a Restate server
    Worker(WorkerArgs),
    /// Serve the definitions of a folder as MCP tools on stdio
    Mcp(McpArgs),
    /// Upload the workflows of a folder to the database, all or none
    Sync(SyncArgs),
    /// Manage schedules, which run workflows at given times
    Schedule {
        #[command(subcommand)]
        command: ScheduleCommand,
    },
    /// Manage webhooks, which run a workflow when their URL is called
    Hooks {
        #[command(subcommand)]
        command: HooksCommand,
    },
    /// Delete old finished runs (memory and threads are kept)
    Prune {
        /// Minimum age, for example 30d or 12h [default: the ages in the retention settings]
        #[arg(long, value_name = "AGE")]
        older: Option<String>,
        /// Only runs with this final status [default: every status]
        #[arg(long, value_name = "STATUS", requires = "older")]
        status: Vec<String>,
        /// Only print what would be deleted
        #[arg(long)]
        dry_run: bool,
    },
    /// Back up the database to a new file while runs continue
    Backup {
        /// Backup file to create
        file: PathBuf,
    },
    /// Restore a backup into the data folder
    Restore {
        /// Backup file to restore
        file: PathBuf,
        /// Replace an existing database
        #[arg(long)]
        replace: bool,
        /// Restore the backup even if some of its rows are damaged
        #[arg(long)]
        allow_damage: bool,
    },
    /// Manage API keys of the server
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// List who changed keys, definitions, memory and secret bindings
    Audit {
        /// Only changes since: a duration such as 7d, or a time such as 2026-11-23
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only changes of what this user owns
        #[arg(long, value_name = "ID")]
        user: Option<String>,
        /// Maximum number of changes to list
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show what a user has used of each quota
    Usage {
        /// The user
        #[arg(long, value_name = "ID", default_value = "local")]
        user: String,
    },
    /// Explain an error code, or print the prompt that teaches a model the Markdown format
    Explain {
        /// Error code such as FL0105, or `prompt`
        code: String,
    },
    /// Show the configuration, its origin, and what is missing
    Doctor {
        /// Read the whole database, also a large one, and report every damaged run
        #[arg(long)]
        read_data: bool,
    },
    /// Evaluate the quality of a model
    Eval {
        #[command(subcommand)]
        command: EvalCommand,
    },
    /// Run the bundled examples on the local model
    Demo(DemoArgs),
    /// Write the man pages into a folder
    Man {
        /// Folder to create
        folder: PathBuf,
    },
    /// Generate a shell completion script
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Print the help of a command
    Help {
        /// Words of the command, such as `blocks list`
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// Definition file or folder, or the name of a workflow of the project
    pub(crate) file: PathBuf,
    /// Output format of the drawing
    #[arg(long, value_enum, default_value_t = DrawingFormat::Text)]
    pub(crate) format: DrawingFormat,
    /// Format of the definition [default: detected]
    #[arg(long = "as", value_name = "FORMAT", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) definition: Option<String>,
    /// Ignore dangling edges of a graph
    #[arg(long)]
    pub(crate) lenient: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Set entries of a user profile
    Set {
        /// Entry: name=text or name:=JSON
        #[arg(required = true, value_name = "NAME=VALUE")]
        values: Vec<String>,
        /// User that owns the profile
        #[arg(long, value_name = "ID", default_value = "local", value_parser = check_user_name)]
        user: String,
    },
    /// Show a user profile
    Show {
        /// User that owns the profile
        #[arg(long, value_name = "ID", default_value = "local")]
        user: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportStyle {
    /// Human-readable, with source excerpts
    Human,
    /// A single JSON array
    Json,
    /// GitHub Actions annotations
    Github,
    /// SARIF 2.1.0
    Sarif,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Run id, unique start or end of an id, or `last`
    pub(crate) run: String,
    /// Show only this step and the steps in it, in full
    pub(crate) path: Option<String>,
    /// Show every step in full: prompts, answers, requests and responses
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Follow the run until it ends or waits
    #[arg(long, short)]
    pub(crate) follow: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// Run id, unique start or end of an id, or `last`
    pub(crate) run: String,
    /// Run this step and what follows it again, not only what failed
    #[arg(long, value_name = "PATH")]
    pub(crate) from: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Run id, unique start or end of an id, or `last`
    pub(crate) run: String,
    /// The answer; parsed as JSON if possible, otherwise text [default: prompted for]
    pub(crate) answer: Option<String>,
    /// Path of the step that asks, if there are several
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Record the answer without resuming the run
    #[arg(long)]
    pub(crate) no_resume: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("decision").required(true).multiple(false))]
pub(crate) struct ResolveArgs {
    /// Run id, unique start or end of an id, or `last`
    pub(crate) run: String,
    /// Path of the effect, as printed by `flowloom show`
    pub(crate) path: String,
    /// Send the effect again, with the same idempotency key
    #[arg(long, group = "decision")]
    pub(crate) resend: bool,
    /// Record the effect as failed
    #[arg(long, group = "decision")]
    pub(crate) fail: bool,
    /// Record the effect as successful with this output (JSON, or text)
    #[arg(long, group = "decision", value_name = "VALUE")]
    pub(crate) value: Option<String>,
    /// Record the decision without resuming the run
    #[arg(long)]
    pub(crate) no_resume: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Model to run the examples on
    #[arg(long, value_name = "MODEL", default_value = SMALL_MODEL)]
    pub(crate) model: String,
}
