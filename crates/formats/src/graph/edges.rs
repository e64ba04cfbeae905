//! Reads the edges of a graph.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Span, find_similar_name};
use flowloom_core::json::Node;

use super::{Condition, EDGE_KEYS, GraphCompiler, GraphEdge, NodeList, either_key, read_text_field};
use crate::problems::Problems;
use crate::reader::Fields;

/// The type of an edge that is taken if no other one is.
const ALWAYS_TYPE: &str = "ALWAYS";
/// The type of an edge that leads to the end.
const ON_COMPLETE_TYPE: &str = "ON_COMPLETE";
/// The type of an edge that needs a condition.
const CONDITIONAL_TYPE: &str = "CONDITIONAL";

/// The help for a node id of the wrong kind.
const NODE_ID_HELP: &str = "write the \"id\" of a node in double quotes";

/// The condition of an edge, as it is written.
struct WrittenCondition<'a> {
    /// `None` if it is not valid.
    condition: Option<Condition<'a>>,
    is_on_complete: bool,
    /// The place of what distinguishes it from other edges of its node.
    span: Span,
}

impl GraphCompiler<'_> {
    pub(super) fn read_edges<'a>(&mut self, fields: &Fields<'a>, nodes: &NodeList<'_>) -> Vec<GraphEdge<'a>> {
        let Some(list) = fields.get_non_null("edges") else { return Vec::new() };
        let Some(items) = list.items() else {
            fields.report_wrong_kind("edges", list, "a list", self.problems).help =
                Some("write a list of edges; [] for none".into());
            self.is_whole = false;
            return Vec::new();
        };
        let mut ids = HashSet::new();
        let mut edges = Vec::new();
        for item in items {
            if let Some(id) = item.get("id").and_then(Node::as_str).filter(|id| !ids.insert(*id)) {
                let span = item.get("id").map_or(item.span, |id| id.span);
                let message = format_args!("there are several edges with the id {id}");
                self.problems.add_error(Code::DuplicateName, span, message).help =
                    Some("give each edge an id of its own, or remove the one that is there twice".into());
            }
            edges.extend(self.read_edge(item, nodes));
        }
        edges
    }

    fn read_edge<'a>(&mut self, node: &'a Node, nodes: &NodeList<'_>) -> Option<GraphEdge<'a>> {
        let fields = Fields::read_object(node, "an edge", self.problems)?;
        fields.warn_misspelt_keys(&EDGE_KEYS, self.problems);
        let id = read_text_field(&fields, "id", self.problems).map_or("an edge", |(id, _)| id);
        let source = either_key(&fields, "sourceNodeId", "source_node_id");
        let target = either_key(&fields, "targetNodeId", "target_node_id");
        let written = read_condition(&fields, self.problems);
        let mut is_valid = has_target_key(node, self.problems);
        if let Some(target) = target.filter(|target| target.as_str().is_none()) {
            let expected = "the id of a node, or null for the end";
            fields.report_wrong_kind("targetNodeId", target, expected, self.problems).help = Some(NODE_ID_HELP.into());
            is_valid = false;
        } else if let Some(target) = target.filter(|_| written.is_on_complete) {
            let message =
                format_args!("\"targetNodeId\" of an {ON_COMPLETE_TYPE} edge must be null: it leads to the end");
            self.problems.add_error(Code::WrongKind, target.span, message).help =
                Some(format!("write null, or {ALWAYS_TYPE} to continue at a node"));
            is_valid = false;
        }
        let Some(source) = source else {
            fields.report_missing("sourceNodeId", self.problems).help =
                Some("name the \"id\" of the node that the edge leaves".into());
            return None;
        };
        if source.as_str().is_none() {
            fields.report_wrong_kind("sourceNodeId", source, "the id of a node", self.problems).help =
                Some(NODE_ID_HELP.into());
            return None;
        }
        let target = target.filter(|target| target.as_str().is_some());
        let target_index = target.and_then(|target| nodes.by_id.get(target.as_str()?).copied());
        let from = self.find_edge_node(id, "from", source, nodes, target_index);
        let to = target.map(|target| self.find_edge_node(id, "to", target, nodes, from));
        let WrittenCondition { condition, is_on_complete, span } = written;
        self.is_whole &= is_valid && condition.is_some();
        let (condition, from) = (condition.filter(|_| is_valid)?, from?);
        let to = match to {
            None => None,
            Some(to) => Some(to?),
        };
        Some(GraphEdge { from, to, condition, is_on_complete, span })
    }

    /// The node that an edge names. The one at its `other` end is not suggested.
    fn find_edge_node(
        &mut self,
        edge: &str,
        direction: &str,
        node: &Node,
        nodes: &NodeList<'_>,
        other: Option<usize>,
    ) -> Option<usize> {
        let id = node.as_str().unwrap_or_default();
        let found = nodes.by_id.get(id).copied();
        if found.is_none() {
            let message = format_args!("{edge} leads {direction} the node {id}, which does not exist");
            let others = nodes.nodes.iter().enumerate().filter(|(index, _)| Some(*index) != other);
            let known = others.map(|(_, node)| node.id);
            self.report_unknown_node(Code::DanglingEdge, node.span, message, id, known);
        }
        found
    }
}

/// The condition of an edge. An edge without a valid one is checked as far as possible.
fn read_condition<'a>(fields: &Fields<'a>, problems: &mut Problems) -> WrittenCondition<'a> {
    let written = either_key(fields, "conditionType", "condition_type");
    let value = either_key(fields, "conditionValue", "condition_value");
    let place = |node: Option<&Node>| node.map_or_else(|| fields.start_span(), |node| node.span);
    let Some(written) = written else {
        fields.report_missing("conditionType", problems).help =
            Some(format!("write {CONDITIONAL_TYPE} with a \"conditionValue\", or {ALWAYS_TYPE}"));
        return WrittenCondition { condition: None, is_on_complete: false, span: fields.start_span() };
    };
    let kind = written.as_str();
    let condition = match kind {
        Some(ALWAYS_TYPE | ON_COMPLETE_TYPE) => {
            if let Some(value) = value.filter(|value| value.as_str() != Some("")) {
                let kind = kind.unwrap_or_default();
                let message = format_args!("\"conditionValue\" has no effect on an edge of the type {kind}");
                problems.add_warning(Code::IgnoredKey, value.span, message).help =
                    Some(format!("write {CONDITIONAL_TYPE} if it is a condition, or else null"));
            }
            Some(Condition::Always)
        }
        Some(CONDITIONAL_TYPE) => read_condition_value(fields, value, problems),
        Some(other) => {
            report_unknown_type(other, written.span, problems);
            None
        }
        None => {
            let expected = format!("{CONDITIONAL_TYPE}, {ALWAYS_TYPE} or {ON_COMPLETE_TYPE}");
            fields.report_wrong_kind("conditionType", written, &expected, problems).help =
                Some("write one of them in double quotes".into());
            None
        }
    };
    let span = match condition {
        Some(Condition::Always) => written.span,
        _ => place(value),
    };
    WrittenCondition { condition, is_on_complete: kind == Some(ON_COMPLETE_TYPE), span }
}

/// The condition of a conditional edge.
fn read_condition_value<'a>(
    fields: &Fields<'a>,
    value: Option<&'a Node>,
    problems: &mut Problems,
) -> Option<Condition<'a>> {
    let help = "name the destination that the agent chooses or, after a TOOL_EXECUTOR, the tool";
    let Some(value) = value else {
        fields.report_missing("conditionValue", problems).help = Some(help.into());
        return None;
    };
    match value.as_str() {
        Some("") => {
            let message = "\"conditionValue\" of an edge is empty";
            problems.add_error(Code::MissingKey, value.span, message).help = Some(help.into());
            None
        }
        Some(value) => Some(Condition::Value(value)),
        None => {
            fields.report_wrong_kind("conditionValue", value, "text", problems).help = Some(help.into());
            None
        }
    }
}

fn report_unknown_type(written: &str, span: Span, problems: &mut Problems) {
    let known = [CONDITIONAL_TYPE, ALWAYS_TYPE, ON_COMPLETE_TYPE];
    let meant = problems.find_similar(written, known);
    let message = format_args!("there is no condition type {written:?}");
    let diagnostic = problems.add_error(Code::UnknownNodeType, span, message);
    let help = || format!("it is one of {}; {ON_COMPLETE_TYPE} leads to the end", known.join(", "));
    diagnostic.suggest_or_help(meant.map(|meant| format!("{meant:?}")), help);
}

/// Whether an edge does not misspell the key of its target: without a target it would lead to the end.
fn has_target_key(edge: &Node, problems: &mut Problems) -> bool {
    let known = ["targetNodeId", "target_node_id"];
    if known.iter().any(|key| edge.get(key).is_some()) {
        return true;
    }
    let is_misspelt = |key: &str| !EDGE_KEYS.contains(&key) && find_similar_name(key, known).is_some();
    let Some((key, span, _)) = edge.entries().iter().find(|(key, _, _)| is_misspelt(key)) else { return true };
    let message = format_args!("an edge has no \"targetNodeId\", which is probably what {key:?} should be");
    let diagnostic = problems.add_error(Code::MissingKey, *span, message);
    diagnostic.suggest_text("\"targetNodeId\"");
    diagnostic.help = Some("correct the key; without a target, the edge would lead to the end".into());
    false
}
