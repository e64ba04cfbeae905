//! Distinguishes definitions from the files of other programs, which have lists of steps, nodes and edges, too. A file that a
//! person names is a definition; a file that is found in a folder, or opened in an editor, must have a distinctive key.

use flowloom_core::json::{Node, NodeKind, parse_node};
use flowloom_core::plan::Format;

use crate::flow::{find_replied_flow, find_wrapped_flow};
use crate::jsonc::blank_comments;
use crate::registry::recognise;
use crate::shape::DocumentShape;
use crate::{agent, flow, graph, pipeline, steps};

/// Keys and types that only definitions of one format have.
const DISTINCTIVE_WORDS: [(Format, &[&str]); 5] = [
    (steps::FORMAT, &["functionId", "promptTemplate", "errorMode"]),
    (flow::FORMAT, &["llmInstruction", "apiCall", "webScraping", "resultVariable"]),
    (pipeline::FORMAT, &["block_id", "user_prompt", "user_intent"]),
    (graph::FORMAT, &["entrypointNodeId", "nodeType", "conditionType"]),
    (agent::FORMAT, &["systemPrompt"]),
];

/// The lists that the definitions of most formats have.
const LISTS: [&str; 2] = ["steps", "nodes"];

/// The format of a document that was found, not named; `None` if nothing in it is distinctive. `tree`: its JSON, as
/// far as it can be read.
pub fn recognise_found(file: &str, text: &str, tree: Option<&Node>) -> Option<Format> {
    let format = recognise(file, text, tree)?;
    let Some(tree) = tree else { return Some(format) };
    let is_named = recognise(file, text, None).is_some();
    (is_named || has_distinctive_key(&DocumentShape::from_node(tree))).then_some(format)
}

/// Whether a JSON file that was found is a definition, or a broken one.
pub fn is_found_definition(file: &str, text: &str) -> bool {
    match parse_node(&blank_comments(text)) {
        Ok((tree, _)) => recognise_found(file, text, Some(&tree)).is_some() || is_misspelt(&tree),
        // A broken file shows no more than this, and a definition that was broken must be reported.
        Err(_) => {
            let has_list = LISTS.iter().any(|list| text.contains(&format!("\"{list}\"")));
            has_list || recognise(file, text, None).is_some() || guess_broken_format(text).is_some()
        }
    }
}

/// The format that broken JSON probably has: so much of it is lost that only single words identify it.
pub fn guess_broken_format(text: &str) -> Option<Format> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(&format!("\"{word}\"")));
    DISTINCTIVE_WORDS.into_iter().find(|(_, words)| has(words)).map(|(format, _)| format)
}

/// Whether the list of a definition has a misspelt key.
fn is_misspelt(tree: &Node) -> bool {
    DocumentShape::from_node(tree).find_misspelt_list().is_some()
}

/// Whether a document has a key or a value that other programs do not have.
fn has_distinctive_key(shape: &DocumentShape<'_>) -> bool {
    let has_flow = || find_wrapped_flow(shape.whole).is_some() || find_replied_flow(shape.whole).is_some();
    let keys = ["systemPrompt", "system_prompt", "entrypointNodeId", "user_prompt", "user_intent", "memory_keys"];
    has_flow()
        || shape.has(&keys)
        || shape.has_similar("systemPrompt")
        || has_distinctive_steps(shape)
        || has_distinctive_nodes(shape)
        || is_empty_definition(shape)
}

fn has_distinctive_steps(shape: &DocumentShape<'_>) -> bool {
    let is_mode = |step: &Node| step.get("mode").and_then(Node::as_str).is_some_and(steps::is_mode);
    let is_block_type =
        |step: &Node| step.get("type").and_then(Node::as_str).is_some_and(|kind| flow::BLOCK_TYPES.contains(&kind));
    let has_config = |step: &Node| {
        let is_object = |node: &Node| matches!(node.kind, NodeKind::Map(_));
        step.get("type").is_some() && step.get("config").is_some_and(is_object)
    };
    let has_only_flow_keys = |step: &Node| {
        let is_flow_key = |key: &str| matches!(key, "type" | "config");
        step.get("type").is_some() && step.entries().iter().all(|(key, _, _)| is_flow_key(key))
    };
    let items = shape.definition.get("steps").and_then(Node::items).unwrap_or_default();
    shape.has_item_with("steps", &["functionId", "promptTemplate", "errorMode"])
        || items.iter().any(|step| is_mode(step) || is_block_type(step) || has_config(step))
        || (shape.has(&["name"]) && !items.is_empty() && items.iter().all(has_only_flow_keys))
        || (shape.has(&["steps"]) && shape.has(&["uuid", "active"]) && shape.has(&["name"]))
}

fn has_distinctive_nodes(shape: &DocumentShape<'_>) -> bool {
    shape.has_item_with("nodes", &["block_id", "nodeType", "node_type", "agentId", "agent_id"])
        || shape.has_item_with("edges", &["sourceNodeId", "source_node_id", "conditionType", "condition_type"])
        || (shape.has(&["nodes"]) && shape.whole.get("blocks").is_some())
}

/// Whether a document has the name of a definition and nothing in its list yet: a person is about to write there.
fn is_empty_definition(shape: &DocumentShape<'_>) -> bool {
    let is_empty = |node: &Node| node.items().is_none_or(<[Node]>::is_empty);
    shape.has(&["name"]) && LISTS.iter().any(|list| shape.definition.get(list).is_some_and(is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_programs_are_no_definitions() {
        let others = [
            r#"{"nodes": [{"id": "a", "label": "b"}], "edges": [{"from": "a", "to": "a"}]}"#,
            r#"{"nodes": [{"id": 1}], "edges": []}"#,
            r#"{"nodes": [], "edges": []}"#,
            r#"{"elements": {"nodes": [{"data": {"id": "a"}}], "edges": [{"data": {"source": "a"}}]}}"#,
            r#"{"steps": [{"name": "build", "run": "make"}]}"#,
            r#"{"name": "ci", "steps": [{"type": "shell", "run": "make"}]}"#,
            r#"{"name": "site", "version": "1.0.0", "scripts": {}, "steps": ["a"]}"#,
            r#"{"steps": [{"uses": "actions/checkout"}], "mode": "fast"}"#,
            r#"{"compilerOptions": {"strict": true}, "files": [}"#,
        ];
        for text in others {
            assert!(!is_found_definition("found.json", text), "{text}");
        }
    }

    #[test]
    fn one_distinctive_key_is_enough() {
        let definitions = [
            (r#"{"nodes": [{"id": "a", "block_id": "filter"}]}"#, pipeline::FORMAT),
            (r#"{"nodes": [{"id": "a", "nodeType": "AGENT"}], "edges": []}"#, graph::FORMAT),
            (r#"{"name": "P", "nodes": [], "edges": []}"#, pipeline::FORMAT),
            (r#"{"steps": [{"name": "a", "functionId": "agent::chat"}]}"#, steps::FORMAT),
            (r#"{"steps": [{"name": "a", "mode": "fanout"}]}"#, steps::FORMAT),
            (r#"{"steps": [{"type": "llmInstruction"}]}"#, flow::FORMAT),
            (r#"{"steps": [{"type": "mistyped", "config": {}}]}"#, flow::FORMAT),
            (r#"{"name": "n", "steps": [{"type": "mistyped"}]}"#, flow::FORMAT),
            (r#"{"name": "n", "uuid": "u", "steps": [{}]}"#, flow::FORMAT),
            (r#"{"systemPrompt": "Help."}"#, agent::FORMAT),
        ];
        for (text, format) in definitions {
            let (tree, _) = parse_node(text).expect("JSON");
            assert_eq!(recognise_found("found.json", text, Some(&tree)), Some(format), "{text}");
            assert!(is_found_definition("found.json", text), "{text}");
        }
        for broken in [r#"{"steps": [{"functionId": "#, r#"{"nodes": [{"block_id": "a",,}]}"#, "{\"steps\": ["] {
            assert!(is_found_definition("found.json", broken), "{broken}");
        }
    }
}
