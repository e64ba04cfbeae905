//! Where the parts of a JSON definition are.

use flowloom_core::json::Node;
use flowloom_core::plan::Format;
use flowloom_formats::{flow, graph, pipeline, steps};

use super::{join_key, key_path};
use crate::analysis::json_place::JsonPath;

/// The lists whose items are parts. Each has one name in all formats.
pub const STEPS: &str = "steps";
/// Nodes of pipelines and graphs.
pub const NODES: &str = "nodes";
/// Connections of nodes.
pub const EDGES: &str = "edges";
/// Blocks of a pipeline.
pub const BLOCKS: &str = "blocks";
/// Agents of a graph.
pub const AGENTS: &str = "agents";
/// Elements of a Markdown workflow.
pub const ELEMENTS: &str = "elements";

/// A list of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartList {
    /// Its name.
    pub name: &'static str,
    /// Where it is.
    pub path: JsonPath,
}

/// The way to the definition in a document: documents may wrap it.
pub fn find_root(format: Format, tree: &Node) -> JsonPath {
    let keys: &[&str] = match format {
        flow::FORMAT => &["config", "definition"],
        steps::FORMAT => &["workflow", "definition"],
        pipeline::FORMAT => &["pipeline", "pipeline_json", "definition"],
        graph::FORMAT => &["workflow"],
        _ => &[],
    };
    let found = keys.iter().find(|key| tree.get(key).is_some_and(|inner| !inner.entries().is_empty()));
    found.map(|key| key_path(&[key])).unwrap_or_default()
}

/// The lists of parts that a document has, or can have.
pub fn find_lists(format: Format, tree: &Node) -> Vec<PartList> {
    let root = find_root(format, tree);
    let inside = |name: &'static str| PartList { name, path: join_key(&root, name) };
    let beside = |name: &'static str| PartList { name, path: key_path(&[name]) };
    match format {
        flow::FORMAT | steps::FORMAT => vec![inside(STEPS)],
        pipeline::FORMAT => {
            let mut lists = vec![inside(NODES), inside(EDGES)];
            // Only a document that wraps its pipeline can hold blocks of its own.
            if !root.is_empty() {
                lists.push(beside(BLOCKS));
            }
            lists
        }
        graph::FORMAT if tree.get("system_agent_workflow").is_some() => Vec::new(),
        graph::FORMAT => {
            let is_inside = !root.is_empty() && tree.get("workflow").is_some_and(|inner| inner.get(AGENTS).is_some());
            vec![inside(NODES), inside(EDGES), if is_inside { inside(AGENTS) } else { beside(AGENTS) }]
        }
        _ => Vec::new(),
    }
}

/// The list of a name.
pub fn find_list(format: Format, tree: &Node, name: &str) -> Option<PartList> {
    find_lists(format, tree).into_iter().find(|list| list.name == name)
}

/// The first of several keys that an object has, or the first one: graphs write keys in two ways.
pub fn choose_key<'k>(node: Option<&Node>, keys: [&'k str; 2]) -> &'k str {
    match node.is_some_and(|node| node.get(keys[1]).is_some()) {
        true => keys[1],
        false => keys[0],
    }
}

/// The text at one of several keys.
pub fn read_text<'n>(node: &'n Node, keys: &[&str]) -> Option<&'n str> {
    keys.iter().find_map(|key| node.get(key)?.as_str()).filter(|text| !text.is_empty())
}
