//! The inputs that a node of a pipeline can give to its block.

use flowloom_app::definitions::nameable::list_block_inputs;
use flowloom_core::json::Node;

use super::index::Index;
use super::json_place::PathStep;
use super::known::KnownName;

/// The inputs of the block of a node, if `path` leads to the inputs of one. Blocks of the document come before those of
/// `known`.
pub(super) fn find_block_inputs(index: &Index, tree: &Node, path: &[PathStep], known: &[KnownName]) -> Vec<KnownName> {
    let [PathStep::Key(nodes), PathStep::Index(at), PathStep::Key(inputs)] = path else { return Vec::new() };
    if !index.is_pipeline() || nodes != "nodes" || inputs != "inputs" {
        return Vec::new();
    }
    let node = tree.get(nodes).and_then(|nodes| nodes.items()?.get(*at));
    let Some(block) = node.and_then(|node| node.get("block_id")?.as_str()) else { return Vec::new() };
    let own = tree.get("blocks").and_then(Node::items).unwrap_or_default();
    if let Some(own) = own.iter().find(|own| own.get("id").and_then(Node::as_str) == Some(block)) {
        return list_block_inputs(&own.to_value()).into_iter().map(KnownName::from).collect();
    }
    known.iter().find(|known| known.name == block).map(|known| known.inputs.clone()).unwrap_or_default()
}
