//! The words of the formats' original systems in errors that a model or a later step reads.

use flowloom_core::expr::Wording;

/// The words that all six formats use. Recorded runs depend on them.
pub(crate) const ORIGINAL_WORDING: Wording =
    Wording { http_status: "HTTP error! status: ", after_tool_error: "\n Please fix your mistakes." };
