//! `memory_keys`: the keys of the user's memory that a pipeline uses. If it declares none, it may use all.

use std::collections::BTreeSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::{Data, Ref, Segment, Template, TemplatePart};
use flowloom_core::json::{Node, parse_node};
use flowloom_core::path::Key;
use flowloom_core::plan::{Leaf, MemoryOperation, MemoryStep, Step, StepKind, Write};

use super::{template, unwrap_pipeline};
use crate::jsonc::blank_comments;
use crate::problems::Problems;
use crate::reader::{Fields, find_span, suggest_end};

/// A name that never exists; it replaces references to undeclared keys.
const UNDECLARED_NAME: &str = "\u{1}undeclared";

/// Blocks whose input `key` is a memory key.
const BLOCKS_WITH_KEY: [&str; 2] = ["memory_read", "memory_write"];

/// The memory keys that a pipeline declares; empty if it may use all.
pub fn memory_keys(text: &str) -> Vec<String> {
    let Ok((node, _)) = parse_node(&blank_comments(text)) else { return Vec::new() };
    let items = unwrap_pipeline(&node).get("memory_keys").and_then(Node::items).unwrap_or_default();
    items.iter().filter_map(Node::as_str).map(str::to_owned).collect()
}

/// The declared keys; reports an error unless they are a list of strings.
pub(super) fn read_declared_keys(fields: &Fields<'_>, problems: &mut Problems) -> BTreeSet<String> {
    let Some(node) = fields.get_non_null("memory_keys") else { return BTreeSet::new() };
    let keys = node.items().map(|items| items.iter().map(Node::as_str).collect::<Option<Vec<_>>>());
    match keys.flatten() {
        Some(keys) => keys.into_iter().map(str::to_owned).collect(),
        None => {
            fields.report_wrong_kind("memory_keys", node, "a list of strings", problems);
            BTreeSet::new()
        }
    }
}

/// Parses a template in which references to undeclared keys have no value.
pub(super) fn parse(text: &str, keys: &BTreeSet<String>) -> Template {
    let mut parsed = template::parse(text);
    for part in &mut parsed.parts {
        if let TemplatePart::Ref(reference) = part
            && memory_key(reference).is_some_and(|key| !is_declared(key, keys))
        {
            reference.name = UNDECLARED_NAME.into();
        }
    }
    parsed
}

/// Whether the reference was one to an undeclared memory key.
pub(super) fn is_undeclared(reference: &Ref) -> bool {
    &*reference.name == UNDECLARED_NAME
}

fn memory_key(reference: &Ref) -> Option<&str> {
    match reference.path.first() {
        Some(Segment::Field(key) | Segment::Key(key)) if &*reference.name == "memory" => Some(key),
        _ => None,
    }
}

fn is_declared(key: &str, keys: &BTreeSet<String>) -> bool {
    keys.is_empty() || keys.contains(key)
}

/// A step that loads stored data of the user into a variable.
pub(super) fn load_step(variable: &str, key: &str, operation: MemoryOperation) -> Step {
    let key = Key::from_name(key).unwrap_or_else(|| Key::numbered_key("load", 1));
    let memory = MemoryStep { operation, prompt: Template::default(), has_default_prompt: true };
    Step { writes: vec![Write::to_variable(variable)], ..Step::new(key, StepKind::Leaf(Leaf::Memory(memory))) }
}

/// A node whose use of the memory is checked.
pub(super) struct CheckedNode<'a> {
    pub(super) id: &'a str,
    pub(super) block: &'a str,
    pub(super) inputs: &'a [(String, Data, Span)],
    /// The text of the definition.
    pub(super) text: &'a str,
}

/// Warns about uses of undeclared keys in a node.
pub(super) fn check_keys(node: &CheckedNode<'_>, keys: &BTreeSet<String>, problems: &mut Problems) {
    let CheckedNode { id: node, block, inputs, text } = *node;
    let mut report_undeclared = |key: &str, span: Span, source: Option<&str>, what: &str| {
        if !problems.has_room_for_warning() {
            problems.add_warning(Code::MemoryKey, span, "");
            return;
        }
        let span = source.map_or(span, |source| find_span(text, span, source));
        let message = format_args!("the node {node} {what} {key:?} of the memory, which memory_keys does not name");
        let meant = problems.find_similar(key, keys.iter().map(String::as_str));
        let diagnostic = problems.add_warning(Code::MemoryKey, span, message);
        match meant {
            Some(meant) => {
                let written = text.get(span.start..span.end()).unwrap_or_default();
                suggest_end(diagnostic, written, key, meant);
                diagnostic.help = Some(format!("did you mean {meant:?}? else add {key:?} to memory_keys"));
            }
            None => diagnostic.help = Some(format!("add {key:?} to memory_keys")),
        }
    };
    for (name, data, span) in inputs {
        data.visit(&mut |template| {
            for reference in template.iter_refs().filter(|reference| is_undeclared(reference)) {
                if let Some(Segment::Field(key) | Segment::Key(key)) = reference.path.first() {
                    report_undeclared(key, *span, Some(&reference.source), "refers to");
                }
            }
        });
        let literal = match data {
            Data::Text(Template { parts }) => match parts.as_slice() {
                [TemplatePart::Text(text)] => Some(text),
                _ => None,
            },
            _ => None,
        };
        if let Some(key) =
            literal.filter(|key| BLOCKS_WITH_KEY.contains(&block) && name == "key" && !is_declared(key, keys))
        {
            let what = if block == "memory_read" { "reads" } else { "writes" };
            report_undeclared(key, *span, None, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_declared_keys_are_read_and_all_if_there_are_none() {
        let keys = BTreeSet::from(["a".to_owned()]);
        let names = |text: &str, keys: &BTreeSet<String>| -> Vec<bool> {
            parse(text, keys).iter_refs().map(|reference| !is_undeclared(reference)).collect()
        };
        assert_eq!(names("{{memory.a.x}} {{memory.b}} {{user.b}} {{n.b}}", &keys), [true, false, true, true]);
        assert_eq!(names("{{memory.b}}", &BTreeSet::new()), [true]);
        assert_eq!(memory_keys(r#"{"pipeline": {"memory_keys": ["a", "b"]}}"#), ["a", "b"]);
        assert_eq!(memory_keys(r#"{"memory_keys": []}"#), Vec::<String>::new());
        assert_eq!(memory_keys("{\"memory_keys\": [\"a\"], // the tide\n}"), ["a"]);
        assert_eq!(memory_keys("no JSON"), Vec::<String>::new());
    }
}
