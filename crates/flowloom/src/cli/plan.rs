//! Arguments of `flowloom plan`.

use std::path::PathBuf;

use clap::Args;
use flowloom_app::model_choice::check_model_choice;

use super::format_names::FormatParser;

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// Definition file or folder, or the name of a workflow of the project
    pub(crate) file: PathBuf,
    /// An input: NAME=TEXT, NAME=@FILE or NAME:=JSON; known inputs make the bounds tighter
    #[arg(short = 'i', value_name = "NAME=VALUE")]
    pub(crate) input_values: Vec<String>,
    /// File with all inputs as a JSON object, or - for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Default model, or `NAME=MODEL` for the steps that name NAME
    #[arg(long, value_name = "MODEL", value_parser = check_model_choice)]
    pub(crate) model: Vec<String>,
    /// Exit with 5 if the worst case exceeds a maximum: `usd=0.10`, `tokens=`, `calls=`, `requests=`, `writes=` or `time=`
    #[arg(long, value_name = "NAME=NUMBER", value_delimiter = ',')]
    pub(crate) max: Vec<String>,
    /// Format of the definition [default: detected]
    #[arg(long = "as", value_name = "FORMAT", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) format: Option<String>,
    /// How long effects take: `model=2s,request=300ms,function=300ms,block=200ms`
    #[arg(long, value_name = "NAME=TIME", value_delimiter = ',')]
    pub(crate) latency: Vec<String>,
}
