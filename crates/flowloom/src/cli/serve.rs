//! What a server is started with, and what starts runs by itself once one is there.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use flowloom_app::config::server::LogStyle;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The folder of definitions
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Where it listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8700")]
    pub(crate) bind: std::net::SocketAddr,
    /// A further host name that it answers to
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// How it tells of itself on stderr [default: text]
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) log: Option<LogArg>,
    /// Runs under way at most
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_runs: usize,
    /// The model of steps that name none (p:m), or an alias (named=p:m, *=p:m)
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,
}

/// How a server tells of itself.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogArg {
    /// Lines for people; calls are not told
    Text,
    /// One JSON object for each line; calls are told, too
    Json,
}

impl From<LogArg> for LogStyle {
    fn from(argument: LogArg) -> LogStyle {
        match argument {
            LogArg::Text => LogStyle::Text,
            LogArg::Json => LogStyle::Json,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The folder of definitions
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// The model of steps that name none (p:m), or an alias (named=p:m, *=p:m)
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,
    /// Whose runs they are
    #[arg(long, value_name = "ID", default_value = "local")]
    pub(crate) user: String,
}

#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// The folder
    pub(crate) folder: PathBuf,
    /// Take away what an earlier sync put there and the folder does not have any more
    #[arg(long)]
    pub(crate) prune: bool,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Give them to a server in the place of the configured database; its key is read from FLOWLOOM_KEY
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Whose they are; those of `local` are everyone's
    #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED)]
    pub(crate) user: String,
}

/// What becomes of missed times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Missed {
    /// One run makes up for all of them
    #[default]
    Once,
    /// They are left out
    Skip,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Run a workflow at certain times, as soon as a server is there
    Add {
        /// Its file, which is put into the database, or the id of one that is there
        workflow: String,
        /// When: minute, hour, day of the month, month, day of the week; seconds before them if there are six
        #[arg(long, value_name = "TIMES")]
        cron: String,
        /// Where the times are meant
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        timezone: String,
        /// An input of its runs: name=text, name=@file, or name:=JSON
        #[arg(short, long = "in", value_name = "NAME=VALUE")]
        input_values: Vec<String>,
        /// What becomes of times at which no server was there
        #[arg(long, value_enum, default_value_t)]
        missed: Missed,
        /// Its id [default: the workflow's]
        #[arg(long)]
        id: Option<String>,
        /// Whose runs they are
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED)]
        user: String,
    },
    /// List the schedules
    List,
    /// Take a schedule away
    Remove {
        /// Its id
        id: String,
        /// Whose it is
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED)]
        user: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// Give a workflow an address; its secret is shown once
    Add {
        /// Its file, which is put into the database, or the id of one that is there
        workflow: String,
        /// The name of the secret with which callers sign, instead of one that they send
        #[arg(long, value_name = "NAME")]
        secret: Option<String>,
        /// Its id [default: the workflow's]
        #[arg(long)]
        id: Option<String>,
        /// Whose runs they are
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED)]
        user: String,
    },
    /// List the hooks
    List,
    /// Take a hook away
    Remove {
        /// Its id
        id: String,
        /// Whose it is
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED)]
        user: String,
    },
}
