//! Errors of the local embedding model.

/// Why a text has no embedding.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// The file of the tokenizer cannot be used.
    #[error("cannot read its tokenizer: {0}")]
    LoadTokenizer(#[source] rten_text::tokenizer::FromJsonError),
    /// The tokenizer cannot split a text.
    #[error("{0}")]
    Tokenizer(#[source] rten_text::tokenizer::TokenizerError),
    /// The file of the weights cannot be used.
    #[error("cannot read its weights: {0}")]
    Weights(#[source] rten::LoadError),
    /// A computation failed.
    #[error("{0}")]
    Compute(#[from] rten::RunError),
    /// The model has no output of the expected shape.
    #[error("its output is not one row of numbers for each token")]
    NoOutput,
    /// The thread of the computation cannot be started.
    #[error("cannot start its thread: {0}")]
    NoThread(#[source] std::io::Error),
    /// The thread of the computation panicked.
    #[error("it crashed")]
    Crashed,
}
