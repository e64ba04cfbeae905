//! Reads the text of a workflow on a stack that suffices for the deepest text within the limits.

use std::panic::PanicHookInfo;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};

use super::source::check_limits;
use crate::problems::Problems;

/// Stack size for the recursion over the most deeply nested text, in bytes.
const STACK_BYTES: usize = 96 << 20;

/// Name of the threads that read a text.
const PARSER_THREAD: &str = "markdown";

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

    /// Reports the failure to read `text`.
    pub(super) fn add_problem(&self, text: &str, problems: &mut Problems) {
        match self {
            ReadFailure::Parser => {
                let place = find_second_underline(text);
                let span = place.unwrap_or_default();
                let problem = problems.add_error(Code::MarkdownSyntax, span, self.describe_failure());
                let help = if place.is_some() {
                    "add an empty line before this line: it follows the underline of a heading"
                } else {
                    "remove unusual line ends and underlines (--- or ===) from it"
                };
                problem.help = Some(help.into());
                let empty_line = |place: Span| vec![(Span { length: 0, ..place }, "\n".to_owned())];
                problem.fix = place.map(|place| Fix::new_safe("add an empty line", empty_line(place)));
            }
            ReadFailure::Memory => {
                problems.add_error(Code::TooComplex, Span::default(), self.describe_failure());
            }
        }
    }
}

/// The line that looks like the underline of a heading and directly follows one. The parser loses count of what comes after it.
fn find_second_underline(text: &str) -> Option<Span> {
    let is_underline = |line: &str| {
        let line = line.trim();
        line.bytes().all(|byte| byte == b'-') || line.bytes().all(|byte| byte == b'=')
    };
    let is_blank = |line: &str| line.trim().is_empty();
    let (mut before, mut last, mut start) = ("", "", 0);
    for line in text.split_inclusive('\n') {
        let lines = [last, line];
        if !is_blank(before) && lines.iter().all(|line| !is_blank(line) && is_underline(line)) {
            return Some(Span { start, length: line.trim_end().len() });
        }
        (before, last) = (last, line);
        start += line.len();
    }
    None
}

/// Whether the parser of Markdown panics, which is reported as a problem of the text.
pub fn is_parser_panic(panic: &PanicHookInfo<'_>) -> bool {
    let is_ours = std::thread::current().name() == Some(PARSER_THREAD);
    is_ours && panic.location().is_some_and(|place| place.file().contains("/markdown-"))
}

/// Runs `work` on a thread with a large stack: the tree of a text can be as deep as the text is long.
pub(super) fn run_on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, ReadFailure> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(PARSER_THREAD.to_owned()).stack_size(STACK_BYTES);
        let started = thread.spawn_scoped(scope, work);
        started.map_err(|_| ReadFailure::Memory)?.join().map_err(|_| ReadFailure::Parser)
    })
}

/// Runs `work`, which reads `text` as an editor does, on a large stack that no text overflows. Fails with a message if the text
/// is larger, or nested more deeply, than a workflow may be.
pub fn read_within_limits<T: Send>(text: &str, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    check_limits(text)?;
    run_on_large_stack(work).map_err(|failure| failure.describe_failure().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_underline_after_an_underline_is_found() {
        for (text, start) in
            [("a\n-\n--\nc\n-", Some(4)), ("a\n\nb\n===\n  ==\nc\n==\n", Some(9)), ("a\n-\n\n--\n", None)]
        {
            assert_eq!(find_second_underline(text).map(|span| span.start), start, "{text}");
        }
    }
}
