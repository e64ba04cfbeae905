//! The command line: what can be asked for, and how it is written.

mod blocks;
mod eval;
mod new;
mod serve;
mod talk;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use flowloom_app::config::{Config, Overrides, Setting};
use flowloom_core::error::StepError;

use crate::terminal::draw::Style;
pub(crate) use blocks::BlocksCommand;
pub(crate) use eval::{EvalAuthorArgs, EvalCommand};
pub(crate) use new::NewArgs;
pub(crate) use serve::{HooksCommand, McpArgs, Missed, ScheduleCommand, ServeArgs, SyncArgs};
pub(crate) use talk::{AgentArgs, ChatArgs, TalkArgs};

/// The model that comes with the program's own set-up, and that examples name.
pub(crate) const SMALL_MODEL: &str = "local:smollm2-135m";

/// Runs agent workflows from files in five formats, on any model.
#[derive(Debug, Parser)]
#[command(name = "flowloom", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Folder of the database [default: $XDG_DATA_HOME/flowloom or ~/.local/share/flowloom]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Postgres in the place of SQLite: postgres://USER:PASSWORD@HOST/NAME
    #[arg(long, global = true, value_name = "URL", help_heading = "Global options")]
    pub(crate) database: Option<String>,
    /// Print one JSON value on stdout
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Configuration file [default: flowloom.toml in this folder]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
}

impl Global {
    /// Reads the configuration under these options.
    pub(crate) fn load_config(&self) -> Result<Config, StepError> {
        let data_dir = self.data_dir.clone().map(|value| Setting { value, origin: "--data-dir".to_owned() });
        let database = self.database.clone().map(|value| Setting { value, origin: "--database".to_owned() });
        Config::load(Overrides { file: self.config.clone(), data_dir, database })
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a definition
    Run(RunArgs),
    /// Make a pipeline of a wish in plain language
    New(NewArgs),
    /// Report every problem of definitions, without running anything
    Check(CheckArgs),
    /// List runs, newest first
    Runs {
        /// Runs at most
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show what happened in a run, as a waterfall
    Show {
        /// Id, unique prefix of one, or `last`
        run: String,
    },
    /// Go on with a run that was interrupted or waits
    Resume {
        /// Id, unique prefix of one, or `last`
        run: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Follow a run's record again without performing anything, and check that it leads to the same events
    Replay {
        /// Id, unique prefix of one, or `last`
        run: String,
    },
    /// End a run
    Cancel {
        /// Id, unique prefix of one, or `last`
        run: String,
    },
    /// Answer a question that a run asks
    Answer(AnswerArgs),
    /// Decide about an effect that may or may not have happened
    Resolve(ResolveArgs),
    /// Models: what can be used, and fetching the local one
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },
    /// Turn a community hub item into the flow file inside it
    Import {
        /// The item
        file: PathBuf,
        /// Where the flow is written [default: stdout]
        #[arg(short, long)]
        out: Option<PathBuf>,
    },
    /// Print the JSON Schema of a format
    Schema {
        /// flow, steps, pipeline, graph, or markdown for the frontmatter
        format: String,
    },
    /// Talk with a graph in the terminal
    Chat(ChatArgs),
    /// Talk with an agent whose tools are the workflows of a folder
    Agent(AgentArgs),
    /// Draw a definition
    Graph(GraphArgs),
    /// Profiles of users, which pipelines see as `user`
    User {
        #[command(subcommand)]
        command: UserCommand,
    },
    /// Blocks of pipelines that the database keeps, and those that are built in
    Blocks {
        #[command(subcommand)]
        command: BlocksCommand,
        /// Whose blocks; those of `local` are everyone's
        #[arg(long, value_name = "ID", global = true, default_value = flowloom_store::SHARED)]
        user: String,
    },
    /// Serve the definitions of a folder over HTTP
    Serve(ServeArgs),
    /// Offer the definitions of a folder as MCP tools to the program that starts this one, on stdio
    Mcp(McpArgs),
    /// Put the workflows of a folder into the database, all or none
    Sync(SyncArgs),
    /// Workflows that a server runs at certain times
    Schedule {
        #[command(subcommand)]
        command: ScheduleCommand,
    },
    /// Addresses of a server that start a workflow when they are called
    Hooks {
        #[command(subcommand)]
        command: HooksCommand,
    },
    /// Take away runs that ended long ago; what runs remember and threads stay
    Prune {
        /// How long ago: 30d, 12h; without it, as [retention] says
        #[arg(long, value_name = "AGE")]
        older: Option<String>,
        /// Those that ended with this status [default: every status]
        #[arg(long, value_name = "STATUS", requires = "older")]
        status: Vec<String>,
        /// Only say what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Write a copy of the database into a new file, while runs go on
    Backup {
        /// The file
        file: PathBuf,
    },
    /// Put a backup into the data folder
    Restore {
        /// The backup
        file: PathBuf,
        /// Let it take the place of the database that is there
        #[arg(long)]
        replace: bool,
    },
    /// Keys for those who call the server
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// Explain an error code, or show the instructions that Markdown workflows begin with
    Explain {
        /// For example FL0105, or prompt
        code: String,
    },
    /// Show what is configured, where each value comes from, and what is missing
    Doctor,
    /// Measure how good a model is
    Eval {
        #[command(subcommand)]
        command: EvalCommand,
    },
    /// Run the bundled examples on the local model
    Demo(DemoArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The definition
    pub(crate) file: PathBuf,
    /// An input: name=text, name=@file, or name:=JSON
    #[arg(short, long = "in", value_name = "NAME=VALUE")]
    pub(crate) input_values: Vec<String>,
    /// All inputs as JSON (or text, for step lists) from a file, `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// The model of steps that name none (p:m), or an alias (named=p:m, *=p:m)
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,
    /// The agent on whose behalf it runs, with the tools granted in [agents.ID]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// Whose run it is
    #[arg(long, value_name = "ID", default_value = "local")]
    pub(crate) user: String,
    /// The format, if it is not recognised
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Leave out a graph's edges that lead nowhere
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Bounds: tokens=N,usd=N,steps=N,time=30s
    #[arg(long, value_name = "BOUNDS")]
    pub(crate) budget: Option<String>,
    /// Also write the result into this folder: result.json, and what there is to read as output.md
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// Print every event as one line of JSON on stdout
    #[arg(long)]
    pub(crate) events: bool,
    /// Do not show text as it arrives
    #[arg(long)]
    pub(crate) no_stream: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The definitions
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Mend what can be mended without judgement
    #[arg(long)]
    pub(crate) fix: bool,
    /// The format, if it is not recognised
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// Leave out a graph's edges that lead nowhere
    #[arg(long)]
    pub(crate) lenient: bool,
    /// How problems are written
    #[arg(long, value_enum, default_value_t = ReportStyle::Human)]
    pub(crate) report: ReportStyle,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key; it is shown once
    Create {
        /// What it is for
        #[arg(long)]
        name: String,
        /// What it allows: read, run, write, admin
        #[arg(long, value_name = "SCOPES", default_value = "read,run")]
        scopes: String,
        /// The user it belongs to; without one it may act for any
        #[arg(long, value_name = "ID")]
        user: Option<String>,
    },
    /// List the keys
    List,
    /// Revoke a key
    Revoke {
        /// Its id
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The definition
    pub(crate) file: PathBuf,
    /// What the drawing is written as
    #[arg(long, value_enum, default_value_t = Style::Text)]
    pub(crate) format: Style,
    /// The format of the definition, if it is not recognised
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) definition: Option<String>,
    /// Leave out a graph's edges that lead nowhere
    #[arg(long)]
    pub(crate) lenient: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Set entries of a profile
    Set {
        /// name=text or name:=JSON
        #[arg(required = true, value_name = "NAME=VALUE")]
        values: Vec<String>,
        /// Whose profile
        #[arg(long, value_name = "ID", default_value = "local")]
        user: String,
    },
    /// Show a profile
    Show {
        /// Whose profile
        #[arg(long, value_name = "ID", default_value = "local")]
        user: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportStyle {
    /// For people, with the source
    Human,
    /// One JSON list
    Json,
    /// Annotations of GitHub Actions
    Github,
    /// SARIF 2.1.0
    Sarif,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Id, unique prefix of one, or `last`
    pub(crate) run: String,
    /// The answer: JSON if it reads as JSON, else text
    pub(crate) answer: String,
    /// The step that asks, if there are several
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Only record the answer
    #[arg(long)]
    pub(crate) no_resume: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("decision").required(true).multiple(false))]
pub(crate) struct ResolveArgs {
    /// Id, unique prefix of one, or `last`
    pub(crate) run: String,
    /// The effect's path, as `flowloom show` prints it
    pub(crate) path: String,
    /// Send it again, under the same idempotency key
    #[arg(long, group = "decision")]
    pub(crate) resend: bool,
    /// Count it as failed
    #[arg(long, group = "decision")]
    pub(crate) fail: bool,
    /// It happened, with this output (JSON, or text)
    #[arg(long, group = "decision", value_name = "JSON")]
    pub(crate) value: Option<String>,
    /// Only record the decision
    #[arg(long)]
    pub(crate) no_resume: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List providers and local models, and what each needs
    List,
    /// Fetch the local model into the cache
    Pull,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The model that answers
    #[arg(long, value_name = "MODEL", default_value = SMALL_MODEL)]
    pub(crate) model: String,
}
