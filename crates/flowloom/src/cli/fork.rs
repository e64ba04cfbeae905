//! Arguments of `flowloom fork` and `flowloom diff`.

use std::path::PathBuf;

use clap::Args;
use flowloom_app::model_choice::check_model_choice;

use super::OutputArgs;

#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// Run id, unique start or end of an id, or `last`
    pub(crate) run: String,
    /// Reuse the record up to this step, loop item or visit [default: the step that failed, or the first one that
    /// differs]
    #[arg(long, value_name = "PATH")]
    pub(crate) at: Option<String>,
    /// With --at: set a variable before that step. Otherwise: set an input. NAME=TEXT, NAME=@FILE or NAME:=JSON
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Change a field of a step, for example `/summary.prompt=@prompt.txt` or `/summary.prompt=TEXT`
    #[arg(long, value_name = "PATH.FIELD=TEXT")]
    pub(crate) edit: Vec<String>,
    /// Follow this definition instead of the run's own
    #[arg(long, value_name = "FILE")]
    pub(crate) definition: Option<PathBuf>,
    /// Default model, or `NAME=MODEL` for the steps that name NAME
    #[arg(long, value_name = "MODEL", value_parser = check_model_choice)]
    pub(crate) model: Vec<String>,
    /// Limits instead of those of the run: `tokens=N,usd=N,steps=N,time=30s`, each of them optional; what is reused
    /// does not count
    #[arg(long, value_name = "LIMITS")]
    pub(crate) budget: Option<String>,
    /// Perform requests that must not be repeated automatically without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A run (id, unique start or end of an id, or `last`), a definition (file or name), or a stored version: `NAME@2`
    pub(crate) a: String,
    /// What it is compared with: a run, a definition in any format, or a stored version
    pub(crate) b: String,
    /// List the steps that are the same, too
    #[arg(long, short)]
    pub(crate) verbose: bool,
}
