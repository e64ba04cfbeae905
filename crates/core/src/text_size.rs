//! The size that texts may reach: a text can name a large value many times.

use crate::code::Code;
use crate::error::StepFailure;

/// Maximum size in bytes of a text with inserted values, and of a conversation.
pub const MAX_TEXT_BYTES: usize = 64 << 20;

/// Fails with `LimitOutput` if a text or a conversation has more than [`MAX_TEXT_BYTES`].
pub fn check_text_size(bytes: usize) -> Result<(), StepFailure> {
    match bytes <= MAX_TEXT_BYTES {
        true => Ok(()),
        false => {
            let message = format!("a text with its inserted values has more than {} MiB", MAX_TEXT_BYTES >> 20);
            Err(StepFailure::new(Code::LimitOutput, message))
        }
    }
}
