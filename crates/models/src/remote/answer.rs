//! A provider's answer in our own terms, before its price is computed.

use flowloom_core::Code;
use flowloom_core::chat::ToolCall;

use super::failure::Failure;

/// Maximum size of an answer in bytes, more than any model generates; keeps a broken server from filling the memory.
const MOST_BYTES: usize = 32 << 20;

/// A provider's answer.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The text.
    pub(crate) text: String,
    /// The tool calls.
    pub(crate) calls: Vec<ToolCall>,
    /// Tokens of prompt and answer, if the provider counted them.
    pub(crate) usage: Option<(u64, u64)>,
}

impl Answer {
    /// Appends text and shows it.
    pub(crate) fn push(&mut self, text: &str, show: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        self.text.push_str(text);
        show(text);
        Ok(())
    }

    /// Fails with `ReplyTooLarge` if `more` bytes would exceed the maximum size.
    pub(crate) fn grow(&self, more: usize) -> Result<(), Failure> {
        if self.text.len() + more > MOST_BYTES {
            return Err(Failure::new(Code::ReplyTooLarge, "the answer is too large"));
        }
        Ok(())
    }
}
