//! What can be asked of the registry of blocks.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum BlocksCommand {
    /// List the blocks
    List,
    /// Print a block's definition
    Show {
        /// Its id
        id: String,
    },
    /// Find blocks by what they do
    Find {
        /// In a few words
        words: String,
        /// Blocks at most
        #[arg(long, default_value_t = 10)]
        limit: u32,
    },
    /// Write blocks into a folder, each as ID.json: beside a pipeline, a folder `blocks` is all it needs
    Export {
        /// The folder
        folder: PathBuf,
        /// Which [default: all that the database keeps]
        ids: Vec<String>,
    },
    /// Keep the blocks of files or folders, all or none
    Import {
        /// JSON files with a block or a list of blocks each, or folders of them
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Take a block away; refused while a pipeline needs it
    Remove {
        /// Its id
        id: String,
    },
}
