//! The words for syntax errors in tags and expressions: the messages of the parser are written for its authors.

use std::ops::Range;

use flowloom_core::diagnostic::Fix;

use super::lex;
use super::parse::TextPiece;

/// What is wrong, and how to correct it.
pub(super) struct Explanation {
    pub(super) message: String,
    pub(super) help: Option<String>,
    pub(super) fix: Option<Fix>,
}

/// Help for an element without its closing tag.
const CLOSE_HELP: &str =
    "an element that is opened must be closed: <Name … /> or <Name …> … </Name> on lines of their own";

/// Elements of HTML that have no content.
const EMPTY_ELEMENTS: [&str; 6] = ["br", "hr", "img", "input", "wbr", "col"];

/// Explains the error `reason` of the parser at byte `at` of a text.
pub(super) fn explain_error(text: &TextPiece<'_>, at: usize, reason: &str) -> Explanation {
    TagErrorPlace::new(text, at).explain_reason(reason)
}

/// The `"` or `'` of a value that is never closed, if this is what an error is about.
pub(super) fn find_open_quote(text: &str, reason: &str) -> Option<usize> {
    let (_, rest) = reason.split_once(" in attribute value, expected a corresponding closing quote `")?;
    // Any later one would have closed it.
    text.rfind(rest.chars().next()?)
}

struct TagErrorPlace<'a> {
    text: &'a TextPiece<'a>,
    at: usize,
    before: &'a str,
    after: &'a str,
    /// The tag around the place, such as `</Loop>`.
    tag: String,
}

impl<'a> TagErrorPlace<'a> {
    fn new(text: &'a TextPiece<'a>, at: usize) -> TagErrorPlace<'a> {
        let (before, after) = text.text.split_at(text.text.floor_char_boundary(at));
        // At a closing tag, the place may be its `<`.
        let open = if after.starts_with('<') { Some(at) } else { before.rfind('<') };
        let rest = open.map_or("", |open| &text.text[open + 1..]);
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '.');
        let name = rest.strip_prefix('/').unwrap_or(rest);
        let slash = &rest[..rest.len() - name.len()];
        let name: String = name.chars().take_while(|c| is_name(*c)).collect();
        TagErrorPlace { text, at, before, after, tag: format!("<{slash}{name}>") }
    }

    fn explain_reason(&self, reason: &str) -> Explanation {
        let tag = &self.tag;
        // The rest of a message repeats what is allowed.
        let is_at = |place: &str| reason.split(", expected").next().unwrap_or_default().ends_with(place);
        let quoted = |start: &str| reason.split_once(start).and_then(|(_, rest)| rest.split('`').next());
        if let Some(open) = quoted("Expected a closing tag for `") {
            return self.explain_open_element(open, reason.contains("before the end of"));
        }
        let (message, help) = if is_at("before attribute value") {
            return self.explain_value();
        } else if is_at("in attribute value") {
            let message = format!("the value of {} is not closed", self.attribute_words(self.before));
            (message, "end it with a quotation mark".to_owned())
        } else if is_at("attribute name") {
            return self.explain_attribute(reason);
        } else if let Some(open) = quoted("expected corresponding closing tag for `") {
            (format!("found {tag} where {} was expected", open.replacen('<', "</", 1)), CLOSE_HELP.to_owned())
        } else if reason.contains("Expected the closing tag") {
            let message = format!("{tag} is in another paragraph than the tag that it closes");
            (message, "write both tags in one line, or both on lines of their own".to_owned())
        } else if reason.contains("in tag, expected an open tag first") {
            let opening = tag.replacen("</", "<", 1);
            (format!("{tag} closes nothing"), format!("write {opening} before it, or remove it"))
        } else if reason.contains("in closing tag") {
            ("a closing tag has a name and nothing else".to_owned(), format!("write {tag}"))
        } else if reason.contains("lazy line") {
            let message = "this line is outside of the quote or the list in which its tag or expression begins";
            (message.to_owned(), "start it as the line above it starts, with > or with spaces".to_owned())
        } else if is_at("after self-closing slash") {
            (format!("found {} after the / of {tag}", self.describe_found()), "end the tag with />".to_owned())
        } else if is_at("name") && !self.starts_comment() && !self.after.is_empty() {
            let message = format!("< begins a tag, and {} cannot be in its name", self.describe_found());
            (message, "write \\< for a sign that is plain text".to_owned())
        } else {
            return self.explain_rest(reason);
        };
        Explanation { message, help: Some(help), fix: None }
    }

    /// Explains what is no error of a tag's parts.
    fn explain_rest(&self, reason: &str) -> Explanation {
        let reason = &clean_reason(reason);
        let (message, help) = if self.starts_comment() {
            let help = "write a comment as a line that starts with >, or as {/* … */}";
            ("MDX has no comments between <!-- and -->".to_owned(), Some(help))
        } else if reason.contains("nd of file in expression") {
            let help = "write \\{ for a brace that is plain text";
            ("the expression is not closed: a } is missing".to_owned(), Some(help))
        } else if reason.contains("nd of file") && self.tag != "<>" {
            (format!("{} is not complete", self.tag), Some("end it with > or />"))
        } else if reason.ends_with(lex::BRACE_IN_COMMENT) {
            (reason.clone(), Some("write the } that ends the expression on the line below the comment"))
        } else if reason.contains("expression") || reason.contains("brace") {
            (reason.clone(), Some("write \\{ for a brace that is plain text"))
        } else if reason.contains("name") || reason.contains("tag") {
            (reason.clone(), Some("write \\< for a sign that is plain text"))
        } else {
            (reason.clone(), None)
        };
        Explanation { message, help: help.map(str::to_owned), fix: None }
    }

    fn explain_open_element(&self, open: &str, is_in_paragraph: bool) -> Explanation {
        let name = open.trim_matches(['<', '>']);
        let message = if is_in_paragraph {
            format!("{open} is not closed in its paragraph")
        } else {
            format!("{open} is not closed")
        };
        if EMPTY_ELEMENTS.contains(&name) {
            return Explanation { message, help: Some(format!("write <{name} />")), fix: None };
        }
        Explanation { message, help: Some(CLOSE_HELP.to_owned()), fix: None }
    }

    /// A value that is neither in quotation marks nor in braces.
    fn explain_value(&self) -> Explanation {
        let attribute = self.find_attribute(self.before);
        let length = find_value_end(self.after);
        let value = &self.after[..length];
        let value = value.strip_suffix('/').filter(|_| self.after[length..].starts_with('>')).unwrap_or(value);
        let words = self.attribute_words(self.before);
        let name = attribute.unwrap_or("name");
        if value.is_empty() {
            let help = format!("write {name}=\"text\" or {name}={{expression}}");
            return Explanation { message: format!("{words} has no value"), help: Some(help), fix: None };
        }
        let plain = value.trim_matches(['\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}', '"', '\'']);
        let is_number = plain.starts_with(|c: char| c.is_ascii_digit() || c == '-') && plain.parse::<f64>().is_ok();
        let is_constant = name != "as" && (is_number || matches!(plain, "true" | "false" | "null"));
        let written = if is_constant { format!("{{{plain}}}") } else { format!("\"{plain}\"") };
        let title = format!("write {name}={written}");
        let is_text = !plain.contains(['"', '{', '<']);
        let fix = is_text.then(|| {
            let edits = vec![(self.text.file_span(self.at, self.at + value.len()), written)];
            Fix::new_safe(title.clone(), edits).safe_if(name == "as")
        });
        let message = format!("the value of {words} is neither in quotation marks nor in braces");
        Explanation { message, help: Some(title), fix }
    }

    /// Something between the attributes of a tag.
    fn explain_attribute(&self, reason: &str) -> Explanation {
        let tag = &self.tag;
        if self.after.is_empty() || reason.contains("nd of file") {
            let message = format!("{tag} is not complete");
            return Explanation { message, help: Some("end it with > or />".to_owned()), fix: None };
        }
        let message =
            format!("found {} in {tag}, where an attribute or the end of the tag was expected", self.describe_found());
        let colon = self.before.trim_end().strip_suffix(':').filter(|_| self.after.starts_with(['"', '\'', '{']));
        let (range, new, help) = if let Some(name) = colon {
            let attribute = self.find_attribute_end(name).unwrap_or("name");
            (name.len()..self.at, "=", format!("write {attribute}= with an equals sign"))
        } else if let (true, Some(attribute)) = (self.after.starts_with('{'), self.find_attribute_end(self.before)) {
            (self.at..self.at, "=", format!("write {attribute}={{…}} with an equals sign"))
        } else if self.after.starts_with([',', ';']) {
            (self.at..self.at + 1, " ", "separate attributes by spaces".to_owned())
        } else {
            let help =
                "write attributes as name=\"text\" or name={expression}, and end the tag with > or />".to_owned();
            return Explanation { message, help: Some(help), fix: None };
        };
        let Range { start, end } = range;
        let fix = Fix::new_safe(help.clone(), vec![(self.text.file_span(start, end), new.to_owned())]);
        Explanation { message, help: Some(help), fix: Some(fix) }
    }

    fn starts_comment(&self) -> bool {
        self.after.starts_with("!--") || (self.before.ends_with('<') && self.after.starts_with('!'))
    }

    /// The character at the place, in words.
    fn describe_found(&self) -> String {
        self.after.chars().next().map_or_else(|| "the end of the text".to_owned(), |found| format!("{found:?}"))
    }

    /// The attribute whose equals sign a text ends with.
    fn find_attribute(&self, before: &'a str) -> Option<&'a str> {
        self.find_attribute_end(before.trim_end().strip_suffix('=')?.trim_end())
    }

    /// The name with which a text ends.
    fn find_attribute_end(&self, before: &'a str) -> Option<&'a str> {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let start = before.trim_end_matches(is_name).len();
        Some(&before[start..]).filter(|name| !name.is_empty() && *name != self.tag)
    }

    fn attribute_words(&self, before: &'a str) -> String {
        let attribute = self.find_attribute(before).map(|name| format!("the attribute {name} of "));
        format!("{}{}", attribute.unwrap_or_default(), self.tag)
    }
}

/// The parser's message without the parts that only its authors understand.
fn clean_reason(reason: &str) -> String {
    let reason = reason.split(" (note").next().unwrap_or(reason).trim().replace("\u{2019}", "'");
    let mut reason = reason.trim_end_matches('.').to_owned();
    if let Some(first) = reason.get(..1) {
        reason.replace_range(..1, &first.to_lowercase());
    }
    reason
}

/// The end of a value without straight quotation marks: at white space or the end of the tag, or at a closing curly quote.
fn find_value_end(text: &str) -> usize {
    let curly = text.strip_prefix(['\u{201c}', '\u{201e}', '\u{2018}']);
    let closing = curly.and_then(|inner| {
        let offset = text.len() - inner.len();
        let (at, quote) =
            inner.char_indices().find(|(_, c)| matches!(c, '\u{201d}' | '\u{201c}' | '\u{2019}' | '\n'))?;
        (quote != '\n').then_some(offset + at + quote.len_utf8())
    });
    closing.or_else(|| text.find(|c: char| c.is_whitespace() || c == '>')).unwrap_or(text.len())
}
