//! Arguments of `flowloom new`.

use std::path::PathBuf;

use clap::Args;
use flowloom_app::model_choice::check_model_choice;
use flowloom_app::user_names::check_user_name;

use super::format_names::FormatParser;

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// Description of the pipeline in plain language [default: prompt for it]
    pub(crate) goal: Option<String>,
    /// Output folder [default: named after the pipeline]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Ask no questions and use the description as it is
    #[arg(long, conflicts_with = "answers")]
    pub(crate) yes: bool,
    /// File with answers to questions: a JSON array of strings, or one per line; `-` for stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) answers: Option<PathBuf>,
    /// Also write the pipeline in another format, if that can express it: flow, steps or markdown
    #[arg(long, value_name = "FORMAT", value_parser = FormatParser, hide_possible_values = true)]
    pub(crate) into: Option<String>,
    /// Model for planning and for the blocks (p:m), or a model alias (name=p:m, *=p:m)
    #[arg(long, value_name = "MODEL", value_parser = check_model_choice)]
    pub(crate) model: Vec<String>,
    /// User whose blocks are available
    #[arg(long, value_name = "ID", default_value = flowloom_store::SHARED_USER, value_parser = check_user_name)]
    pub(crate) user: String,
    /// Limits of the whole command: tokens=N,usd=N,steps=N,time=30s
    #[arg(long, value_name = "LIMITS")]
    pub(crate) budget: Option<String>,
}
