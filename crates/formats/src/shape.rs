//! The shape of a JSON document, by which front ends recognise their formats.

use flowloom_core::diagnostic::{Span, find_similar_name};
use flowloom_core::json::Node;

/// The lists that workflows have, with keys that only their items have.
const WORKFLOW_LISTS: [(&str, &[&str]); 2] = [
    ("steps", &["functionId", "promptTemplate", "errorMode", "config"]),
    ("nodes", &["block_id", "nodeType", "node_type", "agentId", "agent_id"]),
];

/// Keys that only the nodes of pipelines and graphs have.
const NODE_KEYS: [&str; 8] =
    ["block_id", "inputs", "nodeType", "node_type", "agentId", "agent_id", "nodeName", "node_name"];

/// Keys that only pipelines and graphs have.
const GRAPH_KEYS: [&str; 6] =
    ["blocks", "memory_keys", "user_prompt", "user_intent", "entrypointNodeId", "entrypoint_node_id"];

/// The keys of which a test has at least one: the expectations, and the responses.
const TEST_KEYS: &[&str] = &["expect", "steps", "answers"];

/// All keys of a test.
const ALL_TEST_KEYS: &[&str] = &[
    "name",
    "definition",
    "workflow",
    "inputs",
    "model",
    "aliases",
    "tools",
    "steps",
    "expressions",
    "answers",
    "expect",
];

/// Ends of the names of definitions.
const DEFINITION_ENDS: &[&str] = &[".json", ".jsonc", ".mdx", ".md", ".yaml", ".yml"];

/// A JSON document whose format is not known yet.
pub struct DocumentShape<'a> {
    /// The whole document.
    pub whole: &'a Node,
    /// The definition in it: the value of `workflow`, `pipeline` and the like, or the whole document.
    pub definition: &'a Node,
}

impl<'a> DocumentShape<'a> {
    /// The shape of a document.
    pub(crate) fn from_node(whole: &'a Node) -> DocumentShape<'a> {
        let inner = ["workflow", "pipeline", "pipeline_json", "definition", "config"];
        let inner = inner.iter().find_map(|key| whole.get(key)).filter(|inner| !inner.entries().is_empty());
        DocumentShape { whole, definition: inner.unwrap_or(whole) }
    }

    /// Whether the document is a test of a workflow: it names a `definition`, and has expectations or responses; or it
    /// names a `workflow`, and has expectations; or it names one of them, and all its keys are those of a test, which then
    /// expects that the run succeeds.
    pub(crate) fn is_test(&self) -> bool {
        let has_name = |key: &str| self.whole.get(key).is_some_and(|name| name.as_str().is_some());
        let has_any = |keys: &[&str]| keys.iter().any(|key| self.whole.get(key).is_some());
        (has_name("definition") && has_any(TEST_KEYS))
            || (has_name("workflow") && has_any(&["expect"]))
            || ((has_name("definition") || has_name("workflow")) && self.has_only_test_keys())
    }

    fn has_only_test_keys(&self) -> bool {
        let mut keys = self.whole.entries().iter().map(|(key, _, _)| key.as_str());
        keys.all(|key| ALL_TEST_KEYS.contains(&key))
    }

    /// Whether the document is a workflow of n8n: its nodes have types such as `n8n-nodes-base.webhook`.
    pub(crate) fn is_n8n(&self) -> bool {
        let nodes = self.definition.get("nodes").and_then(Node::items).unwrap_or_default();
        let type_of = |node: &Node| node.get("type").and_then(|kind| kind.as_str().map(str::to_owned));
        nodes.iter().filter_map(type_of).any(|kind| kind.contains("n8n-nodes-") || kind.starts_with("@n8n/"))
    }

    /// Whether the document is a graph of another node editor, such as React Flow, Dify or Langflow: its nodes have a `type`
    /// or `data`, and none has a key of our nodes or a misspelling of one.
    pub(crate) fn is_foreign_graph(&self) -> bool {
        let places = [Some(self.definition), self.whole.get("data"), self.whole.get("graph")];
        let lists = places.into_iter().flatten().filter_map(|place| place.get("nodes")?.items());
        let is_own = |key: &str| find_similar_name(key, NODE_KEYS.iter().copied()).is_some();
        let has_own_key = |node: &Node| node.entries().iter().any(|(key, _, _)| is_own(key));
        let is_foreign = |node: &Node| node.get("data").is_some() || node.get("type").is_some();
        let mut lists = lists.filter(|nodes| !nodes.is_empty());
        !self.has(&GRAPH_KEYS) && lists.any(|nodes| nodes.iter().any(is_foreign) && !nodes.iter().any(has_own_key))
    }

    /// Whether the document is a test whose keys may be misspelt or unknown.
    pub(crate) fn resembles_test(&self) -> bool {
        let definition = self.whole.get("definition").and_then(Node::as_str).unwrap_or_default().to_lowercase();
        if self.is_test() || DEFINITION_ENDS.iter().any(|end| definition.ends_with(end)) {
            return true;
        }
        let resembles = |name: &str, keys: &[&str]| {
            has_similar_key(self.whole, name) && keys.iter().any(|key| has_similar_key(self.whole, key))
        };
        resembles("definition", TEST_KEYS) || resembles("workflow", &["expect"])
    }

    /// A list whose items are those of a workflow, under a misspelt key: the key with its place, and the one that is meant.
    pub(crate) fn find_misspelt_list(&self) -> Option<(&'a str, Span, &'static str)> {
        WORKFLOW_LISTS.iter().find_map(|(list, item_keys)| {
            let has_items = |node: &Node| {
                let has_key = |item: &Node| item_keys.iter().any(|key| item.get(key).is_some());
                node.items().is_some_and(|items| items.iter().any(has_key))
            };
            let is_misspelt = |key: &str| key != *list && find_similar_name(key, [*list]).is_some();
            let mut entries = self.definition.entries().iter();
            let (key, span, _) = entries.find(|(key, _, node)| is_misspelt(key) && has_items(node))?;
            Some((key.as_str(), *span, *list))
        })
    }

    /// Whether the definition has one of these keys.
    pub fn has(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.definition.get(key).is_some())
    }

    /// Whether the definition has a key that is a misspelling of this one.
    pub(crate) fn has_similar(&self, key: &str) -> bool {
        has_similar_key(self.definition, key)
    }

    /// Whether an item of the definition's list `list` has one of these keys.
    pub fn has_item_with(&self, list: &str, keys: &[&str]) -> bool {
        let items = self.definition.get(list).and_then(Node::items).unwrap_or_default();
        items.iter().any(|item| keys.iter().any(|key| item.get(key).is_some()))
    }
}

fn has_similar_key(node: &Node, key: &str) -> bool {
    node.entries().iter().any(|(name, _, _)| find_similar_name(name, [key]).is_some())
}
