//! The fields of a pipeline's block: nodes that use the block give its inputs and read its outputs by name, so a new name of a
//! field is written there, too. The source of a Python block stays: it uses names in ways that only Python knows.

use std::collections::HashSet;

use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, NodeKind, write_json};
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::pipeline;

use super::json_edit::JsonText;
use super::kinds::{BLOCKS, NODES, find_list};
use super::{BuildError, join_key};
use crate::analysis::json_place::PathStep;

/// A new name of a key.
struct Renamed<'a> {
    from: &'a str,
    to: &'a str,
}

/// Changes of a text.
type Changes = Vec<(Span, String)>;

/// Gives a key another name; that of a field of a block, in the nodes that use the block as well. Fails like
/// [`JsonText::rename_key`].
pub(super) fn rename_key(
    format: Format,
    document: &mut JsonText,
    path: &[PathStep],
    to: &str,
) -> Result<(), BuildError> {
    document.rename_key(path, to)?;
    if format != pipeline::FORMAT {
        return Ok(());
    }
    let [block @ .., PathStep::Key(schema), PathStep::Key(properties), PathStep::Key(from)] = path else {
        return Ok(());
    };
    let is_block = block
        .split_last()
        .is_some_and(|(_, list)| find_list(format, &document.tree, BLOCKS).is_some_and(|blocks| blocks.path == list));
    if !is_block || properties != "properties" {
        return Ok(());
    }
    let mut changes = list_changes(document, block, schema, &Renamed { from, to });
    changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = document.text.clone();
    changes.into_iter().for_each(|(span, new)| text.replace_range(span.start..span.end(), &new));
    *document = JsonText::read(text)?;
    Ok(())
}

fn list_changes(document: &JsonText, block: &[PathStep], schema: &str, name: &Renamed<'_>) -> Changes {
    let mut changes = Changes::new();
    let nodes = find_list(pipeline::FORMAT, &document.tree, NODES).and_then(|list| document.find(&list.path));
    let nodes = nodes.and_then(Node::items).unwrap_or_default();
    let id = document.find(&join_key(block, "id")).and_then(Node::as_str);
    let users = || nodes.iter().filter(|node| id.is_some() && node.get("block_id").and_then(Node::as_str) == id);
    match schema {
        "input_schema" => {
            users().filter_map(|node| node.get("inputs")).for_each(|inputs| rename_entry(inputs, name, &mut changes));
            if let Some(prompt) = document.find(&join_key(block, "prompt_template")) {
                let (from, to) = (format!("{{{}}}", name.from), format!("{{{}}}", name.to));
                change_text(prompt, |text| text.replace(&from, &to), &mut changes);
            }
        }
        "output_schema" => {
            let users: HashSet<&str> = users().filter_map(|node| node.get("id")?.as_str()).collect();
            let rename = |text: &str| rename_references(text, &users, name);
            nodes.iter().for_each(|node| change_texts(node, &rename, &mut changes));
        }
        _ => {}
    }
    changes
}

fn rename_entry(inputs: &Node, name: &Renamed<'_>, changes: &mut Changes) {
    let is_taken = inputs.get(name.to).is_some();
    let entry = inputs.entries().iter().find(|(key, _, _)| key == name.from).filter(|_| !is_taken);
    changes.extend(entry.map(|(_, span, _)| (*span, write_json(&Value::from(name.to)))));
}

/// Changes every text in a value.
fn change_texts(node: &Node, change: &impl Fn(&str) -> String, changes: &mut Changes) {
    match &node.kind {
        NodeKind::String(_) => change_text(node, change, changes),
        NodeKind::List(items) => items.iter().for_each(|item| change_texts(item, change, changes)),
        NodeKind::Map(entries) => entries.iter().for_each(|(_, _, value)| change_texts(value, change, changes)),
        _ => {}
    }
}

fn change_text(node: &Node, change: impl Fn(&str) -> String, changes: &mut Changes) {
    let Some(text) = node.as_str() else { return };
    let new = change(text);
    if new != text {
        changes.push((node.span, write_json(&Value::from(new))));
    }
}

/// Renames the field in references such as `{{node.field}}` to these nodes.
fn rename_references(text: &str, nodes: &HashSet<&str>, name: &Renamed<'_>) -> String {
    let mut renamed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        let (before, reference) = rest.split_at(at + 2);
        renamed.push_str(before);
        rest = reference;
        // The end of the name is where a field begins: a name has no dots.
        let node = reference.trim_start().split(['.', '}', '{']).next().unwrap_or_default();
        let dot = reference.len() - reference.trim_start().len() + node.len();
        let field = reference[dot..].strip_prefix('.').filter(|_| nodes.contains(node));
        let Some(after) = field.and_then(|field| field.strip_prefix(name.from)) else { continue };
        if !after.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            renamed.push_str(&reference[..=dot]);
            renamed.push_str(name.to);
            rest = after;
        }
    }
    renamed + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::key_path;

    const TEXT: &str = r#"{
  "pipeline": {"id": "p", "nodes": [
    {"id": "a", "block_id": "ask", "inputs": {"text": "Hi"}},
    {"id": "c", "block_id": "ask", "inputs": {}},
    {"id": "b", "block_id": "other", "inputs": {"text": "{{a.answer}} {{ c.answer.x }} {{a.answers}} {{b.answer}}"}}
  ]},
  "blocks": [{"id": "ask", "prompt_template": "Say {text} to {texts}",
    "input_schema": {"properties": {"text": {"type": "string"}}},
    "output_schema": {"properties": {"answer": {"type": "string"}}}}]
}"#;

    fn rename(schema: &str, field: &str, to: &str) -> String {
        let mut document = JsonText::read(TEXT.to_owned()).expect("JSON");
        let block = [key_path(&["blocks"]), vec![PathStep::Index(0)]].concat();
        let path = [block, key_path(&[schema, "properties", field])].concat();
        rename_key(pipeline::FORMAT, &mut document, &path, to).expect("renamed");
        document.text
    }

    #[test]
    fn nodes_read_an_output_by_its_new_name() {
        let expected = TEXT
            .replace("\"answer\"", "\"reply\"")
            .replace("{{a.answer}} {{ c.answer.x }}", "{{a.reply}} {{ c.reply.x }}");
        assert_eq!(rename("output_schema", "answer", "reply"), expected);
    }

    #[test]
    fn nodes_and_the_prompt_give_an_input_its_new_name() {
        let expected = TEXT
            .replace(r#""inputs": {"text": "Hi"}"#, r#""inputs": {"question": "Hi"}"#)
            .replace("Say {text}", "Say {question}")
            .replace(r#"{"text": {"type""#, r#"{"question": {"type""#);
        assert_eq!(rename("input_schema", "text", "question"), expected);
    }
}
