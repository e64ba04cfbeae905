//! Arguments of the commands that maintain definitions: `flowloom fmt`, `convert` and `import`.

use std::path::PathBuf;

use clap::Args;

use super::format_names::FormatParser;

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
    #[arg(long = "as", value_name = "FORMAT", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) format: Option<String>,
    /// The path of the text on stdin, for its format and for messages
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin_filename: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Definition file or folder, the name of a workflow of the project, or `-` for stdin
    pub(crate) file: PathBuf,
    /// Format of the result: markdown, flow, pipeline, graph, steps or agent
    #[arg(long, value_name = "FORMAT", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) to: String,
    /// Output file; one that ends with .jsonc says in comments what is lost [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Write nothing and exit with 1 if something is lost
    #[arg(long)]
    pub(crate) strict: bool,
    /// List what is kept, too
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Format of the definition [default: detected]
    #[arg(long = "as", value_name = "FORMAT", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) format: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// File of the community hub item
    pub(crate) file: PathBuf,
    /// Output file [default: stdout]
    #[arg(short, long)]
    pub(crate) out: Option<PathBuf>,
    /// Replace the output file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}
