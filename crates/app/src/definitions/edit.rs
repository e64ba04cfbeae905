//! Replacing one field of one step in the text of a definition: what `fork --edit` changes.

use std::collections::BTreeMap;

use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, parse_node, parse_value};
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::value::Value;
use flowloom_formats::{agent, markdown};

use super::bundle::Bundle;
use super::edit_error::EditError;
use super::outline::outline_plan;

/// The common name of the text that a step sends, and the keys that hold it in the formats.
const PROMPT: (&str, [&str; 6]) =
    ("prompt", ["instruction", "promptTemplate", "systemPrompt", "prompt_template", "question", "text"]);

/// Keys of a step whose value is the id of an object elsewhere in the definition that describes the step further.
const REFERENCES: [&str; 2] = ["agentId", "block_id"];

/// Number of tags without an end that are looked at in the text of a Markdown workflow; a text that compiles has none.
const MAX_UNFINISHED_TAGS: u32 = 16;

/// The file in the folder of an agent that holds its system prompt.
const AGENT_PROMPT_FILE: &str = "systemPrompt.md";

/// A change of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEdit {
    /// The path of the step, possibly with iterations and visits.
    pub path: Path,
    /// The field: `prompt`, or a key of the step in its definition; a dot leads into an object.
    pub field: String,
    /// The new text.
    pub text: String,
}

impl Bundle {
    /// The same bundle with one field of a step replaced in the text of its definition. `plan` is compiled from it.
    /// Fails if the plan has no such step, or the step no such field.
    pub fn edit_step(mut self, plan: &Plan, edit: &StepEdit) -> Result<Bundle, EditError> {
        let (file, span, text) = self.find_field(plan, edit)?;
        if let Some(content) = self.files.get_mut(&file) {
            content.replace_range(span.start..span.end(), &text);
        }
        Ok(self)
    }

    /// The prompt of a step as the text of its definition has it: with references. `None` if it sends no text.
    pub fn read_prompt(&self, plan: &Plan, path: &Path) -> Option<String> {
        let edit = StepEdit { path: path.clone(), field: PROMPT.0.to_owned(), text: String::new() };
        let (file, span, _) = self.find_field(plan, &edit).ok()?;
        let written = self.files.get(&file)?.get(span.start..span.end())?;
        let value = parse_value(written).ok();
        Some(value.as_ref().and_then(Value::as_str).unwrap_or(written.trim()).to_owned())
    }

    /// The ids of the other steps that an edit changes, too: they share the agent or the block that has the field.
    pub fn list_shared_steps(&self, plan: &Plan, edit: &StepEdit) -> Vec<String> {
        let Ok(span) = find_step_span(plan, &edit.path) else { return Vec::new() };
        let Some((tree, _)) = self.files.get(&self.entry).and_then(|text| parse_node(text).ok()) else {
            return Vec::new();
        };
        let Some(own) = find_object(&tree, span) else { return Vec::new() };
        let has_field = |node: &Node| find_field(node, &edit.field).is_some();
        if has_field(own) || own.get("config").is_some_and(has_field) {
            return Vec::new();
        }
        let mut shared = Vec::new();
        collect_referring(&tree, own, &mut shared);
        shared
    }

    /// The place of the field of an edit, its file first, and the new text.
    fn find_field(&self, plan: &Plan, edit: &StepEdit) -> Result<(String, Span, String), EditError> {
        // An agent is one step, which is its whole definition. Each of its turns is a step of the run.
        let is_agent = self.format == agent::FORMAT && matches!(&*edit.path.drop_repetitions(), "/" | "/turn~1");
        let span = if is_agent { None } else { Some(find_step_span(plan, &edit.path)?) };
        match span {
            Some(span) if self.format == markdown::FORMAT => self.find_markdown_field(span, edit),
            span => self.find_json_field(span, edit),
        }
    }

    /// Looks in the object at the place of a step, or in the whole definition.
    fn find_json_field(&self, step: Option<Span>, edit: &StepEdit) -> Result<(String, Span, String), EditError> {
        let trees: BTreeMap<&String, Node> =
            self.files.iter().filter_map(|(file, text)| Some((file, parse_node(text).ok()?.0))).collect();
        let find_own = |tree| step.map_or(Some(tree), |step| find_object(tree, step));
        let entry = trees.get(&self.entry).and_then(find_own);
        let mut places: Vec<(&String, &Node)> = entry.map(|node| (&self.entry, node)).into_iter().collect();
        let named: Vec<&str> =
            entry.iter().flat_map(|node| REFERENCES.iter().filter_map(|key| node.get(key)?.as_str())).collect();
        for (file, tree) in &trees {
            places.extend(named.iter().filter_map(|id| Some((*file, find_by_id(tree, id)?))));
        }
        let nested: Vec<_> = places.iter().filter_map(|(file, node)| Some((*file, node.get("config")?))).collect();
        places.extend(nested);
        let found = places.iter().find_map(|(file, node)| Some((*file, find_field(node, &edit.field)?)));
        if edit.field == PROMPT.0
            && found.is_none()
            && let Some((file, length)) = self.find_prompt_file(&trees, &named)
        {
            return Ok((file, Span { start: 0, length }, edit.text.clone()));
        }
        let Some((file, node)) = found else {
            let names = |(_, node): &(&String, &Node)| {
                node.entries().iter().map(|(name, _, _)| name.clone()).collect::<Vec<_>>()
            };
            let mut fields: Vec<String> = places.iter().flat_map(names).collect();
            fields.sort();
            fields.dedup();
            return Err(EditError::NoSuchField { path: edit.path.clone(), field: edit.field.clone(), fields });
        };
        let text = match node.as_str() {
            Some(_) => flowloom_core::render::to_json(&Value::from(edit.text.as_str())),
            None => parse_value(&edit.text).map_or_else(
                |_| flowloom_core::render::to_json(&Value::from(edit.text.as_str())),
                |value| flowloom_core::render::to_json(&value),
            ),
        };
        Ok((file.clone(), node.span, text))
    }

    /// The file with the system prompt of an agent that has a folder of its own, and its length.
    fn find_prompt_file(&self, trees: &BTreeMap<&String, Node>, named: &[&str]) -> Option<(String, usize)> {
        let is_named = |tree: &Node| tree.get("agentId").and_then(Node::as_str).is_some_and(|id| named.contains(&id));
        let folders = trees.iter().filter(|(_, tree)| is_named(tree)).filter_map(|(file, _)| file.rsplit_once('/'));
        let mut prompts = folders.map(|(folder, _)| format!("{folder}/{AGENT_PROMPT_FILE}"));
        prompts.find_map(|file| Some((file.clone(), self.files.get(&file)?.len())))
    }

    fn find_markdown_field(&self, step: Span, edit: &StepEdit) -> Result<(String, Span, String), EditError> {
        let text = self.files.get(&self.entry).map_or("", String::as_str);
        let tag = find_whole_tag(text, step);
        let found = match edit.field == PROMPT.0 {
            true => Some((find_text_before(text, step), format!("{}\n\n", edit.text.trim()))),
            false => {
                let value = flowloom_core::render::to_json(&Value::from(edit.text.as_str()));
                find_attribute(text, tag, &edit.field).map(|span| (span, format!("{{{value}}}")))
            }
        };
        match found {
            Some((span, text)) => Ok((self.entry.clone(), span, text)),
            None => Err(EditError::NoSuchField {
                path: edit.path.clone(),
                field: edit.field.clone(),
                fields: [PROMPT.0.to_owned()].into_iter().chain(list_attributes(text, tag)).collect(),
            }),
        }
    }
}

/// The place of a step in the text of its definition.
fn find_step_span(plan: &Plan, path: &Path) -> Result<Span, EditError> {
    let outline = outline_plan(plan);
    let wanted = path.drop_repetitions();
    let paths: Vec<&Path> = outline.nodes.iter().map(|node| &node.path).collect();
    let found = find_path(&paths, &wanted).and_then(|found| outline.nodes.iter().find(|node| node.path == *found));
    let node = found.ok_or_else(|| EditError::NoSuchStep {
        path: path.clone(),
        steps: paths.iter().map(ToString::to_string).collect(),
    })?;
    node.span.ok_or_else(|| EditError::Included(path.clone()))
}

/// The path that a person means: this one, or the only one that ends with it.
pub(crate) fn find_path<'a>(paths: &[&'a Path], wanted: &str) -> Option<&'a Path> {
    if let Some(exact) = paths.iter().find(|path| path.as_str() == wanted) {
        return Some(exact);
    }
    let mut ends = paths.iter().filter(|path| has_end(path, wanted));
    match (ends.next(), ends.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Whether a path ends with `end`, which may lack its first slash.
pub(crate) fn has_end(path: &Path, end: &str) -> bool {
    let end = end.strip_prefix('/').unwrap_or(end);
    path.as_str().strip_suffix(end).is_some_and(|before| before.ends_with('/'))
}

/// The ids of the objects that name the same agent or block as another one.
fn collect_referring(node: &Node, other: &Node, found: &mut Vec<String>) {
    let named = |node: &Node, key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
    let is_same = |key: &&str| named(node, key).is_some_and(|id| named(other, key) == Some(id));
    if node.span != other.span && REFERENCES.iter().any(is_same) {
        found.extend(named(node, "id"));
    }
    let below = node.items().into_iter().flatten().chain(node.entries().iter().map(|(_, _, value)| value));
    below.for_each(|child| collect_referring(child, other, found));
}

/// The smallest object that contains a place.
fn find_object(node: &Node, place: Span) -> Option<&Node> {
    if node.span.start > place.start || node.span.end() < place.end() {
        return None;
    }
    let below = node.items().into_iter().flatten().chain(node.entries().iter().map(|(_, _, value)| value));
    let inner = below.filter_map(|child| find_object(child, place)).next();
    inner.or_else(|| (!node.entries().is_empty()).then_some(node))
}

/// The object whose `id` is this one.
fn find_by_id<'a>(node: &'a Node, id: &str) -> Option<&'a Node> {
    if node.get("id").and_then(Node::as_str) == Some(id) {
        return Some(node);
    }
    let mut below = node.items().into_iter().flatten().chain(node.entries().iter().map(|(_, _, value)| value));
    below.find_map(|child| find_by_id(child, id))
}

/// The value of a field of an object: by its key, by keys with dots between them, or the prompt.
fn find_field<'a>(node: &'a Node, field: &str) -> Option<&'a Node> {
    if let Some(value) = node.get(field) {
        return Some(value);
    }
    if field == PROMPT.0 {
        return PROMPT.1.iter().find_map(|key| node.get(key));
    }
    let (first, rest) = field.split_once('.')?;
    find_field(node.get(first)?, rest)
}

/// The text of a Markdown workflow before an action, back to the element, comment, or line of dashes before it.
fn find_text_before(text: &str, action: Span) -> Span {
    let before = &text[..action.start];
    let is_boundary = |line: &str| {
        let line = line.trim();
        is_break(line) || line.starts_with('>') || line.starts_with("import ")
    };
    let mut start = find_last_tag_end(before);
    let mut line_start = 0;
    for line in before.split_inclusive('\n') {
        line_start += line.len();
        if is_boundary(line) {
            start = start.max(line_start);
        }
    }
    let start = start + (before[start..].len() - before[start..].trim_start().len());
    Span { start, length: action.start - start }
}

/// Whether a line is the end of the frontmatter, or a break between two turns.
fn is_break(line: &str) -> bool {
    line.len() == 3 && line.bytes().all(|byte| byte == b'-')
}

/// One past the end of the last tag of an element in a text; 0 if there is none.
fn find_last_tag_end(text: &str) -> usize {
    let (mut end, mut from, mut unfinished) = (0, 0, 0);
    while let Some(tag) = text[from..].find('<').map(|at| from + at) {
        let is_tag = text[tag + 1..].starts_with(|c: char| c == '/' || c.is_ascii_uppercase());
        match is_tag.then(|| markdown::measure_tag(&text[tag..])) {
            Some(Some(length)) => (end, from) = (tag + length, tag + length),
            // Each one that does not end is searched to the end of the text.
            Some(None) if unfinished == MAX_UNFINISHED_TAGS => break,
            Some(None) => (from, unfinished) = (tag + 1, unfinished + 1),
            None => from = tag + 1,
        }
    }
    end
}

/// The whole opening tag of an action; a plan has the place of its name only.
fn find_whole_tag(text: &str, action: Span) -> Span {
    let length = text.get(action.start..).and_then(markdown::measure_tag).unwrap_or(action.length);
    Span { length, ..action }
}

/// The value of an attribute of an element: the quoted text, or the expression with its braces.
fn find_attribute(text: &str, element: Span, name: &str) -> Option<Span> {
    let source = text.get(element.start..element.end())?;
    let at = source.match_indices(name).find_map(|(at, _)| {
        let is_start = source[..at].ends_with(char::is_whitespace);
        let rest = &source[at + name.len()..];
        (is_start && rest.starts_with('=')).then_some(at + name.len() + 1)
    })?;
    let rest = &source[at..];
    let length = match rest.chars().next()? {
        quote @ ('"' | '\'') => rest[1..].find(quote)? + 2,
        '{' => {
            let mut depth = 0;
            let end = rest.char_indices().find_map(|(index, c)| {
                depth += match c {
                    '{' => 1,
                    '}' => -1,
                    _ => 0,
                };
                (depth == 0).then_some(index + 1)
            });
            end?
        }
        _ => return None,
    };
    Some(Span { start: element.start + at, length })
}

fn list_attributes(text: &str, element: Span) -> Vec<String> {
    let source = text.get(element.start..element.end()).unwrap_or_default();
    let name = |word: &str| {
        let (name, _) = word.split_once('=')?;
        name.chars().all(char::is_alphanumeric).then(|| name.to_owned())
    };
    source.split_whitespace().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_action_ends_at_the_element_before_it() {
        let text = "---\ntitle: T\n---\n\nOne {a}.\n\n<GenText as=\"x\" />\n\nTwo.\nMore.\n\n<GenText as=\"y\" />\n";
        let second = text.find("<GenText as=\"y\"").expect("there");
        let span = find_text_before(text, Span { start: second, length: 18 });
        assert_eq!(&text[span.start..span.end()], "Two.\nMore.\n\n");
        let nested = "<Loop\n  as=\"a\" until={$.index > 3}>\n  Write {b < 2}.\n\n  <GenText as=\"x\" />\n</Loop>\n";
        let inner = nested.find("<GenText").expect("there");
        let span = find_text_before(nested, Span { start: inner, length: 18 });
        assert_eq!(&nested[span.start..span.end()], "Write {b < 2}.\n\n  ");
        let first = text.find("<GenText as=\"x\"").expect("there");
        let span = find_text_before(text, Span { start: first, length: 18 });
        assert_eq!(&text[span.start..span.end()], "One {a}.\n\n");
    }

    #[test]
    fn attributes_are_found() {
        let text = "<GenText as=\"x\" model='m' options={{ a: {b: 1} }} />";
        let element = find_whole_tag(text, Span { start: 0, length: 8 });
        assert_eq!(element.length, text.len());
        let value = |name| find_attribute(text, element, name).map(|span| &text[span.start..span.end()]);
        assert_eq!(value("model"), Some("'m'"));
        assert_eq!(value("options"), Some("{{ a: {b: 1} }}"));
        assert_eq!(value("role"), None);
        assert_eq!(list_attributes(text, element), ["as", "model", "options"]);
    }
}
