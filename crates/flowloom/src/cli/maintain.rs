//! Arguments of the commands that maintain definitions: `flowloom fmt` and `convert`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// Definition files or folders; `-` for stdin, which is written to stdout
    #[arg(default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,
    /// Change nothing: list the files that are not formatted, and exit with 1
    #[arg(long)]
    pub(crate) check: bool,
    /// Change nothing: print what would change
    #[arg(long)]
    pub(crate) diff: bool,
    /// Format of the definitions [default: detected]
    #[arg(long = "as", value_name = "FORMAT")]
    pub(crate) format: Option<String>,
}
