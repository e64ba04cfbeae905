//! Arguments of the commands that talk in the terminal.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The graph, or an agent
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
    /// Leave out edges that lead nowhere
    #[arg(long)]
    pub(crate) lenient: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// The folder of the workflows, or the file of an agent among them
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) talk: TalkArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TalkArgs {
    /// Say this, and end with the answer
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Forget what was said before
    #[arg(long)]
    pub(crate) new: bool,
    /// The model of agents that name none (p:m), or an alias (named=p:m, *=p:m)
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,
    /// Who talks
    #[arg(long, value_name = "ID", default_value = "local")]
    pub(crate) user: String,
}
