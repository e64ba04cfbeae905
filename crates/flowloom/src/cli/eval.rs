//! Arguments of `flowloom eval`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use flowloom_app::model_choice::check_model_choice;

#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Create pipelines for twenty tasks, run them, and check the results
    Author(EvalAuthorArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EvalAuthorArgs {
    /// Names of the tasks to evaluate [default: all]
    #[arg(value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    /// Model for planning and for the blocks (p:m), or a model alias (name=p:m, *=p:m)
    #[arg(long, value_name = "MODEL", value_parser = check_model_choice)]
    pub(crate) model: Vec<String>,
    /// Call no model: replay the recorded conversations of five tasks
    #[arg(long, conflicts_with = "model")]
    pub(crate) recorded: bool,
    /// Limits per task, for creating the pipeline and for running it: tokens=N,usd=N,steps=N,time=30s
    #[arg(long, value_name = "LIMITS")]
    pub(crate) budget: Option<String>,
    /// Store the journals of all runs in this folder, for `flowloom --data-dir DIR show`
    #[arg(long, value_name = "DIR")]
    pub(crate) records: Option<PathBuf>,
}
