//! Errors of the local embedding model.

/// Why a text has no embedding.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// The file of the tokenizer cannot be used.
    #[error("cannot read its tokenizer: {0}")]
    LoadTokenizer(#[source] tokenizers::Error),
    /// The tokenizer cannot truncate, or cannot split a text.
    #[error("{0}")]
    Tokenizer(#[source] tokenizers::Error),
    /// The file of the weights cannot be used.
    #[error("cannot read its weights: {0}")]
    Weights(#[source] candle_core::Error),
    /// A computation failed.
    #[error("{0}")]
    Compute(#[from] candle_core::Error),
    /// The thread of the computation panicked.
    #[error("it crashed")]
    Crashed(#[source] tokio::task::JoinError),
}
