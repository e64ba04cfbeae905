//! What can be asked of the registry of blocks.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum BlocksCommand {
    /// Find blocks by what they do
    Find {
        /// In a few words
        words: String,
        /// Blocks at most
        #[arg(long, default_value_t = 10)]
        limit: u32,
    },
}
