//! Reads definition files and their fields, and turns everything unexpected into a diagnostic with a position.

use std::ops::Range;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Fix, Span};
use flowloom_core::json::{self, Duplicate, JsonError, JsonErrorKind, Node, NodeKind};
use flowloom_core::value::Value;

use crate::json_recovery::read_rest;
use crate::problems::Problems;

/// The path of a file that belongs to the definition `file`, from its path relative to the definition's folder.
pub(crate) fn related_path(file: &str, place: &str) -> String {
    file.rsplit_once('/').map_or_else(|| place.to_owned(), |(folder, _)| format!("{folder}/{place}"))
}

/// The text of a source file; `None`, with an error, if it is too large, not UTF-8 or empty.
pub(crate) fn read_text<'a>(bytes: &'a [u8], limit: u64, problems: &mut Problems) -> Option<&'a str> {
    if bytes.len() as u64 > limit {
        let message = format_args!("the file is larger than the limit of {limit} bytes");
        problems.add_error(Code::SourceTooLarge, Span::default(), message).help =
            Some("raise limits.source_bytes if the file is meant to be this large".into());
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let span = Span { start: error.valid_up_to(), length: 1 };
            problems.add_error(Code::NotUtf8, span, "the file is not UTF-8 text from here on").help =
                Some("save it as UTF-8".into());
            return None;
        }
    };
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        problems.add_error(Code::EmptySource, Span::default(), "the file is empty").help =
            Some("write a workflow into it".into());
        return None;
    }
    Some(text)
}

/// Parses JSON, and reports errors and repeated keys. After an error whose cause is plain, such as a comment, the rest is
/// read as well, so that all problems are reported together.
pub(crate) fn read_json(
    text: &str,
    parsed: Result<(Node, Vec<Duplicate>), JsonError>,
    problems: &mut Problems,
) -> Option<Node> {
    match parsed {
        Ok((node, duplicates)) => {
            for Duplicate { key, span } in duplicates {
                let message = format_args!("the key {key:?} is given again; only this last value counts");
                problems.add_warning(Code::DuplicateKey, span, message);
            }
            for span in json::find_lone_surrogates(text) {
                let message = "this escape is half of a character, and is read as U+FFFD (\u{fffd})";
                problems.add_warning(Code::NotUtf8, span, message).help =
                    Some("write the character itself, or both of its escapes".into());
            }
            Some(node)
        }
        Err(error) => read_rest(text, error, problems),
    }
}

/// The keys by which people know an object.
const LABEL_KEYS: [&str; 8] = ["name", "id", "type", "functionId", "block_id", "nodeName", "agentId", "tool_name"];

/// The place of an object in a diagnostic: its name, else its first key; the brackets if it is empty.
pub(crate) fn label_span(node: &Node) -> Span {
    let is_label = |node: &&Node| node.as_str().is_some_and(|text| !text.is_empty());
    let label = LABEL_KEYS.iter().find_map(|key| node.get(key).filter(is_label)).map(|node| node.span);
    let first = || node.entries().first().map(|(_, span, _)| *span);
    let brackets = || Span { start: node.span.start, length: node.span.length.min(2) };
    label.or_else(first).unwrap_or_else(brackets)
}

/// The place of the part of a JSON tree to which a JSON pointer leads, as far as it leads.
pub(crate) fn find_pointer_span(tree: &Node, pointer: &str) -> Span {
    let mut node = tree;
    for part in pointer.split('/').skip(1) {
        let key = part.replace("~1", "/").replace("~0", "~");
        let item = || node.items()?.get(key.parse::<usize>().ok()?);
        let Some(next) = node.get(&key).or_else(item) else { break };
        node = next;
    }
    node.span
}

/// The first occurrence of `needle`, JSON-escaped, in the JSON at `span`; the start of the span if there is none.
pub(crate) fn find_span(source: &str, span: Span, needle: &str) -> Span {
    let written = json::write_json(&Value::from(needle));
    let written = &written[1..written.len() - 1];
    match source.get(span.start..span.end()).and_then(|text| text.find(written)) {
        Some(at) => Span { start: span.start + at, length: written.len() },
        None => Span { start: span.start, length: span.length.min(1) },
    }
}

/// Says that the name `part` with which the marked text `written` begins is probably `meant`, and offers to write it there,
/// as a guess.
pub(crate) fn suggest_part(diagnostic: &mut Diagnostic, written: &str, part: &str, meant: &str) {
    let found = written.find(part).map(|at| at..at + part.len());
    suggest_in(diagnostic, written, found, meant);
}

/// Says that the name `part` with which the marked text `written` ends is probably `meant`, and offers to write it there, as
/// a guess.
pub(crate) fn suggest_end(diagnostic: &mut Diagnostic, written: &str, part: &str, meant: &str) {
    let found = written.rfind(part).map(|at| at..at + part.len());
    suggest_in(diagnostic, written, found, meant);
}

fn suggest_in(diagnostic: &mut Diagnostic, written: &str, part: Option<Range<usize>>, meant: &str) {
    let part = part.filter(|_| written.len() == diagnostic.span.length);
    let place = part.map(|part| Span { start: diagnostic.span.start + part.start, length: part.len() });
    diagnostic.suggest_text_at(meant, place);
    diagnostic.help = Some(format!("did you mean {meant:?}?"));
}

/// The diagnostic code of a JSON error.
pub(crate) fn json_code(kind: JsonErrorKind) -> Code {
    match kind {
        JsonErrorKind::Syntax => Code::JsonSyntax,
        JsonErrorKind::Truncated => Code::JsonTruncated,
        JsonErrorKind::TooDeep => Code::JsonTooDeep,
    }
}

/// Reads the fields of one object.
pub(crate) struct Fields<'a> {
    node: &'a Node,
    what: &'a str,
}

impl<'a> Fields<'a> {
    /// The fields of `node`; `None`, with an error, if it is not an object. `what` names it in messages.
    pub(crate) fn read_object(node: &'a Node, what: &'a str, problems: &mut Problems) -> Option<Fields<'a>> {
        // Every part of a definition is an object, so this is where a compilation stops.
        if problems.is_stopped() {
            return None;
        }
        if !matches!(node.kind, NodeKind::Map(_)) {
            let message = format_args!("{what} must be an object, not {}", node.kind_name());
            problems.add_error(Code::WrongKind, node.span, message);
            return None;
        }
        Some(Fields { node, what })
    }

    /// Warns about keys that are not in `known`.
    pub(crate) fn warn_unknown_keys(&self, known: &[&str], problems: &mut Problems) {
        self.warn_keys(known, true, problems);
    }

    /// Warns about keys that are misspellings of keys in `known`, for objects that may have any other key.
    pub(crate) fn warn_misspelt_keys(&self, known: &[&str], problems: &mut Problems) {
        self.warn_keys(known, false, problems);
    }

    fn warn_keys(&self, known: &[&str], is_closed: bool, problems: &mut Problems) {
        // If the right name exists, too, the key was not misspelt.
        let absent: Vec<&str> = known.iter().copied().filter(|known| self.node.get(known).is_none()).collect();
        for (key, span, _) in self.node.entries() {
            if known.contains(&key.as_str()) {
                continue;
            }
            let meant = problems.find_similar(key, absent.iter().copied());
            if meant.is_none() && !is_closed {
                continue;
            }
            let message = format_args!("{} has no key {key:?}", self.what);
            let diagnostic = problems.add_warning(Code::UnknownKey, *span, message);
            diagnostic.help = Some(format!("the keys are {}", known.join(", ")));
            if let Some(meant) = meant {
                diagnostic.help = Some(format!("did you mean {meant:?}?"));
                let title = format!("rename {key:?} to {meant:?}");
                // Where any key is allowed, it may be the author's own.
                diagnostic.fix = Some(Fix::new_safe(title, vec![(*span, format!("{meant:?}"))]).safe_if(is_closed));
            }
        }
    }

    /// The place of the object, for diagnostics that should not underline all of it.
    pub(crate) fn start_span(&self) -> Span {
        label_span(self.node)
    }

    /// The field, if it exists.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.node.get(key)
    }

    /// The field, if it exists and is not null.
    pub(crate) fn get_non_null(&self, key: &str) -> Option<&'a Node> {
        self.node.get(key).filter(|node| !matches!(node.kind, NodeKind::Null))
    }

    /// An optional string field; reports an error if it is not a string.
    pub(crate) fn read_text(&self, key: &str, problems: &mut Problems) -> Option<(&'a str, Span)> {
        let node = self.get_non_null(key)?;
        match node.as_str() {
            Some(text) => Some((text, node.span)),
            None => {
                self.report_wrong_kind(key, node, "text", problems);
                None
            }
        }
    }

    /// Whether a field has a value that is no string, which [`Fields::read_text`] reports.
    pub(crate) fn has_wrong_kind(&self, key: &str) -> bool {
        self.get_non_null(key).is_some_and(|node| node.as_str().is_none())
    }

    /// A required, non-empty string field.
    pub(crate) fn read_required_text(&self, key: &str, problems: &mut Problems) -> Option<(&'a str, Span)> {
        if self.get_non_null(key).is_none() {
            self.report_missing(key, problems);
            return None;
        }
        let (text, span) = self.read_text(key, problems)?;
        if text.is_empty() {
            problems.add_error(Code::MissingKey, span, format_args!("{key:?} of {} is empty", self.what));
            return None;
        }
        Some((text, span))
    }

    /// A required list field, with its span.
    pub(crate) fn read_required_list(&self, key: &str, problems: &mut Problems) -> Option<(&'a [Node], Span)> {
        let Some(node) = self.get(key) else {
            self.report_missing(key, problems);
            return None;
        };
        let Some(items) = node.items() else {
            self.report_wrong_kind(key, node, "a list", problems);
            return None;
        };
        Some((items, node.span))
    }

    /// An optional field with a whole number from 0 up.
    pub(crate) fn read_whole_number(&self, key: &str, problems: &mut Problems) -> Option<(u64, Span)> {
        let node = self.get_non_null(key)?;
        let number = if let NodeKind::Number(number) = &node.kind { number.as_f64() } else { f64::NAN };
        if number.is_nan() {
            let written = node
                .as_str()
                .map(str::trim)
                .filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()));
            let diagnostic = self.report_wrong_kind(key, node, "a number", problems);
            if let Some(written) = written {
                let title = format!("write {written} without quotes");
                diagnostic.help = Some(title.clone());
                diagnostic.fix = Some(Fix::new_safe(title, vec![(node.span, written.to_owned())]));
            }
            return None;
        }
        if number < 0.0 || number.fract() != 0.0 || number > 9e15 {
            let message = format_args!("{key:?} of {} must be a whole number from 0 to 9000000000000000", self.what);
            problems.add_error(Code::OddNumber, node.span, message);
            return None;
        }
        Some((number as u64, node.span))
    }

    /// Reports a missing field.
    pub(crate) fn report_missing<'p>(&self, key: &str, problems: &'p mut Problems) -> &'p mut Diagnostic {
        problems.add_error(Code::MissingKey, self.start_span(), format_args!("{} has no {key:?}", self.what))
    }

    pub(crate) fn report_wrong_kind<'p>(
        &self,
        key: &str,
        node: &Node,
        expected: &str,
        problems: &'p mut Problems,
    ) -> &'p mut Diagnostic {
        let message = format_args!("{key:?} of {} must be {expected}, not {}", self.what, node.kind_name());
        problems.add_error(Code::WrongKind, node.span, message)
    }
}
