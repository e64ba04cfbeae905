//! Checks a graph as a whole: everything that langgraph rejects, and structures that prevent a conversation from
//! ending.

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;

use super::agents::AgentCatalog;
use super::steps::list_routing_tools;
use super::{AGENTS_FOLDER, Condition, Graph, GraphNode, NodeType};
use crate::problems::Problems;

pub(super) fn check_graph(graph: &Graph<'_>, agents: &AgentCatalog<'_>, problems: &mut Problems) {
    check_unique_names(graph, problems);
    graph.nodes.iter().for_each(|node| check_agent(node, agents, problems));
    for index in 0..graph.nodes.len() {
        check_edges(graph, index, problems);
        check_executor(graph, index, agents, problems);
        check_tool_names(graph, index, agents, problems);
    }
    check_reachable(graph, problems);
    check_can_end(graph, problems);
    check_size(graph, agents, problems);
}

/// Maximum size of the plan of a graph, in bytes of texts of agents and in edges.
const MAX_PLAN_SIZE: usize = 64 << 20;

/// Each node gets a copy of its agent, and each executor an edge to each agent and all tools. Together they must not
/// become much larger than the file.
fn check_size(graph: &Graph<'_>, agents: &AgentCatalog<'_>, problems: &mut Problems) {
    let named = graph.nodes.iter().filter_map(|node| agents.get(node.agent?.0));
    let copies: usize = named.map(|agent| agent.size_bytes).sum();
    let executors = graph.nodes.iter().filter(|node| node.kind == NodeType::Executor).count();
    let edges = executors.saturating_mul(graph.nodes.len()).saturating_mul(size_of::<GraphNode<'_>>());
    let size = copies.saturating_add(executors.saturating_mul(agents.size_bytes())).saturating_add(edges);
    if size > MAX_PLAN_SIZE {
        let message =
            format_args!("the plan of this graph would take {size} bytes; at most {MAX_PLAN_SIZE} are allowed");
        problems.add_error(Code::TooLarge, graph.nodes[graph.entry].span, message).help =
            Some("use fewer nodes with the same large agent, or a single TOOL_EXECUTOR".into());
    }
}

fn check_unique_names(graph: &Graph<'_>, problems: &mut Problems) {
    let (mut ids, mut names) = (HashSet::new(), HashSet::new());
    for node in &graph.nodes {
        let is_new_name = names.insert(node.name);
        if !ids.insert(node.id) {
            problems.add_error(
                Code::DuplicateName,
                node.span,
                format_args!("there are several nodes with the id {}", node.id),
            );
        } else if !is_new_name {
            let message =
                format_args!("there are several nodes named {:?}; agents choose where to go by name", node.name);
            problems.add_warning(Code::DuplicateName, node.span, message);
        }
    }
}

fn check_agent(node: &GraphNode<'_>, agents: &AgentCatalog<'_>, problems: &mut Problems) {
    if node.agent.is_none() && node.kind == NodeType::Agent {
        let message = format_args!("the node {} has no agent", node.name);
        problems.add_error(Code::UnknownAgent, node.span, message).help = Some("give it an \"agentId\"".into());
    }
    let Some((id, span)) = missing_agent(node, agents) else { return };
    let message = format_args!("the agent {id} of the node {} does not exist", node.name);
    let place = format!(
        "put it into {AGENTS_FOLDER}NAME/ (systemPrompt.md and jsonSchema.json) or into \"agents\" of this file"
    );
    if agents.is_empty() {
        let message = format_args!("{message}; it runs without instructions or tools of its own");
        problems.add_warning(Code::UnknownAgent, span, message).help = Some(place);
        return;
    }
    let meant = problems.find_similar(id, agents.agent_ids());
    let diagnostic = problems.add_error(Code::UnknownAgent, span, message);
    diagnostic.help = Some(match meant {
        Some(meant) => format!("did you mean {meant:?}? or {place}"),
        None => place,
    });
}

/// The unknown agent that a node names, and the place where it is named.
pub(super) fn missing_agent<'a>(node: &GraphNode<'a>, agents: &AgentCatalog<'_>) -> Option<(&'a str, Span)> {
    node.agent.filter(|(id, _)| node.kind == NodeType::Agent && agents.get(id).is_none())
}

/// The conditions of a node's edges must be distinct.
fn check_edges(graph: &Graph<'_>, index: usize, problems: &mut Problems) {
    let node = &graph.nodes[index];
    let mut seen: HashSet<String> = HashSet::new();
    let mut always = 0;
    for edge in graph.edges_from(index) {
        match edge.condition {
            Condition::Always => {
                always += 1;
                if always == 2 {
                    let message = format_args!("{} has two ALWAYS edges; only the first is ever taken", node.name);
                    problems.add_error(Code::TwoAlways, edge.span, message);
                }
            }
            Condition::Value(value) => {
                let value = value.to_lowercase();
                if seen.contains(&value) {
                    let message =
                        format_args!("{} has two edges for {value:?}; only the first is ever taken", node.name);
                    problems.add_error(Code::DuplicateCondition, edge.span, message);
                }
                seen.insert(value);
            }
        }
    }
}

/// An agent with tools needs an edge to an executor.
fn check_executor(graph: &Graph<'_>, index: usize, agents: &AgentCatalog<'_>, problems: &mut Problems) {
    let node = &graph.nodes[index];
    let has_tools = !agents.list_tools(node).is_empty();
    let mut targets = graph.edges_from(index).filter_map(|edge| edge.to);
    if has_tools && !targets.any(|to| graph.nodes[to].kind == NodeType::Executor) {
        let message =
            format_args!("the agent of {} has tools, and no edge leads to a TOOL_EXECUTOR that runs them", node.name);
        problems.add_warning(Code::NoExecutor, node.span, message).help =
            Some("add an edge with the conditionValue \"tool_executor\"".into());
    }
}

/// A tool with the name of a routing tool is not offered, because models refuse two tools of one name.
fn check_tool_names(graph: &Graph<'_>, index: usize, agents: &AgentCatalog<'_>, problems: &mut Problems) {
    let node = &graph.nodes[index];
    let routing = list_routing_tools(graph, index);
    for tool in agents.list_tools(node).iter().filter(|tool| routing.contains(&tool.declaration.name.as_str())) {
        let name = &tool.declaration.name;
        let message = format_args!(
            "the tool {name:?} of {} is not offered: the graph itself has a tool {name:?}, by which agents choose where to go",
            node.name
        );
        problems.add_warning(Code::DuplicateName, node.span, message).help = Some("give the tool another name".into());
    }
}

/// The nodes reachable from `starts` by following `next`.
fn reachable_from(starts: Vec<usize>, next: impl Fn(usize) -> Vec<usize>) -> HashSet<usize> {
    let mut reached: HashSet<usize> = starts.iter().copied().collect();
    let mut open = starts;
    while let Some(at) = open.pop() {
        for to in next(at) {
            if reached.insert(to) {
                open.push(to);
            }
        }
    }
    reached
}

fn check_reachable(graph: &Graph<'_>, problems: &mut Problems) {
    let next = |at: usize| graph.edges_from(at).filter_map(|edge| edge.to).collect();
    let reached = reachable_from(vec![graph.entry], next);
    for (_, node) in graph.nodes.iter().enumerate().filter(|(index, _)| !reached.contains(index)) {
        let message = format_args!("nothing leads to {} ({})", node.name, node.id);
        problems.add_warning(Code::Unreachable, node.span, message);
    }
}

/// A conversation must be able to end: by an edge to the end, or at an agent without edges.
fn check_can_end(graph: &Graph<'_>, problems: &mut Problems) {
    let has_end = graph.edges.iter().any(|edge| edge.to.is_none());
    let ends_itself = (0..graph.nodes.len()).any(|index| {
        let is_agent = graph.nodes[index].kind == NodeType::Agent;
        is_agent && !graph.edges_from(index).any(|edge| edge.condition == Condition::Always)
    });
    if !has_end && !ends_itself && !graph.nodes.is_empty() {
        let message = "no edge leads to the end, and every node continues by itself; the run will reach its step limit";
        problems.add_warning(Code::NoWayOut, graph.nodes[graph.entry].span, message).help =
            Some("add an edge with \"targetNodeId\": null".into());
    }
}
