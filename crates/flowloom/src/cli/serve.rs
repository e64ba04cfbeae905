//! Arguments of `flowloom serve`, `mcp`, `sync`, `schedule` and `hooks`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use flowloom_app::config::server::LogStyle;
use flowloom_app::model_choice::check_model_choice;
use flowloom_app::user_names::check_user_name;

/// Default address of a server.
pub(crate) const DEFAULT_ADDRESS: &str = "127.0.0.1:8700";

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Folder of the definitions
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Address to listen on
    #[arg(long, aliases = ["listen", "addr", "address"], value_name = "ADDRESS", default_value = DEFAULT_ADDRESS)]
    pub(crate) bind: std::net::SocketAddr,
    /// Additional host name to accept in the Host header
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Address under which clients reach the server through a proxy that removes the path: `https://example.com/flows`
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Log format [default: text]
    #[arg(long, value_enum, value_name = "STYLE")]
    pub(crate) log: Option<LogArg>,
    /// Maximum number of concurrent runs
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) max_runs: usize,
    /// Model of steps that do not set one (p:m), or a model alias (name=p:m, *=p:m)
    #[arg(long, value_name = "MODEL", value_parser = check_model_choice)]
    pub(crate) model: Vec<String>,
    /// Also continue interrupted runs that were started under another configuration of the project
    #[arg(long)]
    pub(crate) accept_config_change: bool,
}

/// Log format of a server.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogArg {
    /// Lines for people, without a line for each request
    Text,
    /// One JSON object per line, with a line for each request
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
    /// Folder of the definitions
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Model of steps that do not set one (p:m), or a model alias (name=p:m, *=p:m)
    #[arg(long, value_name = "MODEL", value_parser = check_model_choice)]
    pub(crate) model: Vec<String>,
    /// User that owns the runs
    #[arg(long, value_name = "ID", default_value = "local", value_parser = check_user_name)]
    pub(crate) user: String,
}

#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// Folder of the workflows
    pub(crate) folder: PathBuf,
    /// Delete workflows that an earlier sync uploaded and that are no longer in the folder
    #[arg(long)]
    pub(crate) prune: bool,
    /// Only print what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Upload to this server instead of the configured database; the API key is read from FLOWLOOM_KEY
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// User that owns the workflows; workflows of `local` are shared with everyone
    #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED_USER, value_parser = check_user_name)]
    pub(crate) user: String,
}

/// Policy for missed times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MissedPolicy {
    /// Run once for all of them
    #[default]
    Once,
    /// Do not run
    Skip,
}

/// Policy for times at which the last run has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverlapPolicy {
    /// Start another run
    #[default]
    Allow,
    /// Start no run
    Skip,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// Add a schedule for a workflow; a running server executes it
    Add {
        /// Workflow file (uploaded to the database), the name of a workflow of the project, or the id of a stored one
        workflow: String,
        /// Cron expression: minute, hour, day of month, month, day of week; optionally seconds first
        #[arg(long, value_name = "CRON")]
        cron: String,
        /// Time zone of the cron expression
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        timezone: String,
        /// Input value: name=text, name=@file, or name:=JSON
        #[arg(short, long = "in", value_name = "NAME=VALUE")]
        input_values: Vec<String>,
        /// Policy for times missed while no server was running
        #[arg(long, value_enum, default_value_t)]
        missed: MissedPolicy,
        /// What happens at a time at which the last run has not ended
        #[arg(long, value_enum, default_value_t)]
        overlap: OverlapPolicy,
        /// Id of the schedule [default: the id of the workflow]
        #[arg(long)]
        id: Option<String>,
        /// User that owns the runs
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED_USER, value_parser = check_user_name)]
        user: String,
    },
    /// List schedules
    List,
    /// Pause a schedule: it starts no runs until it is resumed
    Pause {
        /// Id of the schedule
        id: String,
        /// User that owns the schedule
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED_USER)]
        user: String,
    },
    /// Resume a schedule that was paused; times that passed meanwhile are not made up for
    Resume {
        /// Id of the schedule
        id: String,
        /// User that owns the schedule
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED_USER)]
        user: String,
    },
    /// Remove a schedule
    Remove {
        /// Id of the schedule
        id: String,
        /// User that owns the schedule
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED_USER)]
        user: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum HooksCommand {
    /// Add a webhook for a workflow and print its secret once
    Add {
        /// Workflow file (uploaded to the database), the name of a workflow of the project, or the id of a stored one
        workflow: String,
        /// Name of the secret with which callers sign requests, instead of a generated secret that they send
        #[arg(long, value_name = "NAME")]
        secret: Option<String>,
        /// Id of the webhook [default: the id of the workflow]
        #[arg(long)]
        id: Option<String>,
        /// User that owns the runs
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED_USER, value_parser = check_user_name)]
        user: String,
    },
    /// List webhooks
    List,
    /// Remove a webhook
    Remove {
        /// Id of the webhook
        id: String,
        /// User that owns the webhook
        #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED_USER)]
        user: String,
    },
}
