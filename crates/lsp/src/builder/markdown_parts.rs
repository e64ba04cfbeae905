//! The parts of a Markdown workflow: its actions, each with the text in front of it.

use flowloom_core::diagnostic::Span;
use flowloom_core::value::{Map, Value};
use serde_json::{Value as Json, json};

use super::kinds::ELEMENTS as LIST;
use super::markdown_values::read_attribute;
use super::skeletons::PartKind;
use crate::analysis::elements::{ELEMENTS, ElementKind, find_element};
use crate::analysis::mdx::{Element, MdxDocument, read_mdx};

/// The attribute of a part that is the text in front of it.
pub(crate) const TEXT_KEY: &str = "text";

/// The key of a part that says whether it begins a phase.
pub(crate) const PHASE_KEY: &str = "newPhase";

/// The key of the definition that is the text after the last action.
pub(crate) const AFTER_KEY: &str = "after";

/// A Markdown text with its actions.
pub(super) struct Actions {
    pub(super) document: MdxDocument,
    /// The actions, as positions among the elements.
    pub(super) actions: Vec<Action>,
}

/// An action among its siblings.
pub(super) struct Action {
    /// Its position among the elements.
    pub(super) element: usize,
    /// The kind of it.
    pub(super) kind: &'static ElementKind,
    /// The position of the action around it among the actions.
    pub(super) parent: Option<usize>,
    /// The text in front of it.
    pub(super) text: Span,
    /// The line in front of that text that ends the phase before; `None` if there is none.
    pub(super) break_line: Option<Span>,
}

impl Actions {
    /// Finds the actions of a text.
    pub(super) fn read(text: &str) -> Actions {
        let document = read_mdx(text);
        let start = document.frontmatter.as_ref().map_or(0, |range| {
            let rest = text.get(range.end..).unwrap_or_default();
            range.end + rest.find('\n').map_or(rest.len(), |at| at + 1)
        });
        let mut actions: Vec<Action> = Vec::new();
        let mut positions: Vec<Option<usize>> = Vec::new();
        // The end of the last action directly inside of each action, and of the document.
        let mut ends: Vec<usize> = Vec::new();
        let mut last_end = start;
        for (index, element) in document.elements.iter().enumerate() {
            let around = element.parent.and_then(|parent| positions[parent]);
            let Some(kind) = find_element(&element.name) else {
                positions.push(around);
                continue;
            };
            let from = around.map_or(last_end, |parent| ends[parent]);
            let (break_line, text) = find_text(text, from, element.span.start);
            match around {
                Some(parent) => ends[parent] = element.span.end(),
                None => last_end = element.span.end(),
            }
            positions.push(Some(actions.len()));
            ends.push(element.tag.end());
            actions.push(Action { element: index, kind, parent: around, text, break_line });
        }
        Actions { document, actions }
    }

    /// The element of an action.
    pub(super) fn element(&self, action: usize) -> &Element {
        &self.document.elements[self.actions[action].element]
    }

    /// The actions directly inside of an action, or of the document.
    pub(super) fn children(&self, parent: Option<usize>) -> Vec<usize> {
        (0..self.actions.len()).filter(|index| self.actions[*index].parent == parent).collect()
    }

    /// Whether an action can begin a phase: nothing but actions of the document can, and the first of them always does.
    pub(super) fn can_begin_phase(&self, action: usize) -> bool {
        action > 0 && self.actions.get(action).is_some_and(|action| action.parent.is_none())
    }

    /// The text after the last action of the document.
    pub(super) fn trailing_span(&self, text: &str) -> Span {
        let last = self.children(None).last().map(|last| self.element(*last).span.end());
        let start = last.unwrap_or_else(|| {
            self.document.frontmatter.as_ref().map_or(0, |range| {
                let rest = text.get(range.end..).unwrap_or_default();
                range.end + rest.find('\n').map_or(rest.len(), |at| at + 1)
            })
        });
        let rest = &text[start..];
        let blank = rest.len() - rest.trim_start().len();
        Span { start: start + blank, length: rest.trim().len() }
    }

    /// The value of an action.
    pub(super) fn value(&self, text: &str, action: usize) -> Value {
        let written = self.actions[action].text;
        let mut map = Map::new();
        let before = remove_indent(text[written.start..written.end()].trim_end());
        map.insert(TEXT_KEY.into(), before.into());
        if self.can_begin_phase(action) && self.actions[action].break_line.is_some() {
            map.insert(PHASE_KEY.into(), true.into());
        }
        for attribute in &self.element(action).attributes {
            let value = attribute.value.and_then(|span| text.get(span.start..span.end()));
            let value = value.map_or(Value::from(true), |written| read_attribute(written, attribute.is_expression));
            map.insert(attribute.name.as_str().into(), value);
        }
        map.into()
    }
}

/// The text between two places that belongs to what follows, without the comments, imports and breaks at its start; and
/// before it, the last of these breaks.
fn find_text(text: &str, from: usize, to: usize) -> (Option<Span>, Span) {
    let (mut start, mut at, mut break_line) = (from, from, None);
    for line in text[from..to].split_inclusive('\n') {
        let (span, trimmed) = (Span { start: at, length: line.len() }, line.trim());
        at += line.len();
        let is_break = is_break(trimmed);
        if is_break {
            break_line = Some(span);
        }
        if is_break || trimmed.starts_with('>') || trimmed.starts_with("import ") {
            start = at;
        }
    }
    let start = start + (text[start..to].len() - text[start..to].trim_start().len());
    (break_line, Span { start, length: to - start })
}

/// Whether a line separates phases.
fn is_break(line: &str) -> bool {
    ["---", "***", "___"].contains(&line)
}

/// A text without the white space that all its lines begin with.
pub(super) fn remove_indent(text: &str) -> String {
    let measure = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let inner = text.lines().skip(1).filter(|line| !line.trim().is_empty());
    let common = inner.map(measure).min().unwrap_or_default();
    let lines: Vec<&str> = text
        .lines()
        .enumerate()
        .map(|(index, line)| if index == 0 { line } else { line.get(common.min(measure(line))..).unwrap_or_default() })
        .collect();
    lines.join("\n")
}

/// The kinds of actions.
pub(super) fn list_element_kinds() -> Vec<PartKind> {
    ELEMENTS.iter().map(|element| PartKind::new(LIST, element.name, element.meaning)).collect()
}

/// The form of an action.
pub(super) fn write_element_form(kind: &ElementKind, can_begin_phase: bool) -> Json {
    let mut properties = serde_json::Map::new();
    if can_begin_phase {
        let phase = json!({"type": "boolean", "default": false, "title": "New phase",
            "description": "Begins a conversation of its own: the model no longer sees the texts and answers before it"});
        properties.insert(PHASE_KEY.into(), phase);
    }
    if kind.name != "Else" {
        let text = json!({"type": "string", "x-widget": "template", "x-references": "{}", "x-long": true,
            "description": "What the model reads before this action; names in braces are replaced"});
        properties.insert(TEXT_KEY.into(), text);
    }
    for attribute in kind.attributes {
        properties.insert(attribute.name.into(), write_attribute_form(attribute.name, attribute.meaning));
    }
    let required: Vec<&str> =
        kind.attributes.iter().filter(|one| is_required(one.meaning)).map(|one| one.name).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn is_required(meaning: &str) -> bool {
    meaning.starts_with("Required.")
}

fn write_attribute_form(name: &str, meaning: &str) -> Json {
    let number = |meaning: &str| json!({"type": "number", "description": meaning});
    let mut form = match name {
        "as" => json!({"type": "string", "x-widget": "name"}),
        "model" => json!({"type": "string", "x-widget": "model"}),
        "schema" => json!({"x-widget": "schema", "x-language": "javascript"}),
        "role" | "schemaDescription" => json!({"type": "string", "x-long": true}),
        "schemaName" => json!({"type": "string"}),
        "stream" => json!({"type": "boolean"}),
        "max" => json!({"type": "integer"}),
        "output" => json!({"type": "string", "enum": ["object", "array", "enum", "no-schema"]}),
        "tools" => {
            json!({"type": "array", "items": {"type": "string", "x-widget": "reference", "x-names": "function"}})
        }
        "enum" => json!({"type": "array", "items": {"type": "string"}}),
        "options" => json!({"type": "object", "properties": {
            "maxTokens": {"type": "integer", "description": "Maximum length of the answer, in tokens"},
            "temperature": number("Sampling temperature; 0 gives the most predictable answers"),
            "topP": number("Share of the most likely words that are considered, from 0 to 1"),
            "topK": {"type": "integer"},
            "seed": {"type": "integer"},
            "presencePenalty": number(""),
            "frequencyPenalty": number(""),
            "stop": {"type": "array", "items": {"type": "string"}, "description": "Strings that end the answer"}}}),
        _ => json!({"x-widget": "code", "x-language": "javascript"}),
    };
    form["description"] = meaning.trim_start_matches("Required. ").replace('`', "").into();
    form
}
