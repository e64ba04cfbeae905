//! Errors of the local language model.

use std::io;

/// Why a model file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be opened.
    #[error("{0}")]
    Open(#[source] io::Error),
    /// The file has another format.
    #[error("it is not a readable GGUF file: {0}")]
    NotGguf(#[source] candle_core::Error),
    /// The weights are incomplete or do not match.
    #[error("cannot read its weights: {0}")]
    Weights(#[source] candle_core::Error),
    /// The architecture is not implemented.
    #[error("models of the architecture `{architecture}` are not supported, only `llama`")]
    UnsupportedArchitecture {
        /// The architecture that the file names.
        architecture: String,
    },
    /// The kind of tokenizer is not implemented.
    #[error("its tokenizer `{tokenizer}` is not supported, only byte-level BPE (`gpt2`)")]
    UnsupportedTokenizer {
        /// The tokenizer that the file names.
        tokenizer: String,
    },
    /// A value of the metadata is missing.
    #[error("its metadata has no `{key}`")]
    MetadataMissing {
        /// The key of the value.
        key: &'static str,
    },
    /// A value of the metadata is of another type.
    #[error("the `{key}` of its metadata is not a list of texts")]
    MetadataNotTexts {
        /// The key of the value.
        key: &'static str,
    },
    /// A merge of the tokenizer is not a pair of tokens.
    #[error("its list of merges is invalid")]
    InvalidMerges,
    /// The tokenizer cannot be built from tokens and merges.
    #[error("cannot build its tokenizer: {0}")]
    Tokenizer(#[source] tokenizers::Error),
    /// The tokenizer refuses the pattern that splits text into words.
    #[error("{0}")]
    WordPattern(#[source] tokenizers::Error),
    /// The tokenizer refuses the special tokens.
    #[error("cannot add its special tokens: {0}")]
    SpecialTokens(#[source] tokenizers::Error),
    /// The chat template is not valid.
    #[error("cannot parse its chat template: {0}")]
    ChatTemplate(#[source] minijinja::Error),
}

/// Why a loaded model has no answer.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    /// The call was dropped.
    #[error("the call was cancelled")]
    Cancelled,
    /// The request contains an image.
    #[error("the local model does not support images")]
    ImagesUnsupported,
    /// The chat template cannot be applied to the conversation.
    #[error("cannot render the conversation with the model's chat template: {0}")]
    ChatTemplate(#[source] minijinja::Error),
    /// The prompt cannot be split into tokens.
    #[error("{0}")]
    Tokenizer(#[source] tokenizers::Error),
    /// The prompt leaves no room for an answer.
    #[error(
        "the prompt has {prompt_tokens} tokens, but the local model's window is {window_tokens} tokens including the \
         answer"
    )]
    PromptTooLong {
        /// Length of the prompt.
        prompt_tokens: usize,
        /// Length of prompt and answer at most.
        window_tokens: usize,
    },
    /// A computation failed.
    #[error("the local model failed: {0}")]
    Compute(#[from] candle_core::Error),
}
