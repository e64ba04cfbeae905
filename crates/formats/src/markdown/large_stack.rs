//! Reads the text of a workflow on a stack that suffices for the deepest text within the limits.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;

use super::source::check_limits;
use crate::problems::Problems;

/// Stack size for the recursion over the most deeply nested text, in bytes.
const STACK_BYTES: usize = 96 << 20;

/// Why a text could not be read at all.
pub(super) enum ReadFailure {
    /// The parser panics on a few texts. They must not look like correct ones.
    Parser,
    /// There is no memory for the stack.
    Memory,
}

impl ReadFailure {
    fn describe_failure(&self) -> &'static str {
        match self {
            ReadFailure::Parser => "the parser of Markdown fails on this text",
            ReadFailure::Memory => "there is not enough memory to read the file",
        }
    }

    pub(super) fn add_problem(&self, problems: &mut Problems) {
        match self {
            ReadFailure::Parser => {
                problems.add_error(Code::MarkdownSyntax, Span::default(), self.describe_failure()).help =
                    Some("remove unusual line ends and underlines (--- or ===) from it".into());
            }
            ReadFailure::Memory => {
                problems.add_error(Code::TooComplex, Span::default(), self.describe_failure());
            }
        }
    }
}

/// Runs `work` on a thread with a large stack: the tree of a text can be as deep as the text is long.
pub(super) fn run_on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, ReadFailure> {
    std::thread::scope(|scope| {
        let started = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        started.map_err(|_| ReadFailure::Memory)?.join().map_err(|_| ReadFailure::Parser)
    })
}

/// Runs `work`, which reads `text` as an editor does, on a large stack that no text overflows. Fails with a message if the text
/// is larger, or nested more deeply, than a workflow may be.
pub fn read_within_limits<T: Send>(text: &str, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    check_limits(text)?;
    run_on_large_stack(work).map_err(|failure| failure.describe_failure().to_owned())
}
