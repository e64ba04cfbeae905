//! Arguments of `flowloom blocks`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum BlocksCommand {
    /// List blocks
    List,
    /// Print the definition of a block
    Show {
        /// Id of the block
        id: String,
    },
    /// Search blocks by what they do
    Find {
        /// Description in a few words
        words: String,
        /// Maximum number of blocks to list
        #[arg(long, default_value_t = 10)]
        limit: u32,
    },
    /// Export blocks to a folder, as ID.json files (a folder `blocks` next to a pipeline is found by it)
    Export {
        /// Output folder
        folder: PathBuf,
        /// Ids of the blocks [default: all stored blocks]
        ids: Vec<String>,
        /// Replace files that have other contents
        #[arg(long)]
        force: bool,
    },
    /// Import blocks from files or folders, all or none
    Import {
        /// JSON files with a block or a list of blocks, or folders of such files
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Remove a stored block that no pipeline uses
    Remove {
        /// Id of the block
        id: String,
    },
}
