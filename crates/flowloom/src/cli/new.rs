//! What `flowloom new` takes.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// What is wanted, in your own words; it is asked for if it is not given
    pub(crate) wish: Option<String>,
    /// The folder that the pipeline is written to [default: named after the pipeline]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Ask nothing: the wish is taken as it is
    #[arg(long, conflicts_with = "answers")]
    pub(crate) yes: bool,
    /// Answers to what may be asked: a JSON list of texts, or one on each line; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) answers: Option<PathBuf>,
    /// Also write it in another format, where that has a place for all of it: flow, steps or markdown
    #[arg(long, value_name = "FORMAT")]
    pub(crate) into: Option<String>,
    /// The model that thinks and that the blocks ask (p:m), or an alias (named=p:m, *=p:m)
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,
    /// Whose blocks there are
    #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED)]
    pub(crate) user: String,
    /// Bounds of it all: tokens=N,usd=N,steps=N,time=30s
    #[arg(long, value_name = "BOUNDS")]
    pub(crate) budget: Option<String>,
}
