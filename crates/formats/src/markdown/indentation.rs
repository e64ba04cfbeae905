//! Warns about texts in braces that lose indentation. As in MDX, up to two blanks at the start of each further line of an
//! expression are left out, so lines that begin with fewer move to the right of the others.

use std::collections::HashMap;

use flowloom_core::code::Code;

use super::MarkdownCompiler;
use super::lex::{TextLine, find_text_lines};
use super::parse::TextPiece;

/// Maximum number of blanks that MDX leaves out.
const MAX_LOST_BLANKS: usize = 2;

impl MarkdownCompiler<'_> {
    /// Warns if the lines of a template or fragment lose different numbers of blanks.
    pub(super) fn warn_lost_indentation(&mut self, text: &TextPiece<'_>) {
        // The lines of a fragment were looked at with the expression around it.
        if self.fragments > 0 || !text.text.contains('\n') {
            return;
        }
        let lines = find_text_lines(text.text);
        let mut line_counts: HashMap<usize, usize> = HashMap::new();
        lines.iter().for_each(|line| *line_counts.entry(line.text_start).or_default() += 1);
        // Texts of one line lose nothing. There may be many on a long line.
        let mut several = lines.into_iter().filter(|line| line_counts[&line.text_start] > 1);
        let mut lost_by_text = HashMap::new();
        let differs = |line: &TextLine| {
            let lost = count_lost_blanks(text, line);
            *lost_by_text.entry(line.text_start).or_insert(lost) != lost
        };
        let Some(line) = several.find(differs) else { return };
        let rest = &text.text[line.start..];
        let end = line.start + rest.find(['\r', '\n']).unwrap_or(rest.len());
        let message =
            "this text loses indentation: up to two blanks at the start of each further line in braces are left out";
        let span = text.file_span(line.start, end);
        let diagnostic = self.problems.add_warning(Code::LostIndentation, span, message);
        diagnostic.file = text.file.to_owned();
        diagnostic.help = Some("begin the text on a line of its own, and indent all of its lines by two blanks".into());
    }
}

/// The number of blanks that were left out before a line of text. The first line loses those of the line in which its text
/// begins.
fn count_lost_blanks(text: &TextPiece<'_>, line: &TextLine) -> usize {
    let at = text.file_offset(line.start);
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let count = if line.start == line.text_start {
        let line_start = text.whole[..at].rfind('\n').map_or(0, |end| end + 1);
        let written = text.whole[line_start..].trim_start_matches([' ', '\t']);
        // The blanks of a list or a quotation are not those of the expression.
        match written.starts_with(['-', '*', '+', '>']) || written.starts_with(|c: char| c.is_ascii_digit()) {
            true => MAX_LOST_BLANKS,
            false => text.whole.len() - line_start - written.len(),
        }
    } else {
        text.whole[..at].bytes().rev().take_while(is_blank).count()
    };
    count.min(MAX_LOST_BLANKS)
}
