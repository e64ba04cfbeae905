//! Changes of the frontmatter of a Markdown workflow, line by line, so that comments and order stay.

use std::sync::Arc;

use flowloom_core::json::write_json;
use flowloom_core::value::Value;
use flowloom_formats::markdown::read_yaml;

use super::BuildError;
use super::markdown_edit::set_below;
use crate::analysis::json_place::PathStep;
use crate::analysis::mdx::read_mdx;
use crate::analysis::yaml::{YamlKey, find_yaml_keys};

/// The frontmatter as an object. Fails if it is not valid, or if it is something else.
pub(super) fn read_frontmatter(text: &str) -> Result<Value, BuildError> {
    let Some(range) = read_mdx(text).frontmatter else { return Ok(Value::map::<&str>([])) };
    match read_yaml(&text[range]).map_err(BuildError::Unreadable)? {
        Value::Null => Ok(Value::map::<&str>([])),
        value @ Value::Map(_) => Ok(value),
        _ => Err(BuildError::Unreadable("the frontmatter has no keys".to_owned())),
    }
}

/// Gives each key of a frontmatter that is one object between braces a line of its own, so that lines can be changed. Returns
/// the frontmatter. Fails like [`read_frontmatter`].
fn put_keys_on_lines(text: &mut String) -> Result<Value, BuildError> {
    let whole = read_frontmatter(text)?;
    let Some((range, map)) = read_mdx(text).frontmatter.zip(whole.as_map()) else { return Ok(whole) };
    let is_blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let has_line = |key: &Arc<str>| find_line(text, range.clone(), &[key.to_string()]).is_some();
    if !text[range.clone()].lines().all(is_blank) && !map.keys().any(has_line) {
        let lines: String = map.iter().map(|(key, value)| write_entry(&[key.to_string()], value)).collect();
        text.replace_range(range, &lines);
    }
    Ok(whole)
}

/// Gives the value at a path of keys another content.
pub(super) fn set_value(text: &mut String, path: &[String], value: &Value) -> Result<(), BuildError> {
    let whole = put_keys_on_lines(text)?;
    let Some(range) = read_mdx(text).frontmatter else {
        let line = write_entry(path, value);
        text.insert_str(0, &format!("---\n{line}---\n\n"));
        return Ok(());
    };
    for depth in (1..=path.len()).rev() {
        let Some(line) = find_line(text, range.clone(), &path[..depth]) else { continue };
        if depth == path.len() {
            return replace_value(text, &line, value);
        }
        let has_block = line.value.trim().is_empty();
        let below: Vec<PathStep> = path[depth..].iter().map(|key| PathStep::Key(key.clone())).collect();
        if has_block && line.end > line.line_end {
            let indent = find_indent_below(text, range, &path[..depth]).unwrap_or_else(|| format!("{}  ", line.indent));
            let entry = write_entry(&path[depth..], value);
            let lines: String = entry.split_inclusive('\n').map(|entry| format!("{indent}{entry}")).collect();
            insert_lines(text, line.end, &lines);
            return Ok(());
        }
        let inner = find_value(&whole, &path[..depth]).cloned().unwrap_or_default();
        let new = set_below(inner, &below, Some(value));
        return replace_value(text, &line, &new);
    }
    let line = write_entry(path, value);
    insert_lines(text, range.end, &line);
    Ok(())
}

/// The indentation of the first key below a path, if it has a line of its own.
fn find_indent_below(text: &str, range: std::ops::Range<usize>, path: &[String]) -> Option<String> {
    let keys = find_yaml_keys(text, range.clone());
    let below = keys.into_iter().find(|key| key.path.len() == path.len() + 1 && key.path.starts_with(path))?;
    find_line(text, range, &below.path).map(|line| line.indent)
}

/// Inserts whole lines. The line before them may have no end yet.
fn insert_lines(text: &mut String, at: usize, lines: &str) {
    let line_end = if text[..at].ends_with('\n') { "" } else { "\n" };
    text.insert_str(at, &format!("{line_end}{lines}"));
}

/// Removes the entry at a path of keys.
pub(super) fn remove(text: &mut String, path: &[String]) -> Result<(), BuildError> {
    let whole = put_keys_on_lines(text)?;
    let Some(range) = read_mdx(text).frontmatter else { return Ok(()) };
    for depth in (1..=path.len()).rev() {
        let Some(line) = find_line(text, range.clone(), &path[..depth]) else { continue };
        if depth == path.len() {
            text.replace_range(line.start..line.end, "");
            return Ok(());
        }
        let below: Vec<PathStep> = path[depth..].iter().map(|key| PathStep::Key(key.clone())).collect();
        let inner = find_value(&whole, &path[..depth]).cloned().unwrap_or_default();
        let new = set_below(inner, &below, None);
        return replace_value(text, &line, &new);
    }
    Ok(())
}

/// Gives the key at a path another name.
pub(super) fn rename_key(text: &mut String, path: &[String], to: &str) -> Result<(), BuildError> {
    let whole = read_frontmatter(text)?;
    let (_, parent) = path.split_last().ok_or_else(|| BuildError::Name("there is no key".to_owned()))?;
    if find_value(&whole, parent).is_some_and(|parent| parent.get(to).is_some()) {
        return Err(BuildError::Name(format!("the key {to:?} already exists")));
    }
    if !is_plain_key(to) {
        return Err(BuildError::Name(format!("{to:?} cannot be a name: write letters, digits and _")));
    }
    let Some(range) = read_mdx(text).frontmatter else { return Ok(()) };
    if let Some(key) = find_yaml_keys(text, range).into_iter().find(|key| key.path == path) {
        text.replace_range(key.span.start..key.span.end(), to);
    }
    Ok(())
}

fn find_value<'v>(whole: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(whole, |value, key| value.get(key))
}

/// An entry that has lines of its own.
struct EntryLine {
    start: usize,
    indent: String,
    /// The text after the colon, without the comment.
    value: String,
    /// Where the text after the colon begins.
    value_start: usize,
    /// Where the value on the line of the key ends; a comment may follow.
    value_end: usize,
    /// The end of the line of the key, with its line break.
    line_end: usize,
    /// The end of the last line of the entry.
    end: usize,
}

fn find_line(text: &str, range: std::ops::Range<usize>, path: &[String]) -> Option<EntryLine> {
    let key: YamlKey = find_yaml_keys(text, range.clone()).into_iter().find(|key| key.path == path)?;
    let start = text[..key.span.start].rfind('\n').map_or(0, |at| at + 1);
    let lead = &text[start..key.span.start];
    // A key between braces has no line of its own.
    if !lead.trim_matches(['"', '\'']).trim().is_empty() {
        return None;
    }
    let indent: String = lead.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
    let line_end = text[start..range.end].find('\n').map_or(range.end, |at| start + at + 1);
    let mut end = line_end;
    let mut at = line_end;
    for line in text[line_end..range.end].split_inclusive('\n') {
        at += line.len();
        let content = line.trim_start_matches([' ', '\t']);
        let width = line.len() - content.len();
        let is_item = width == indent.len() && content.starts_with("- ");
        if content.trim().is_empty() {
            continue;
        }
        if width <= indent.len() && !is_item {
            break;
        }
        end = at;
    }
    let value_start = key.value.start;
    let written = text[value_start..line_end].trim_end_matches(['\n', '\r']);
    let value_end = value_start + find_comment(written).unwrap_or(written.len());
    let value = text[value_start..value_end].to_owned();
    Some(EntryLine { start, indent, value, value_start, value_end, line_end, end })
}

/// Where the comment of a line begins.
fn find_comment(value: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in value.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') && matches!(before, ' ' | '[' | '{' | ',' | ':') => quote = Some(c),
            None if c == '#' && before == ' ' => return Some(value[..at].trim_end().len()),
            None => {}
        }
        before = c;
    }
    None
}

fn replace_value(text: &mut String, line: &EntryLine, value: &Value) -> Result<(), BuildError> {
    let new = format!(" {}", write_flow(value));
    // First the lines below, so that the places on the line of the key stay.
    text.replace_range(line.line_end..line.end, "");
    text.replace_range(line.value_start..line.value_end, &new);
    Ok(())
}

/// A new entry: an object of objects has a line for each.
fn write_entry(path: &[String], value: &Value) -> String {
    let Some((first, rest)) = path.split_first() else { return String::new() };
    let wrap = |value: Value, key: &String| Value::map([(key.as_str(), value)]);
    let value = rest.iter().rev().fold(value.clone(), wrap);
    let key = if is_plain_key(first) { first.clone() } else { write_json(&Value::from(first.as_str())) };
    match value.as_map().filter(|map| !map.is_empty() && path.len() > 1) {
        Some(map) => {
            let line = |(name, value): (&Arc<str>, &Value)| {
                let name = if is_plain_key(name) { name.to_string() } else { write_json(&Value::from(&**name)) };
                format!("  {name}: {}\n", write_flow(value))
            };
            format!("{key}:\n{}", map.iter().map(line).collect::<String>())
        }
        None => format!("{key}: {}\n", write_flow(&value)),
    }
}

fn is_plain_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

/// A value on one line.
fn write_flow(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain_text(text) => text.to_string(),
        Value::List(items) => format!("[{}]", items.iter().map(write_flow).collect::<Vec<_>>().join(", ")),
        Value::Map(map) => {
            let entry = |(key, value): (&Arc<str>, &Value)| {
                let key = if is_plain_key(key) { key.to_string() } else { write_json(&Value::from(&**key)) };
                format!("{key}: {}", write_flow(value))
            };
            format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        other => write_json(other),
    }
}

/// Whether a text is a plain YAML scalar that needs no quotes, even inside a list.
fn is_plain_text(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphabetic() || matches!(c, ' ' | '_' | '.' | '!');
    let is_word = matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n" | "nan"
    );
    !text.is_empty()
        && text.starts_with(char::is_alphabetic)
        && text.chars().all(is_plain)
        && !text.ends_with(' ')
        && !is_word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_lines_are_indented_like_those_beside_them() {
        let set = |text: &str, path: &[&str], value: Value| {
            let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
            let mut text = text.to_owned();
            set_value(&mut text, &path, &value).expect("it can be changed");
            text
        };
        let inputs = "---\ninput:\n    topic: {type: text}\n---\nx\n";
        assert_eq!(
            set(inputs, &["input", "name", "type"], "text".into()),
            "---\ninput:\n    topic: {type: text}\n    name:\n      type: text\n---\nx\n"
        );
        let deep = "---\ninput:\n  topic:\n        type: text\n---\nx\n";
        assert_eq!(
            set(deep, &["input", "topic", "default"], "cats".into()),
            "---\ninput:\n  topic:\n        type: text\n        default: cats\n---\nx\n"
        );
    }
}
