//! Connections of the nodes of pipelines and graphs.

use flowloom_core::json::Node;
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::{graph, pipeline};

use super::BuildError;
use super::json_edit::JsonText;
use super::kinds::{EDGES, choose_key, find_list, read_text};
use super::names::TakenNames;
use crate::analysis::json_place::PathStep;

/// The keys of the node that an edge leaves, in all formats.
pub(super) const SOURCE_KEYS: [&str; 3] = ["from", "sourceNodeId", "source_node_id"];
/// The keys of the node that it enters.
pub(super) const TARGET_KEYS: [&str; 3] = ["to", "targetNodeId", "target_node_id"];

/// The destination that ends a graph.
const END: &str = "END";

/// Connects two nodes.
pub(super) fn connect(
    format: Format,
    document: &mut JsonText,
    from: &[PathStep],
    to: Option<&[PathStep]>,
) -> Result<(), BuildError> {
    let node = |path: &[PathStep]| document.find(path).ok_or_else(|| BuildError::Nothing(path.to_vec()));
    let id = |node: &Node| {
        let found = read_text(node, &["id"]).map(str::to_owned);
        found.ok_or_else(|| BuildError::Connection("a node has no id".to_owned()))
    };
    let list = find_list(format, &document.tree, EDGES)
        .ok_or_else(|| BuildError::Connection("the parts of this format run in their order".to_owned()))?;
    let source = node(from)?;
    let target = to.map(node).transpose()?;
    let (source_id, target_id) = (id(source)?, target.map(id).transpose()?);
    let edges = document.find(&list.path);
    let is_there = edges.and_then(Node::items).unwrap_or_default().iter().any(|edge| {
        read_text(edge, &SOURCE_KEYS) == Some(&source_id) && read_text(edge, &TARGET_KEYS) == target_id.as_deref()
    });
    if is_there {
        return Err(BuildError::Connection("they are connected already".to_owned()));
    }
    let edge = match format {
        pipeline::FORMAT => {
            let target = target_id.ok_or_else(|| BuildError::Connection("a pipeline has no end node".to_owned()))?;
            if target == source_id {
                return Err(BuildError::Connection("a node cannot wait for itself".to_owned()));
            }
            Value::map([("from", Value::from(source_id)), ("to", target.into())])
        }
        graph::FORMAT => new_graph_edge(edges, source, target, [Some(source_id), target_id]),
        _ => return Err(BuildError::Connection("the parts of this format run in their order".to_owned())),
    };
    let end = edges.and_then(Node::items).map_or(0, <[Node]>::len);
    document.insert(&list.path, end, &edge)
}

/// A new edge of a graph: an agent chooses its destination by name, and everything else always follows its edge.
fn new_graph_edge(
    edges: Option<&Node>,
    source: &Node,
    target: Option<&Node>,
    [source_id, target_id]: [Option<String>; 2],
) -> Value {
    let first = edges.and_then(Node::items).and_then(<[Node]>::first);
    let key = |keys: [&'static str; 2]| choose_key(first, keys);
    let is_agent = !matches!(read_text(source, &["nodeType", "node_type"]), Some("TOOL_EXECUTOR" | "HUMAN_HANDOFF"));
    let name = target.map_or(END, |node| read_text(node, &["nodeName", "node_name", "id"]).unwrap_or(END));
    let ids = TakenNames::of_items(edges, "id");
    let text = |text: Option<String>| text.map_or(Value::Null, Value::from);
    let mut entries = vec![
        ("id", Value::from(ids.find_next("edge-"))),
        (key(["sourceNodeId", "source_node_id"]), text(source_id)),
        (key(["targetNodeId", "target_node_id"]), text(target_id)),
        (key(["conditionType", "condition_type"]), if is_agent { "CONDITIONAL".into() } else { "ALWAYS".into() }),
    ];
    if is_agent {
        entries.push((key(["conditionValue", "condition_value"]), name.into()));
    }
    Value::map(entries)
}

/// Removes all connections of a node.
pub(super) fn disconnect_all(format: Format, document: &mut JsonText, id: &str) -> Result<(), BuildError> {
    let Some(list) = find_list(format, &document.tree, EDGES) else { return Ok(()) };
    let edges = document.find(&list.path).and_then(Node::items).unwrap_or_default();
    let is_of = |edge: &Node| read_text(edge, &SOURCE_KEYS) == Some(id) || read_text(edge, &TARGET_KEYS) == Some(id);
    let positions: Vec<usize> = (0..edges.len()).filter(|at| is_of(&edges[*at])).collect();
    if positions.is_empty() { Ok(()) } else { document.remove_items(&list.path, &positions) }
}
