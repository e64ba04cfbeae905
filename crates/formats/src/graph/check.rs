//! Checks a graph as a whole: everything that langgraph rejects, and structures that prevent a conversation from
//! ending.

use std::collections::{HashMap, HashSet};

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;

use super::agents::AgentCatalog;
use super::steps::list_routing_tools;
use super::{AGENT_SETTINGS_FILE, AGENTS_FOLDER, Condition, Graph, GraphNode, MAX_NODE_VISITS, NodeType};
use crate::problems::Problems;

pub(super) fn check_graph(graph: &Graph<'_>, agents: &AgentCatalog<'_>, problems: &mut Problems) {
    check_unique_names(graph, problems);
    graph.nodes.iter().for_each(|node| check_agent(node, agents, problems));
    for index in 0..graph.nodes.len() {
        check_edges(graph, index, problems);
        check_executor(graph, index, agents, problems);
        check_tool_names(graph, index, agents, problems);
    }
    // A missing edge would make other nodes seem unreachable.
    if graph.is_whole {
        check_reachable(graph, problems);
        check_can_end(graph, problems);
    }
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
            let message = format_args!("there are several nodes with the id {}", node.id);
            problems.add_error(Code::DuplicateName, node.span, message).help =
                Some("give each node an id of its own, and correct the edges that name it".into());
        } else if !is_new_name {
            let message =
                format_args!("there are several nodes named {:?}; agents choose where to go by name", node.name);
            problems.add_warning(Code::DuplicateName, node.span, message).help =
                Some("give each node a name of its own".into());
        }
    }
}

fn check_agent(node: &GraphNode<'_>, agents: &AgentCatalog<'_>, problems: &mut Problems) {
    if node.agent.is_none() && node.kind == NodeType::Agent {
        let message = format_args!("the node {} has no agent", node.name);
        problems.add_error(Code::UnknownAgent, node.span, message).help = Some("give it an \"agentId\"".into());
    }
    let Some((id, span)) = missing_agent(node, agents) else { return };
    if agents.has_unreadable() {
        return;
    }
    if let Some(folder) = agents.find_incomplete_folder(id) {
        let message =
            format_args!("the agent {id} of the node {} has no {AGENT_SETTINGS_FILE} in {folder}/", node.name);
        problems.add_error(Code::UnknownAgent, span, message).help =
            Some(format!("add {folder}/{AGENT_SETTINGS_FILE}: {{\"agentId\": \"{id}\", \"tools\": []}}"));
        return;
    }
    let message = format_args!("the agent {id} of the node {} does not exist", node.name);
    let place = format!(
        "put it into {AGENTS_FOLDER}NAME/ (systemPrompt.md and jsonSchema.json) next to this file or further up in the \
         project, into \"agents\" of this file, or name its folder in flowloom.toml: [agents.{}] folder",
        to_toml_key(id)
    );
    if agents.is_empty() {
        let message = format_args!("{message}; it runs without instructions or tools of its own");
        problems.add_warning(Code::UnknownAgent, span, message).help = Some(place);
        return;
    }
    let meant = problems.find_similar(id, agents.agent_names());
    let diagnostic = problems.add_error(Code::UnknownAgent, span, message);
    match meant {
        Some(meant) => {
            diagnostic.suggest_text(&format!("{meant:?}"));
            diagnostic.help = Some(format!("did you mean {meant:?}? or {place}"));
        }
        None => diagnostic.help = Some(place),
    }
}

/// A key of TOML, in quotes if it needs them.
fn to_toml_key(key: &str) -> String {
    let is_bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_bare { key.to_owned() } else { format!("{key:?}") }
}

/// The unknown agent that a node names, and the place where it is named.
pub(super) fn missing_agent<'a>(node: &GraphNode<'a>, agents: &AgentCatalog<'_>) -> Option<(&'a str, Span)> {
    node.agent.filter(|(id, _)| node.kind == NodeType::Agent && agents.get(id).is_none())
}

/// The conditions of a node's edges must be distinct.
fn check_edges(graph: &Graph<'_>, index: usize, problems: &mut Problems) {
    let node = &graph.nodes[index];
    let mut seen: HashMap<String, &str> = HashMap::new();
    let mut first_always = None;
    for edge in graph.edges_from(index) {
        match (edge.condition, first_always) {
            (Condition::Always, None) => first_always = Some(edge),
            (Condition::Always, Some(first)) => {
                let kinds = match (first.is_on_complete, edge.is_on_complete) {
                    (false, false) => "two ALWAYS edges",
                    (true, true) => "two ON_COMPLETE edges",
                    _ => "an ALWAYS and an ON_COMPLETE edge",
                };
                let message = format_args!("{} has {kinds}; only one of them can be taken", node.name);
                problems.add_error(Code::TwoAlways, edge.span, message).help =
                    Some("keep one of them, and give the other a condition".into());
            }
            (Condition::Value(value), _) => {
                check_has_effect(node, value, edge.span, problems);
                let Some(other) = seen.insert(value.to_lowercase(), value) else { continue };
                let note = if other == value { "" } else { " (case does not count)" };
                let message =
                    format_args!("{} has two edges for {value:?}{note}; only one of them can be taken", node.name);
                problems.add_error(Code::DuplicateCondition, edge.span, message).help =
                    Some("give one of them another \"conditionValue\", or remove it".into());
            }
        }
    }
}

/// A person chooses no destination, so a condition after a hand-off is never met.
fn check_has_effect(node: &GraphNode<'_>, value: &str, span: Span, problems: &mut Problems) {
    if node.kind == NodeType::Person {
        let message =
            format_args!("the edge for {value:?} is never taken: a person in {} chooses no destination", node.name);
        problems.add_warning(Code::IgnoredKey, span, message).help =
            Some("write ALWAYS; without such an edge the conversation continues at the entry node".into());
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
            "the tool {name:?} of {} is not available: the graph itself has a tool {name:?}, by which agents choose where to go",
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
    let mut ids = HashSet::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        // No edge can lead to the second node with an id, which is reported.
        if !ids.insert(node.id) || reached.contains(&index) {
            continue;
        }
        let message = format_args!("nothing leads to {} ({})", node.name, node.id);
        problems.add_warning(Code::Unreachable, node.span, message).help =
            Some("add an edge to it, or remove it".into());
    }
}

/// A conversation must be able to end, and within the limit of nodes.
fn check_can_end(graph: &Graph<'_>, problems: &mut Problems) {
    let place = graph.nodes.get(graph.entry).map(|node| node.span).unwrap_or_default();
    let can_end = (0..graph.nodes.len()).any(|index| can_end_at(graph, index));
    if !can_end && graph.nodes.iter().any(|node| node.kind == NodeType::Agent) {
        let message = "no edge leads to the end, and every node continues by itself; the run will reach its step limit";
        problems.add_warning(Code::NoWayOut, place, message).help =
            Some("add an edge with \"targetNodeId\": null".into());
        return;
    }
    // A person starts the count again, also at the limit.
    let has_person = graph.nodes.iter().any(|node| node.kind == NodeType::Person);
    let Some(length) = find_shortest_way(graph).filter(|length| *length > MAX_NODE_VISITS && !has_person) else {
        return;
    };
    let message = format_args!(
        "the shortest way to the end has {length} nodes, and one message visits at most {MAX_NODE_VISITS}; the run will fail"
    );
    problems.add_warning(Code::NoWayOut, place, message).help =
        Some("use fewer nodes, or let an agent in between end the conversation".into());
}

/// Whether a conversation can end at a node.
fn can_end_at(graph: &Graph<'_>, index: usize) -> bool {
    let has_end = graph.edges_from(index).any(|edge| edge.to.is_none());
    let has_always = graph.edges_from(index).any(|edge| edge.condition == Condition::Always);
    let is_agent = graph.nodes[index].kind == NodeType::Agent;
    has_end || (is_agent && (!has_always || graph.is_conversational))
}

/// The number of nodes on the shortest way from the entry to a node at which a conversation can end; `None` if there is
/// none. An executor without an edge goes back to where it was called, which no shortest way does.
fn find_shortest_way(graph: &Graph<'_>) -> Option<u64> {
    let mut reached: HashSet<usize> = HashSet::from([graph.entry]);
    let mut places = vec![graph.entry];
    let mut length = 1;
    while !places.is_empty() {
        if places.iter().any(|place| can_end_at(graph, *place)) {
            return Some(length);
        }
        let next = places.iter().flat_map(|place| graph.edges_from(*place).filter_map(|edge| edge.to));
        places = next.filter(|to| reached.insert(*to)).collect();
        length += 1;
    }
    None
}
