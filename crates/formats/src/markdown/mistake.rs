//! [`Mistake`]: a syntax error of Markdown with expressions and elements. It states the error, and how much of the text
//! must be left out to find the next one.

use std::ops::Range;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Fix;
use markdown::message::{Message, Place};

use super::lex;
use super::parse::TextPiece;
use crate::problems::Problems;

/// A syntax error.
pub(super) struct Mistake {
    kind: MistakeKind,
    /// Where the parser noticed it.
    at: usize,
    /// The parser's message, without the position of a tag.
    reason: String,
}

enum MistakeKind {
    /// Too much work.
    Complex,
    /// A tag that is never closed.
    OpenTag(OpenedTag),
    /// An expression that is never closed, whose `{` is here.
    OpenExpression(usize),
    /// A `<` that begins no tag.
    UnfinishedTag,
    /// Something in a tag or an expression.
    Other,
}

/// A part of a text that cannot be read.
pub(super) struct Extent {
    pub(super) range: Range<usize>,
    /// Whether the part may give names to what follows or is in it.
    pub(super) may_name: bool,
}

impl Mistake {
    /// A `<` at an offset, whose paragraph ends before its tag does.
    pub(super) fn unfinished_tag(at: usize) -> Mistake {
        Mistake { kind: MistakeKind::UnfinishedTag, at, reason: "this tag is not closed".to_owned() }
    }

    /// The error of the parser. `expression` is the first line with a text of the expression that was not closed, if one
    /// was not.
    pub(super) fn from_message(message: &Message, text: &str, expression: Option<&str>) -> Mistake {
        let at = match message.place.as_deref() {
            Some(Place::Point(point)) => point.offset,
            Some(Place::Position(position)) => position.start.offset,
            None => 0,
        };
        let (tag, reason) = match find_opened_tag(text, &message.reason) {
            Some((tag, reason)) => (Some(tag), reason),
            None => (None, message.reason.clone()),
        };
        let kind = match tag {
            _ if *message.rule_id == "complex" => MistakeKind::Complex,
            Some(tag) if reason.starts_with("Expected a closing tag") => MistakeKind::OpenTag(tag),
            _ => find_open_brace(text, at, &reason, expression).map_or(MistakeKind::Other, MistakeKind::OpenExpression),
        };
        Mistake { kind, at, reason }
    }

    /// Adds the error to the problems.
    pub(super) fn report_error(&self, text: &TextPiece<'_>, problems: &mut Problems) {
        let code = if let MistakeKind::Complex = self.kind { Code::TooComplex } else { Code::MarkdownSyntax };
        // The unclosed construct is the mistake, not the end of the text.
        let autolink = find_autolink(text.text, self.at);
        let (start, end) = match &self.kind {
            _ if let Some((range, _)) = &autolink => (range.start, range.end),
            MistakeKind::OpenTag(tag) => (tag.start, tag.end),
            MistakeKind::OpenExpression(brace) => (*brace, brace + 1),
            _ => (self.at, (self.at + 1).min(text.text.len())),
        };
        let span = text.file_span(start, end);
        let (help, fix) = match (&autolink, &self.kind) {
            (Some((_, address)), _) => {
                let link = format!("[{address}]({address})");
                let title = format!("write {link}");
                (Some(title.clone()), Some(Fix::new_safe(title, vec![(span, link)])))
            }
            (None, MistakeKind::UnfinishedTag) => {
                (Some("end it with > or />, or write \\< for a sign that is plain text".to_owned()), None)
            }
            (None, _) => syntax_help(text, self.at, &self.reason),
        };
        let message = match autolink {
            Some(_) => "MDX has no links in angle brackets".to_owned(),
            None => clean_reason(text.text, self.at, &self.reason),
        };
        let diagnostic = problems.add_error(code, span, message);
        diagnostic.file = text.file.to_owned();
        (diagnostic.help, diagnostic.fix) = (help, fix);
    }

    /// The part of the text that is left out; `None` if the rest cannot be read either.
    pub(super) fn find_extent(&self, text: &str) -> Option<Extent> {
        let line_end = |start: usize| text[start..].find('\n').map_or(text.len(), |length| start + length);
        let of_tag = |start: usize| {
            let end = lex::measure_tag(text.get(start..)?).map_or_else(|| line_end(start), |length| start + length);
            Some(Extent { range: start..end, may_name: true })
        };
        match &self.kind {
            MistakeKind::Complex => None,
            MistakeKind::OpenTag(tag) => of_tag(tag.start),
            MistakeKind::OpenExpression(brace) => {
                // The value of an attribute spoils its tag.
                let tag = text[..*brace].strip_suffix('=').and_then(|before| before.rfind('<'));
                Some(match tag {
                    Some(tag) => Extent { range: tag..line_end(tag), may_name: true },
                    None => Extent { range: *brace..brace + 1, may_name: false },
                })
            }
            MistakeKind::UnfinishedTag => Some(Extent { range: self.at..self.at + 1, may_name: true }),
            MistakeKind::Other => of_tag(text.get(..(self.at + 1).min(text.len()))?.rfind('<')?),
        }
    }
}

/// The `{` of an expression that is never closed.
fn find_open_brace(text: &str, at: usize, reason: &str, expression: Option<&str>) -> Option<usize> {
    if reason.starts_with("the expression is not closed") {
        return match expression? {
            "" => text.rfind('{'),
            line => text.rmatch_indices(line).find_map(|(start, _)| find_brace_before(&text[..start])),
        };
    }
    let is_open = reason.contains("in expression") || reason.contains("in attribute value expression");
    (is_open && reason.contains("nd of file")).then(|| text.get(..at)?.rfind('{')).flatten()
}

/// The `{` at the end of a text, which white space and the marks of quotes may follow.
fn find_brace_before(text: &str) -> Option<usize> {
    let opened = text.trim_end_matches(|c: char| c.is_whitespace() || c == '>');
    Some(opened.strip_suffix('{')?.len())
}

/// The tag that an error names as not closed.
struct OpenedTag {
    /// The place of `<` and the name in the text.
    start: usize,
    end: usize,
}

/// Finds the tag whose position an error states as `(LINE:COLUMN)`. Returns it with the error without the position.
fn find_opened_tag(text: &str, reason: &str) -> Option<(OpenedTag, String)> {
    let (before, rest) = reason.rsplit_once(" (")?;
    let (position, after) = rest.split_once(')')?;
    let (line, column) = position.split_once(':')?;
    let (line, column): (usize, usize) = (line.parse().ok()?, column.parse().ok()?);
    let line_start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let skipped: usize = text.get(line_start..)?.chars().take(column.checked_sub(1)?).map(char::len_utf8).sum();
    let start = line_start + skipped;
    let name = text.get(start..)?.strip_prefix('<')?.chars().take_while(|c| c.is_alphanumeric()).map(char::len_utf8);
    Some((OpenedTag { start, end: start + 1 + name.sum::<usize>() }, format!("{before}{after}")))
}

/// The parser's message without the parts that only its authors understand.
fn clean_reason(text: &str, at: usize, reason: &str) -> String {
    let reason = reason.split(" (note").next().unwrap_or(reason).trim().replace("\u{2019}", "'");
    let mut reason = reason.trim_end_matches('.').to_owned();
    if let Some(first) = reason.get(..1) {
        reason.replace_range(..1, &first.to_lowercase());
    }
    // The name of an unclosed element may be available only from the text.
    match text.get(..at).and_then(|before| before.rfind('<')).and_then(|open| text.get(open + 1..)) {
        Some(after) if reason.contains("in name") => {
            let name: String = after.chars().take_while(|c| c.is_alphanumeric()).collect();
            if name.is_empty() { reason } else { format!("{reason} (after <{name})") }
        }
        _ => reason,
    }
}

/// Help and a fix for the most common mistakes.
/// The address in angle brackets, which Markdown has and MDX lacks, around a position in its scheme.
fn find_autolink(text: &str, at: usize) -> Option<(Range<usize>, &str)> {
    let start = text.get(..at)?.rfind('<')?;
    let end = start + text[start..].find(['>', '\n', ' '])?;
    let address = text.get(start + 1..end)?;
    let is_address = ["https://", "http://", "mailto:"].iter().any(|scheme| address.starts_with(scheme));
    (is_address && text[end..].starts_with('>') && !address.contains(['(', ')', '[', ']']))
        .then(|| (start..end + 1, address))
}

fn syntax_help(text: &TextPiece<'_>, at: usize, reason: &str) -> (Option<String>, Option<Fix>) {
    let before = text.text.get(..at).unwrap_or_default();
    let after = text.text.get(at..).unwrap_or_default();
    let attribute: String =
        before.chars().rev().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-')).collect();
    if after.starts_with('{') && !attribute.is_empty() && (reason.contains("attribute") || reason.contains("name")) {
        let attribute: String = attribute.chars().rev().collect();
        let edits = vec![(text.file_span(at, at), "=".to_owned())];
        let fix = Fix::new_safe(format!("write {attribute}={{…}} with an equals sign"), edits);
        return (Some(format!("write {attribute}={{…}} with an equals sign")), Some(fix));
    }
    if after.starts_with("!--") || (before.ends_with('<') && after.starts_with('!')) {
        return (Some("write a comment as a line that starts with >, or as {/* … */}".into()), None);
    }
    let help = if reason.contains("closing tag") || reason.contains("closing slash") {
        "an element that is opened must be closed: <Name … /> or <Name …> … </Name> on lines of their own"
    } else if reason.ends_with(lex::BRACE_IN_COMMENT) {
        "write the } that ends the expression on the line below the comment"
    } else if reason.contains("expression") || reason.contains("brace") {
        "write \\{ for a brace that is plain text"
    } else if reason.contains("name") || reason.contains("tag") {
        "write \\< for a sign that is plain text"
    } else {
        return (None, None);
    };
    (Some(help.into()), None)
}
