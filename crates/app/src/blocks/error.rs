//! [`BlockError`]: why blocks cannot be stored or removed.

use flowloom_core::code::Code;

/// An error of the block registry.
#[derive(Debug, thiserror::Error)]
pub enum BlockError {
    /// Some blocks are incomplete, so none was stored.
    #[error("no block was stored: {}", messages.join("; "))]
    Incomplete {
        /// One sentence for each incomplete block.
        messages: Vec<String>,
        /// One sentence for each problem.
        problems: Vec<String>,
    },
    /// The block is built in.
    #[error("the block {0} is built in; to replace it, store a block with the same id")]
    BuiltIn(String),
    /// There is no such block.
    #[error("there is no block {0}")]
    NotFound(String),
}

impl BlockError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            BlockError::Incomplete { .. } => Code::BlockIncomplete,
            BlockError::BuiltIn(_) => Code::NotMine,
            BlockError::NotFound(_) => Code::NotThere,
        }
    }
}
