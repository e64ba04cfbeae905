//! Errors of a language model. They cross the border of its process, so their causes are texts.

use serde::{Deserialize, Serialize};

/// Why a loaded model has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum GenerationError {
    /// The call was dropped.
    #[error("the call was cancelled")]
    Cancelled,
    /// The request contains an image.
    #[error("the local model does not support images")]
    ImagesUnsupported,
    /// The chat template cannot be applied to the conversation.
    #[error("cannot render the conversation with the model's chat template: {0}")]
    ChatTemplate(String),
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
    Compute(String),
}
