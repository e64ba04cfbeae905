//! Arguments of `flowloom chat` and `flowloom agent`.

use std::path::PathBuf;

use clap::Args;
use flowloom_app::model_choice::check_model_choice;
use flowloom_app::user_names::check_user_name;

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// File of the graph or agent, or its name in the project
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
    /// Ignore dangling edges
    #[arg(long)]
    pub(crate) lenient: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Folder of the workflows, or the file of an agent in it
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TalkArgs {
    /// Send one message, print the answer, and exit; without it, --json prints each answer as a line
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Start a new conversation
    #[arg(long)]
    pub(crate) new: bool,
    /// Model of agents that do not set one (p:m), or a model alias (name=p:m, *=p:m)
    #[arg(long, value_name = "MODEL", value_parser = check_model_choice)]
    pub(crate) model: Vec<String>,
    /// User that owns the conversation
    #[arg(long, value_name = "ID", default_value = "local", value_parser = check_user_name)]
    pub(crate) user: String,
}
