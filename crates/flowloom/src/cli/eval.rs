//! What `flowloom eval` takes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum EvalCommand {
    /// Have pipelines made of twenty wishes, run each, and check what comes out
    Author(EvalAuthorArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EvalAuthorArgs {
    /// The wishes to try, by their names [default: all]
    #[arg(value_name = "WISH")]
    pub(crate) wishes: Vec<String>,
    /// The model that thinks and that the blocks ask (p:m), or an alias (named=p:m, *=p:m)
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,
    /// Ask no model: play the conversations that are recorded for five of the wishes
    #[arg(long, conflicts_with = "model")]
    pub(crate) recorded: bool,
    /// Bounds for each wish, and for the run of what was made of it: tokens=N,usd=N,steps=N,time=30s
    #[arg(long, value_name = "BOUNDS")]
    pub(crate) budget: Option<String>,
    /// Keep the records of all authorings in this folder, for flowloom --data-dir DIR show
    #[arg(long, value_name = "DIR")]
    pub(crate) records: Option<PathBuf>,
}
