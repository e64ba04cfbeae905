//! A provider's answer in our own terms, before its price is computed.

use flowloom_core::chat::ToolCall;
use flowloom_core::effect::{FinishReason, ResponseFacts};

use super::error::ProviderError;

/// Maximum size of an answer in bytes, more than any model generates; keeps a broken server from filling the memory.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// Maximum length of the name of the model that answered, in characters.
const MAX_MODEL_NAME_CHARS: usize = 128;

/// A provider's answer.
#[derive(Debug, Default)]
pub(crate) struct ProviderAnswer {
    /// The text.
    pub(crate) text: String,
    /// The tool calls.
    pub(crate) calls: Vec<ToolCall>,
    /// Tokens of prompt and answer, if the provider counted them.
    pub(crate) usage: Option<(u64, u64)>,
    /// The model that answered, as the provider calls it; empty if it does not say.
    pub(crate) model: String,
    /// Why the answer ended early.
    pub(crate) finish_reason: Option<FinishReason>,
    /// Measured facts about the response.
    pub(crate) response: ResponseFacts,
}

impl ProviderAnswer {
    /// Notes which model answers. The name of an untrusted server is cut.
    pub(crate) fn set_model(&mut self, name: &str) {
        if self.model.is_empty() {
            self.model = name.chars().take(MAX_MODEL_NAME_CHARS).collect();
        }
    }

    /// Appends text and shows it.
    pub(crate) fn push_text(&mut self, text: &str, show: &mut dyn FnMut(&str)) -> Result<(), ProviderError> {
        if text.is_empty() {
            return Ok(());
        }
        self.check_size(text.len())?;
        self.text.push_str(text);
        show(text);
        Ok(())
    }

    /// Fails if `more` bytes would exceed the maximum size.
    pub(crate) fn check_size(&self, more: usize) -> Result<(), ProviderError> {
        if self.text.len() + more > MAX_ANSWER_BYTES {
            return Err(ProviderError::AnswerTooLarge);
        }
        Ok(())
    }
}
