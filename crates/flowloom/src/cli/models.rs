//! Arguments of `flowloom models`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List providers and local models, and what each one needs
    List,
    /// Add a local model: the default one, or any GGUF file
    Pull(PullArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// Name of a known model, GGUF file, or address of one; default: the
    /// models that need no key
    #[arg(value_name = "NAME|FILE|URL")]
    pub(crate) source: Option<String>,
    /// Name of the model after `local:`; default: the name of the file
    #[arg(long = "as", value_name = "NAME", requires = "source")]
    pub(crate) name: Option<String>,
    /// SHA-256 that the file must have
    #[arg(long, value_name = "HEX", requires = "source")]
    pub(crate) sha256: Option<String>,
}
