//! [`Mistake`]: a syntax error of Markdown with expressions and elements. It states the error, and how much of the text
//! must be left out to find the next one.

use std::ops::Range;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Fix;
use markdown::message::{Message, Place};

use super::lex;
use super::mistake_words::{Explanation, explain_error, find_open_quote};
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
    /// A closing tag, where that of this element was expected.
    OtherClosingTag(OpenedTag),
    /// An expression that is never closed, whose `{` is here.
    OpenExpression(usize),
    /// A `<` that begins no tag.
    UnfinishedTag,
    /// Something in a tag or an expression.
    Other,
}

/// A part of a text that cannot be read.
pub(super) struct Extent {
    /// The place that is left out.
    pub(super) range: Range<usize>,
    /// The other tag of the element, which is left out, too.
    pub(super) partner: Option<Range<usize>>,
    /// The place of what may give names to what follows or is in it; empty if nothing does.
    pub(super) names: Range<usize>,
}

impl Extent {
    /// An element from its tag at `start` on, or a closing tag.
    fn of_tag(text: &str, start: usize) -> Option<Extent> {
        let tag = text.get(start..)?;
        let line = tag.find('\n').unwrap_or(tag.len());
        let end = start + lex::measure_tag(tag).unwrap_or(line);
        Some(Extent { range: start..end, partner: find_closing_tag(text, start..end), names: start..end })
    }
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
        let at = find_open_quote(text, &reason).unwrap_or(at);
        let kind = match tag {
            _ if *message.rule_id == "complex" => MistakeKind::Complex,
            Some(tag) if reason.starts_with("Expected a closing tag") => MistakeKind::OpenTag(tag),
            Some(tag) if reason.starts_with("Unexpected closing tag") => MistakeKind::OtherClosingTag(tag),
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
        let explanation = match (&autolink, &self.kind) {
            (Some((_, address)), _) => {
                let link = format!("[{address}]({address})");
                let help = format!("write {link}");
                let fix = Some(Fix::new_safe(help.clone(), vec![(span, link)]));
                Explanation { message: "MDX has no links in angle brackets".to_owned(), help: Some(help), fix }
            }
            (None, MistakeKind::UnfinishedTag) => {
                let help = "end it with > or />, or write \\< for a sign that is plain text".to_owned();
                Explanation { message: self.reason.clone(), help: Some(help), fix: None }
            }
            (None, _) => explain_error(text, self.at, &self.reason),
        };
        let diagnostic = problems.add_error(code, span, explanation.message);
        diagnostic.file = text.file.to_owned();
        (diagnostic.help, diagnostic.fix) = (explanation.help, explanation.fix);
    }

    /// The part of the text that is left out; `None` if the rest cannot be read either.
    pub(super) fn find_extent(&self, text: &str) -> Option<Extent> {
        match &self.kind {
            MistakeKind::Complex => None,
            MistakeKind::OpenTag(tag) => Extent::of_tag(text, tag.start),
            MistakeKind::OpenExpression(brace) => {
                // The value of an attribute spoils its tag.
                let tag = text[..*brace].strip_suffix('=').and_then(|before| before.rfind('<'));
                let line = |start: usize| text[start..].find('\n').map_or(text.len(), |length| start + length);
                Some(match tag {
                    Some(tag) => Extent { range: tag..line(tag), partner: None, names: tag..line(tag) },
                    None => Extent { range: *brace..brace + 1, partner: None, names: 0..0 },
                })
            }
            MistakeKind::UnfinishedTag => {
                let paragraph = text.get(self.at..)?.find("\n\n").map_or(text.len(), |length| self.at + length);
                Some(Extent { range: self.at..self.at + 1, partner: None, names: self.at..paragraph })
            }
            MistakeKind::OtherClosingTag(tag) => {
                let open = Extent::of_tag(text, tag.start)?;
                let closing = text.get(self.at..)?.find('>').map_or(self.at, |length| self.at + length + 1);
                let name = text[self.at..closing].trim_matches(['<', '/', '>']);
                let is_of_other = text[..tag.start].contains(&format!("<{name}"));
                Some(Extent { partner: (!is_of_other).then_some(self.at..closing), ..open })
            }
            MistakeKind::Other => {
                let end = text.ceil_char_boundary(self.at + 1);
                Extent::of_tag(text, text[..end].rfind('<')?)
            }
        }
    }
}

/// The closing tag of the element whose opening tag is at a place; `None` if it needs none or has none.
fn find_closing_tag(text: &str, tag: Range<usize>) -> Option<Range<usize>> {
    let inner = text[tag.clone()].strip_prefix('<').filter(|inner| !inner.ends_with("/>"))?;
    let name = &inner[..inner.find(|c: char| !c.is_alphanumeric()).filter(|length| *length > 0)?];
    let (opening, closing) = (format!("<{name}"), format!("</{name}>"));
    let mut open_elements = 1;
    let mut at = tag.end;
    while let Some(found) = text[at..].find('<') {
        at += found;
        let rest = &text[at..];
        let is_opened = rest.starts_with(&opening) && !rest[opening.len()..].starts_with(char::is_alphanumeric);
        // Nothing closes after a tag without an end.
        let length = if is_opened { lex::measure_tag(rest)? } else { 1 };
        open_elements += usize::from(is_opened && !rest[..length].ends_with("/>"));
        if rest.starts_with(&closing) {
            open_elements -= 1;
            if open_elements == 0 {
                return Some(at..at + closing.len());
            }
        }
        at += length;
    }
    None
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

/// The address in angle brackets, which Markdown has and MDX lacks, around a position in its scheme.
fn find_autolink(text: &str, at: usize) -> Option<(Range<usize>, &str)> {
    let start = text.get(..at)?.rfind('<')?;
    let end = start + text[start..].find(['>', '\n', ' '])?;
    let address = text.get(start + 1..end)?;
    let is_address = ["https://", "http://", "mailto:"].iter().any(|scheme| address.starts_with(scheme));
    (is_address && text[end..].starts_with('>') && !address.contains(['(', ')', '[', ']']))
        .then(|| (start..end + 1, address))
}
