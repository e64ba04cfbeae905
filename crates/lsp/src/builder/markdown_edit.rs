//! Changes of a Markdown workflow: attributes, texts, and whole actions.

use std::ops::Range;

use flowloom_core::value::Value;

use super::edit::EditContext;
use super::markdown_parts::{AFTER_KEY, Actions, PHASE_KEY, TEXT_KEY};
use super::markdown_values::write_attribute;
use super::names::TakenNames;
use super::yaml_edit;
use super::{BuildError, kinds};
use crate::analysis::json_place::{JsonPath, PathStep};
use crate::analysis::names::NameKind;

/// A line that separates two turns, or encloses the frontmatter.
const BREAK_LINE: &str = "---\n";

/// A Markdown text.
pub(super) struct MarkdownText {
    pub(super) text: String,
}

/// The target of a path in a Markdown workflow.
enum EditTarget<'p> {
    /// An action, or a list of actions inside one.
    Action(usize),
    /// An attribute of an action, or a part of its value.
    Attribute(usize, &'p str, &'p [PathStep]),
    /// The actions of the document.
    Document,
    /// The text at the end.
    After,
    /// A value of the frontmatter.
    Frontmatter,
}

impl MarkdownText {
    fn actions(&self) -> Actions {
        Actions::read(&self.text)
    }

    fn replace_range(&mut self, range: Range<usize>, new: &str) {
        let had_frontmatter = self.text.starts_with(BREAK_LINE);
        self.text.replace_range(range, new);
        // A break that comes first would begin a frontmatter.
        if !had_frontmatter && self.text.starts_with(BREAK_LINE) {
            self.text.insert(0, '\n');
        }
    }

    /// Gives a value another content.
    pub(super) fn set_value(&mut self, path: &[PathStep], value: &Value) -> Result<(), BuildError> {
        match find_place(path)? {
            EditTarget::Attribute(action, TEXT_KEY, []) => self.set_text(action, value.as_str().unwrap_or_default()),
            EditTarget::Attribute(action, PHASE_KEY, []) => self.set_phase(action, *value == Value::from(true)),
            EditTarget::Attribute(action, name, []) => self.set_attribute(action, name, value),
            EditTarget::Attribute(action, name, below) => {
                let whole = self.value_of(action, name)?;
                self.set_attribute(action, name, &set_below(whole, below, Some(value)))
            }
            EditTarget::After => {
                self.set_after(value.as_str().unwrap_or_default());
                Ok(())
            }
            EditTarget::Frontmatter => yaml_edit::set_value(&mut self.text, &key_names(path)?, value),
            EditTarget::Action(_) | EditTarget::Document => Err(BuildError::Nothing(path.to_vec())),
        }
    }

    /// Removes a value, or an action with the text in front of it.
    pub(super) fn remove(&mut self, path: &[PathStep]) -> Result<(), BuildError> {
        match find_place(path)? {
            EditTarget::Action(action) => self.take_action(action).map(drop),
            EditTarget::Attribute(action, TEXT_KEY, []) => self.set_text(action, ""),
            EditTarget::Attribute(action, PHASE_KEY, []) => self.set_phase(action, false),
            EditTarget::Attribute(action, name, []) => self.remove_attribute(action, name),
            EditTarget::Attribute(action, name, below) => {
                let whole = self.value_of(action, name)?;
                self.set_attribute(action, name, &set_below(whole, below, None))
            }
            EditTarget::After => {
                self.set_after("");
                Ok(())
            }
            EditTarget::Frontmatter => yaml_edit::remove(&mut self.text, &key_names(path)?),
            EditTarget::Document => Err(BuildError::Nothing(path.to_vec())),
        }
    }

    /// Gives a key of the frontmatter another name.
    pub(super) fn rename_key(&mut self, path: &[PathStep], to: &str) -> Result<(), BuildError> {
        match find_place(path)? {
            EditTarget::Frontmatter => yaml_edit::rename_key(&mut self.text, &key_names(path)?, to),
            _ => Err(BuildError::Nothing(path.to_vec())),
        }
    }

    /// Adds the text of an action to those of the document, or of an action.
    fn insert_text(&mut self, list: &[PathStep], at: usize, block: &str) -> Result<(), BuildError> {
        let parent = match find_place(list)? {
            EditTarget::Document => None,
            EditTarget::Action(action) => Some(action),
            _ => return Err(BuildError::Nothing(list.to_vec())),
        };
        let actions = self.actions();
        if parent.is_some_and(|parent| parent >= actions.actions.len()) {
            return Err(BuildError::Nothing(list.to_vec()));
        }
        let siblings = actions.children(parent);
        let indent = match parent {
            Some(parent) => format!("{}  ", self.indent_at(actions.element(parent).span.start)),
            None => String::new(),
        };
        let block = add_indent(block.trim(), &indent);
        match siblings.get(at) {
            Some(next) => {
                let found = &actions.actions[*next];
                // What is added before the first action of a phase belongs to the phase before.
                let phase = found.break_line.filter(|_| actions.can_begin_phase(*next));
                let start = phase.map_or(found.text.start, |line| line.start);
                self.replace_range(start..start, &format!("{block}\n\n{indent}"));
            }
            None => {
                let last = siblings.last().map(|last| actions.element(*last).span.end());
                let end = last.or_else(|| parent.map(|parent| actions.element(parent).tag.end()));
                let end = end.unwrap_or_else(|| self.text.trim_end().len());
                let has_more = !self.text[end..].trim_start().is_empty();
                let closing = if has_more || self.text[end..].starts_with('\n') { "" } else { "\n" };
                let between = if siblings.is_empty() && parent.is_some() { "\n" } else { "\n\n" };
                self.replace_range(end..end, &format!("{between}{indent}{block}{closing}"));
            }
        }
        Ok(())
    }

    /// Moves an action, with the text in front of it, among its siblings.
    pub(super) fn move_action(&mut self, path: &[PathStep], to: usize) -> Result<Option<JsonPath>, BuildError> {
        let EditTarget::Action(action) = find_place(path)? else { return Err(BuildError::Nothing(path.to_vec())) };
        let parent = self.actions().actions.get(action).and_then(|action| action.parent);
        let block = self.take_action(action)?;
        let list = parent.map_or_else(list_path, |parent| super::join_step(&list_path(), PathStep::Index(parent)));
        self.insert_action(&list, to, &block)
    }

    /// Inserts an action and finds where it is.
    pub(super) fn insert_action(
        &mut self,
        list: &[PathStep],
        at: usize,
        block: &str,
    ) -> Result<Option<JsonPath>, BuildError> {
        self.insert_text(list, at, block)?;
        let parent = list.iter().find_map(|step| if let PathStep::Index(index) = step { Some(*index) } else { None });
        let siblings = self.actions().children(parent);
        let found = siblings.get(at.min(siblings.len().saturating_sub(1)));
        Ok(found.map(|action| super::join_step(&list_path(), PathStep::Index(*action))))
    }

    /// The text of an action, with the text in front of it.
    pub(super) fn copy_action(&self, path: &[PathStep]) -> Result<String, BuildError> {
        let EditTarget::Action(action) = find_place(path)? else { return Err(BuildError::Nothing(path.to_vec())) };
        let actions = self.actions();
        let found = actions.actions.get(action).ok_or_else(|| BuildError::Nothing(path.to_vec()))?;
        Ok(remove_indent(&self.text[found.text.start..actions.element(action).span.end()]))
    }

    /// Where an action is among its siblings, and the list that these are.
    pub(super) fn find_position(&self, path: &[PathStep]) -> Result<(JsonPath, usize), BuildError> {
        let EditTarget::Action(action) = find_place(path)? else { return Err(BuildError::Nothing(path.to_vec())) };
        let actions = self.actions();
        let parent = actions.actions.get(action).ok_or_else(|| BuildError::Nothing(path.to_vec()))?.parent;
        let at = actions.children(parent).iter().position(|sibling| *sibling == action).unwrap_or_default();
        let list = parent.map_or_else(list_path, |parent| super::join_step(&list_path(), PathStep::Index(parent)));
        Ok((list, at))
    }

    /// Removes an action and returns its text.
    fn take_action(&mut self, action: usize) -> Result<String, BuildError> {
        let path = super::join_step(&list_path(), PathStep::Index(action));
        let block = self.copy_action(&path)?;
        let actions = self.actions();
        let (start, end) = (actions.actions[action].text.start, actions.element(action).span.end());
        let behind = &self.text[end..];
        let blank = behind.len() - behind.trim_start().len();
        let ends_here = behind.trim_start().is_empty() || behind.trim_start().starts_with("</");
        match ends_here {
            // The white space in front of it separates the rest from the end.
            true => {
                let before = self.text[..start].trim_end().len();
                let closing = if behind.trim_start().is_empty() { "\n" } else { "" };
                let end = if closing.is_empty() { end } else { self.text.len() };
                self.replace_range(before..end, closing);
            }
            false => self.replace_range(start..end + blank, ""),
        }
        Ok(block)
    }

    fn set_text(&mut self, action: usize, new: &str) -> Result<(), BuildError> {
        let actions = self.actions();
        let found = actions.actions.get(action).ok_or_else(|| missing(action))?;
        let indent = self.indent_at(actions.element(action).span.start).to_owned();
        let new = new.trim();
        let written = if new.is_empty() { String::new() } else { format!("{}\n\n{indent}", add_indent(new, &indent)) };
        self.replace_range(found.text.start..found.text.end(), &written);
        Ok(())
    }

    /// Separates an action from the phase before it, or joins it with that.
    fn set_phase(&mut self, action: usize, is_new: bool) -> Result<(), BuildError> {
        let actions = self.actions();
        let found = actions.actions.get(action).filter(|_| actions.can_begin_phase(action));
        let found = found.ok_or_else(|| missing(action))?;
        match (found.break_line, is_new) {
            (None, true) => {
                let start = found.text.start;
                let before = self.text[..start].trim_end().len();
                self.replace_range(before..start, &format!("\n\n{BREAK_LINE}\n"));
            }
            (Some(line), false) => {
                let before = self.text[..line.start].trim_end().len();
                self.replace_range(before..line.end(), "\n");
            }
            _ => {}
        }
        Ok(())
    }

    fn set_after(&mut self, new: &str) {
        let span = self.actions().trailing_span(&self.text);
        let before = self.text[..span.start].trim_end().len();
        let gap = if before == 0 { "" } else { "\n\n" };
        let closing = if new.trim().is_empty() { "\n".to_owned() } else { format!("{gap}{}\n", new.trim()) };
        self.replace_range(before..self.text.len(), &closing);
    }

    fn value_of(&self, action: usize, name: &str) -> Result<Value, BuildError> {
        let actions = self.actions();
        if action >= actions.actions.len() {
            return Err(missing(action));
        }
        Ok(actions.value(&self.text, action).get(name).cloned().unwrap_or_default())
    }

    fn set_attribute(&mut self, action: usize, name: &str, value: &Value) -> Result<(), BuildError> {
        let actions = self.actions();
        if action >= actions.actions.len() {
            return Err(missing(action));
        }
        if *value == Value::Null || value.as_map().is_some_and(|map| map.is_empty()) {
            return self.remove_attribute(action, name);
        }
        if actions.value(&self.text, action).get(name) == Some(value) {
            return Ok(());
        }
        let element = actions.element(action);
        let new = format!("{name}={}", write_attribute(value));
        if let Some(range) = find_attribute(element, name) {
            self.replace_range(range, &new);
            return Ok(());
        }
        let last = element.attributes.last().map(|last| last.name.clone());
        let last = last.and_then(|last| find_attribute(element, &last));
        let (end, gap) = match last {
            Some(range) => {
                let line = self.text[..range.start].rfind('\n').map_or(0, |at| at + 1);
                let lead = &self.text[line..range.start];
                let gap = if lead.trim().is_empty() && line > 0 { format!("\n{lead}") } else { " ".to_owned() };
                (range.end, gap)
            }
            None => (element.name_span.end(), " ".to_owned()),
        };
        self.replace_range(end..end, &format!("{gap}{new}"));
        Ok(())
    }

    fn remove_attribute(&mut self, action: usize, name: &str) -> Result<(), BuildError> {
        let actions = self.actions();
        if action >= actions.actions.len() {
            return Err(missing(action));
        }
        if let Some(range) = find_attribute(actions.element(action), name) {
            let start = self.text[..range.start].trim_end().len();
            self.replace_range(start..range.end, "");
        }
        Ok(())
    }

    fn indent_at(&self, at: usize) -> &str {
        super::json_write::find_indent(&self.text, at)
    }
}

fn missing(action: usize) -> BuildError {
    BuildError::Nothing(super::join_step(&list_path(), PathStep::Index(action)))
}

fn list_path() -> JsonPath {
    super::key_path(&[kinds::ELEMENTS])
}

/// The place of an attribute, with its quotation marks or braces.
fn find_attribute(element: &crate::analysis::mdx::Element, name: &str) -> Option<Range<usize>> {
    let found = element.attributes.iter().find(|attribute| attribute.name == name)?;
    let end = found.value.map_or(found.name_span.end(), |value| value.end() + 1);
    Some(found.name_span.start..end)
}

fn find_place(path: &[PathStep]) -> Result<EditTarget<'_>, BuildError> {
    Ok(match path {
        [PathStep::Key(list)] if list == kinds::ELEMENTS => EditTarget::Document,
        [PathStep::Key(list), PathStep::Index(action)] if list == kinds::ELEMENTS => EditTarget::Action(*action),
        [PathStep::Key(list), PathStep::Index(action), PathStep::Key(name), below @ ..] if list == kinds::ELEMENTS => {
            EditTarget::Attribute(*action, name, below)
        }
        [PathStep::Key(key)] if key == AFTER_KEY => EditTarget::After,
        [PathStep::Key(_), ..] => EditTarget::Frontmatter,
        _ => return Err(BuildError::Nothing(path.to_vec())),
    })
}

fn key_names(path: &[PathStep]) -> Result<Vec<String>, BuildError> {
    let name = |step: &PathStep| match step {
        PathStep::Key(key) => Ok(key.clone()),
        PathStep::Index(index) => Ok(index.to_string()),
    };
    path.iter().map(name).collect()
}

/// A value with another content at a path in it; without one, the content is removed.
pub(super) fn set_below(whole: Value, path: &[PathStep], value: Option<&Value>) -> Value {
    let Some((first, rest)) = path.split_first() else { return value.cloned().unwrap_or_default() };
    match first {
        PathStep::Key(key) => {
            let mut map = whole.as_map().cloned().unwrap_or_default();
            match (rest.is_empty(), value) {
                (true, None) => {
                    map.shift_remove(key.as_str());
                }
                _ => {
                    let inner = map.get(key.as_str()).cloned().unwrap_or_default();
                    map.insert(key.as_str().into(), set_below(inner, rest, value));
                }
            }
            map.into()
        }
        PathStep::Index(index) => {
            let mut items = whole.as_list().map(<[Value]>::to_vec).unwrap_or_default();
            match (rest.is_empty(), value, items.get_mut(*index)) {
                (true, None, Some(_)) => drop(items.remove(*index)),
                (_, _, Some(item)) => *item = set_below(item.clone(), rest, value),
                (_, Some(_), None) => items.push(set_below(Value::Null, rest, value)),
                (_, None, None) => {}
            }
            Value::list(items)
        }
    }
}

pub(super) use super::markdown_parts::remove_indent;

/// A text whose lines, but for the first, begin with white space.
fn add_indent(text: &str, indent: &str) -> String {
    let line = |(index, line): (usize, &str)| match index == 0 || line.trim().is_empty() {
        true => line.to_owned(),
        false => format!("{indent}{line}"),
    };
    text.lines().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// Actions whose results have names that are free. The actions are read once, whatever their number.
pub(super) fn rename_results(block: &str, taken: TakenNames) -> String {
    let actions = Actions::read(block);
    let find_result = |action: usize| {
        let name = actions.value(block, action).get("as").and_then(Value::as_str).map(str::to_owned)?;
        Some((find_attribute(actions.element(action), "as")?, name))
    };
    let results: Vec<(Range<usize>, String)> = (0..actions.actions.len()).filter_map(find_result).collect();
    let free = taken.replace_taken(results.iter().map(|(_, name)| name.clone()).collect(), "_");
    let (mut renamed, mut at) = (String::with_capacity(block.len()), 0);
    for (range, name) in results {
        let Some(name) = free.get(&name) else { continue };
        renamed.push_str(&block[at..range.start]);
        renamed.push_str("as=");
        renamed.push_str(&write_attribute(&name.as_str().into()));
        at = range.end;
    }
    renamed + &block[at..]
}

/// The text of a new action.
pub(super) fn new_action(kind: &str, context: &EditContext<'_>) -> Option<String> {
    let taken = TakenNames::of_kind(&context.index, NameKind::Variable);
    let name = |name: &str| taken.find_free(name, "_");
    let model = context.model;
    let ask = |prompt: &str, result: &str| format!("{prompt}\n\n<GenText as=\"{}\" model=\"{model}\" />", name(result));
    Some(match kind {
        "GenText" => ask("Write one sentence.", "answer"),
        "GenObject" => format!(
            "Describe this in one sentence.\n\n<GenObject\n  as=\"{}\"\n  model=\"{model}\"\n  schema={{$.z.object({{\n    summary: $.z.string(),\n  }})}}\n/>",
            name("data")
        ),
        "Loop" => format!(
            "<Loop as=\"{}\" until={{$.index >= 3}} provide={{{{ round: $.index }}}}>\n  {}\n</Loop>",
            name("rounds"),
            add_indent(&ask("Write line {round} of a poem.", "line"), "  ")
        ),
        "Cond" => format!(
            "<Cond as=\"{}\" if={{true}}>\n  {}\n</Cond>",
            name("choice"),
            add_indent(&ask("Write one sentence.", "answer"), "  ")
        ),
        "Else" => format!("<Else>\n  {}\n</Else>", add_indent(&ask("Write one sentence.", "answer"), "  ")),
        _ => return None,
    })
}
