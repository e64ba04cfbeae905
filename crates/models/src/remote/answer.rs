//! An answer of a provider, in our own terms, before it is priced.

use flowloom_core::Code;
use flowloom_core::chat::ToolCall;

use super::failure::Failure;

/// More than any model says at once; keeps a broken server from filling the memory.
const MOST_BYTES: usize = 32 << 20;

/// What a provider said.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The text.
    pub(crate) text: String,
    /// The tools it wants called.
    pub(crate) calls: Vec<ToolCall>,
    /// Tokens of prompt and answer, if it counted them.
    pub(crate) usage: Option<(u64, u64)>,
}

impl Answer {
    /// Adds text and shows it.
    pub(crate) fn push(&mut self, text: &str, show: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        self.text.push_str(text);
        show(text);
        Ok(())
    }

    /// Refuses `more` bytes beyond what an answer can be.
    pub(crate) fn grow(&self, more: usize) -> Result<(), Failure> {
        if self.text.len() + more > MOST_BYTES {
            return Err(Failure::new(Code::ReplyTooLarge, "the answer is too large"));
        }
        Ok(())
    }
}
