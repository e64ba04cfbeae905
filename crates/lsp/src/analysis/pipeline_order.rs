//! Which nodes of a pipeline wait for which: by edges, and by references in their inputs.

use std::collections::{BTreeSet, HashMap, HashSet};

use flowloom_core::json::Node;

use super::index::Index;
use super::json_place::touches_offset;
use super::names::{NameKind, Role};

/// The order that a position of a pipeline adds.
enum Place<'t> {
    /// The inputs of a node, which wait for what they name.
    Inputs(&'t str),
    /// The end of an edge that begins at a node.
    EdgeTo(&'t str),
    /// The start of an edge that ends at a node.
    EdgeFrom(&'t str),
}

/// The nodes that cannot be named at byte `offset` of a pipeline, because nodes would wait for each other.
pub(super) fn list_refused_nodes(index: &Index, tree: &Node, offset: usize) -> HashSet<String> {
    let Some(place) = find_place(tree, offset) else { return HashSet::new() };
    let order = Order::new(index, tree, offset);
    let reached = match place {
        Place::EdgeTo(from) => find_reached(from, &order.needs),
        Place::Inputs(node) | Place::EdgeFrom(node) => find_reached(node, &order.needed_by),
    };
    reached.into_iter().map(str::to_owned).collect()
}

fn find_place(tree: &Node, offset: usize) -> Option<Place<'_>> {
    let is_here = |node: &&Node| touches_offset(node.span, offset);
    let find_item = |list: &str| tree.get(list)?.items()?.iter().find(is_here);
    if let Some(node) = find_item("nodes") {
        return node.get("id")?.as_str().map(Place::Inputs);
    }
    let edge = find_item("edges")?;
    let text = |key: &str| edge.get(key).filter(|end| !is_here(end))?.as_str();
    match (text("from"), text("to")) {
        (Some(from), None) => Some(Place::EdgeTo(from)),
        (None, Some(to)) => Some(Place::EdgeFrom(to)),
        _ => None,
    }
}

/// The nodes that each node waits for, and those that wait for it, without the text at the position.
#[derive(Default)]
struct Order<'t> {
    needs: HashMap<&'t str, BTreeSet<&'t str>>,
    needed_by: HashMap<&'t str, BTreeSet<&'t str>>,
}

impl<'t> Order<'t> {
    fn new(index: &'t Index, tree: &'t Node, offset: usize) -> Order<'t> {
        let mut order = Order::default();
        let items = |list: &str| tree.get(list).and_then(Node::items).unwrap_or_default();
        let text = |node: &'t Node, key: &str| node.get(key).and_then(Node::as_str);
        for edge in items("edges").iter().filter(|edge| !touches_offset(edge.span, offset)) {
            if let (Some(from), Some(to)) = (text(edge, "from"), text(edge, "to")) {
                order.add_dependency(to, from);
            }
        }
        let is_read = |name: &&super::names::Name| name.kind == NameKind::Node && name.role == Role::Read;
        let mut references: Vec<_> =
            index.names.iter().filter(is_read).filter(|name| !touches_offset(name.span, offset)).collect();
        references.sort_by_key(|name| name.span.start);
        for node in items("nodes") {
            let Some(id) = text(node, "id") else { continue };
            let first = references.partition_point(|name| name.span.start < node.span.start);
            for reference in references[first..].iter().take_while(|name| name.span.end() <= node.span.end()) {
                order.add_dependency(id, &reference.text);
            }
        }
        order
    }

    /// Notes that a node waits for another one.
    fn add_dependency(&mut self, node: &'t str, other: &'t str) {
        self.needs.entry(node).or_default().insert(other);
        self.needed_by.entry(other).or_default().insert(node);
    }
}

/// A node, and the nodes that are reached from it.
fn find_reached<'t>(start: &'t str, next: &HashMap<&'t str, BTreeSet<&'t str>>) -> HashSet<&'t str> {
    let (mut reached, mut pending) = (HashSet::from([start]), vec![start]);
    while let Some(node) = pending.pop() {
        pending.extend(next.get(node).into_iter().flatten().filter(|other| reached.insert(other)));
    }
    reached
}
