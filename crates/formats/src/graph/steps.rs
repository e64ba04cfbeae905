//! Compiles a graph into a machine: an agent becomes a turn, the executor becomes its tool calls, a person becomes a
//! question.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use flowloom_core::chat::{Content, GenerateOptions, Role, ToolDeclaration};
use flowloom_core::expr::{Data, Expr, Ref, Template};
use flowloom_core::path::{Key, Siblings};
use flowloom_core::plan::{
    AgentTool, AppendMessage, CallTools, Composite, Edge, EndTool, Generate, Leaf, Machine, Merge, Router, Step,
    StepKind, Turn, Write,
};
use flowloom_core::value::Value;

use super::agents::{AgentCatalog, to_shared};
use crate::servers::tool_name;

use super::{Condition, END_NAME, END_RULE, Graph, MAX_NODE_VISITS, NodeType, THREAD_NAME};

/// The tool by which an agent chooses the next node.
pub(super) const ROUTER_TOOL: &str = "router";
/// Its argument.
const DESTINATION_ARGUMENT: &str = "next_node";
/// The tool by which an agent ends a conversation.
pub(super) const END_TOOL: &str = "end";
/// Maximum number of corrections that an agent receives for a destination that does not exist.
const MAX_ROUTING_RETRIES: u32 = 2;

/// The label of the edges between an agent and the executor of its tools.
const TOOLS_LABEL: &str = "tools";
/// The label of an edge that is taken if no other one is.
const ALWAYS_LABEL: &str = "ALWAYS";

/// The variable that holds the last answer of an agent.
const ANSWER_VARIABLE: &str = "answer";

/// The variable that holds the results of the executor, one item per visit.
const EXECUTED_VARIABLE: &str = "executed";

/// The root step of a graph.
pub(super) fn build_machine(graph: &Graph<'_>, agents: &AgentCatalog<'_>) -> Step {
    let mut siblings = Siblings::default();
    let nodes = (0..graph.nodes.len()).map(|index| build_node(graph, index, agents, &mut siblings)).collect();
    let edges = (0..graph.nodes.len()).flat_map(|index| build_edges(graph, index)).collect();
    let resets = (0..graph.nodes.len()).filter(|index| graph.nodes[*index].kind == NodeType::Person).collect();
    let machine = Machine { nodes, entry: graph.entry, edges, max_visits: MAX_NODE_VISITS, resets };
    Step::new(Key::numbered_key("graph", 1), Composite::Machine(machine))
}

fn build_node(graph: &Graph<'_>, index: usize, agents: &AgentCatalog<'_>, siblings: &mut Siblings) -> Step {
    let node = &graph.nodes[index];
    let kind = match node.kind {
        NodeType::Agent => build_turn(graph, index, agents),
        NodeType::Executor => build_executor(graph, agents),
        NodeType::Person => build_person(),
    };
    let mut step = Step::new(siblings.next_key(Some(node.name), "node"), kind);
    step.title = node.name.to_owned();
    step.span = node.span;
    step.writes = match node.kind {
        NodeType::Agent => vec![Write::to_variable(ANSWER_VARIABLE)],
        NodeType::Executor => {
            vec![Write { names: vec![Template::from_literal(EXECUTED_VARIABLE)], merge: Merge::Append }]
        }
        NodeType::Person => Vec::new(),
    };
    step
}

/// Runs the calls of the last turn, with the tools that this turn can call.
fn build_executor(graph: &Graph<'_>, agents: &AgentCatalog<'_>) -> StepKind {
    let mut tools: Vec<AgentTool> = Vec::new();
    // Most tools of one name are the same tool of several agents.
    let mut known: HashMap<String, Vec<usize>> = HashMap::new();
    let mut tools_by_turn = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeType::Agent) {
        let mut available = Vec::new();
        for tool in list_own_tools(graph, index, agents) {
            let same_name = known.entry(tool.declaration.name.clone()).or_default();
            let at = same_name.iter().copied().find(|at| tools[*at] == *tool).unwrap_or_else(|| {
                same_name.push(tools.len());
                tools.push(tool.clone());
                tools.len() - 1
            });
            available.push(at);
        }
        tools_by_turn.insert(to_shared(node.id), available);
    }
    let caller = answer_field("turn");
    StepKind::Composite(Composite::Tools(CallTools { thread: THREAD_NAME.into(), caller, tools, tools_by_turn }))
}

/// The tools of an agent's own record, without those whose names its routing tools have.
fn list_own_tools<'a>(
    graph: &Graph<'_>,
    index: usize,
    agents: &'a AgentCatalog<'_>,
) -> impl Iterator<Item = &'a AgentTool> {
    let routing = list_routing_tools(graph, index);
    agents.list_tools(&graph.nodes[index]).iter().filter(move |tool| !routing.contains(&tool.declaration.name.as_str()))
}

/// The names of the routing tools that an agent is offered.
pub(super) fn list_routing_tools(graph: &Graph<'_>, index: usize) -> Vec<&'static str> {
    let router = (!list_destinations(graph, index).is_empty()).then_some(ROUTER_TOOL);
    let end = graph.is_conversational.then_some(END_TOOL);
    router.into_iter().chain(end).collect()
}

/// The destinations that an agent can choose.
fn list_destinations(graph: &Graph<'_>, index: usize) -> Vec<Arc<str>> {
    let edges = graph.edges_from(index).filter(|edge| !edge.leads_to_executor(graph));
    edges
        .filter_map(|edge| if let Condition::Value(value) = edge.condition { Some(to_shared(value)) } else { None })
        .collect()
}

/// A field of the last answer of an agent.
fn answer_field(field: &str) -> Expr {
    let answer = Ref { name: ANSWER_VARIABLE.into(), path: Vec::new(), source: ANSWER_VARIABLE.into() };
    Expr::Field(Box::new(Expr::Ref(answer)), field.into())
}

fn build_turn(graph: &Graph<'_>, index: usize, agents: &AgentCatalog<'_>) -> StepKind {
    let node = &graph.nodes[index];
    let agent = node.agent.and_then(|(id, _)| agents.get(id));
    let destinations = list_destinations(graph, index);
    let mut routing = Vec::new();
    if !destinations.is_empty() {
        routing.push(router_tool(&destinations));
    }
    if graph.is_conversational {
        routing.push(end_tool());
    }
    let mut system = agent.map(|agent| agent.prompt.clone()).unwrap_or_default();
    if graph.is_conversational {
        system = if system.is_empty() { END_RULE.to_owned() } else { format!("{system}\n\n{END_RULE}") };
    }
    let generate = Generate {
        model: agent.and_then(|agent| agent.model.as_deref()).map(Template::from_literal),
        system: (!system.is_empty()).then(|| Data::Text(Template::from_literal(&system))),
        thread: Some(THREAD_NAME.into()),
        messages: Vec::new(),
        schema: None,
        options: GenerateOptions::default(),
        computed: None,
    };
    let has_routes = !routing.is_empty();
    let has_executor = graph.edges_from(index).any(|edge| edge.leads_to_executor(graph));
    let why = || format!("no edge leads from {} to an executor of tools", node.name).into();
    StepKind::Composite(Composite::Turn(Turn {
        id: node.id.into(),
        name: node.name.into(),
        generate,
        tools: list_own_tools(graph, index, agents).cloned().collect(),
        router: has_routes.then(|| Router {
            tools: routing,
            argument: DESTINATION_ARGUMENT.into(),
            end: graph.is_conversational.then(|| EndTool { name: END_TOOL.into(), destination: END_NAME.into() }),
            destinations,
            retries: MAX_ROUTING_RETRIES,
        }),
        not_run_reason: (!has_executor).then(why),
    }))
}

fn router_tool(destinations: &[Arc<str>]) -> ToolDeclaration {
    let places = Value::list(destinations.iter().map(|place| (&**place).into()).collect());
    let has_end = destinations.iter().any(|place| &**place == END_NAME);
    let description = if has_end { "Who goes on; END ends the conversation." } else { "Who goes on." };
    let next = Value::map([("type", Value::from("string")), ("enum", places), ("description", description.into())]);
    ToolDeclaration {
        name: ROUTER_TOOL.into(),
        description: "Hands the conversation over.".into(),
        parameters: object_schema([(DESTINATION_ARGUMENT, next)], &[DESTINATION_ARGUMENT]),
    }
}

fn end_tool() -> ToolDeclaration {
    let description = "Ends the conversation; call it when nothing more is to be done for the user.".into();
    ToolDeclaration { name: END_TOOL.into(), description, parameters: object_schema([], &[]) }
}

fn object_schema<const N: usize>(properties: [(&str, Value); N], required: &[&str]) -> Value {
    Value::map([
        ("type", Value::from("object")),
        ("properties", Value::map(properties)),
        ("required", Value::list(required.iter().map(|name| (*name).into()).collect())),
        ("additionalProperties", false.into()),
    ])
}

/// A person takes over: their answer is the user's next message.
fn build_person() -> StepKind {
    let question = Template::from_literal("A person is needed here: what should the conversation go on with?");
    let key = |name: &str| Key::from_name(name).unwrap_or_else(|| Key::numbered_key("step", 1));
    let mut ask = Step::new(key("ask"), Leaf::Ask { question, schema: None });
    ask.writes = vec![Write::to_variable("said")];
    let typed = Ref { name: "said".into(), path: Vec::new(), source: "said".into() };
    let content = Content::Value(Expr::Ref(typed));
    let append = AppendMessage { thread: Some(THREAD_NAME.into()), role: Role::User, content, in_transcript: false };
    StepKind::Composite(Composite::Sequence(vec![ask, Step::new(key("say"), Composite::AppendMessage(append))]))
}

/// The edges of a node in the order in which they are tried.
fn build_edges(graph: &Graph<'_>, index: usize) -> Vec<Edge> {
    let own: Vec<_> = graph.edges_from(index).collect();
    let edge = |to, condition, label: &str| Edge { from: index, to, condition, label: Some(label.into()) };
    let implied = |to, condition| Edge { from: index, to, condition, label: None };
    let output = |field: &str| Expr::Field(Box::new(Expr::Output), field.into());
    let is = |left: Expr, right: &str| Expr::Equals(Box::new(left), Box::new(Expr::Constant(right.into())));
    let mut edges = Vec::new();
    let field = match graph.nodes[index].kind {
        NodeType::Agent => {
            let none = Expr::Constant(Value::list(Vec::new()));
            let calls = Expr::Not(Box::new(Expr::Equals(Box::new(output("tool_calls")), Box::new(none))));
            let executor = own.iter().find(|found| found.leads_to_executor(graph));
            edges.extend(executor.map(|found| {
                let label = match found.condition {
                    Condition::Value(value) => value,
                    Condition::Always => TOOLS_LABEL,
                };
                edge(found.to, Some(calls), label)
            }));
            "next"
        }
        NodeType::Executor => "tool",
        NodeType::Person => "",
    };
    for found in &own {
        match found.condition {
            // An agent does not choose the executor by name; its tool calls do.
            Condition::Value(value) if !field.is_empty() && !found.leads_to_executor(graph) => {
                // Models know a tool under the name that they accept.
                let named = if field == "tool" { tool_name(value) } else { value.to_owned() };
                edges.push(edge(found.to, Some(is(output(field), &named)), value));
            }
            _ => {}
        }
    }
    // An agent may end a conversation even if no edge leads to the end.
    let has_end = own.iter().any(|found| found.condition == Condition::Value(END_NAME));
    if graph.is_conversational && graph.nodes[index].kind == NodeType::Agent && !has_end {
        edges.push(implied(None, Some(is(output("next"), END_NAME))));
    }
    if let Some(found) = own.iter().find(|found| found.condition == Condition::Always) {
        let label = if own.len() > 1 { ALWAYS_LABEL } else { "" };
        edges.push(edge(found.to, Some(Expr::Constant(true.into())), label));
        return edges;
    }
    match graph.nodes[index].kind {
        NodeType::Executor => {
            // Back to the agent that requested the calls.
            let agents = graph.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeType::Agent);
            edges.extend(agents.map(|(to, node)| {
                let label = graph.edges_from(to).any(|edge| edge.leads_to_executor(graph)).then(|| TOOLS_LABEL.into());
                Edge { label, ..implied(Some(to), Some(is(answer_field("turn"), node.id))) }
            }));
        }
        NodeType::Person => edges.push(edge(Some(graph.entry), Some(Expr::Constant(true.into())), "")),
        NodeType::Agent => {
            // Without an edge in the definition, the conversation ends, unless the agent chose an unknown destination.
            let knows = Expr::Equals(Box::new(output("lost")), Box::new(Expr::Constant(false.into())));
            edges.push(edge(None, Some(knows), ""));
            return edges;
        }
    }
    edges.push(implied(None, None));
    edges
}
