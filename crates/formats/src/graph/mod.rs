//! `graph`: 2nChat's agent graphs (docs/formats/graph.md).
//!
//! Nodes are agents or the executor of their tools; edges determine the course of the conversation. Agents are defined
//! in the file, or in folders below `agents/` next to it. Definitions may also be rows of database tables.

mod agents;
mod check;
mod edges;
mod folders;
mod front_end;
mod present;
mod rows;
mod steps;
mod tables;
mod tools;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::{Missing, TextRules};
use flowloom_core::json::{Node, NodeKind, parse_node};
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Format, Inputs, Plan};
use flowloom_core::render::{TextStyle, to_json};
use flowloom_core::value::Map;

use crate::front_end::DefinitionSource;
use crate::problems::Problems;
use crate::reader::{Fields, read_json, related_path};
use crate::sources::Sources;
use crate::wording::ORIGINAL_WORDING;
use agents::AgentCatalog;

pub(crate) use front_end::FRONT_END;

/// The text rules of a graph; only requests of tools contain references.
pub const TEXT_RULES: TextRules = TextRules {
    missing: Missing::Null,
    null_is_missing: true,
    style: TextStyle::Json,
    keeps_type: true,
    wording: ORIGINAL_WORDING,
};

/// Maximum number of nodes per user turn, including the executor.
pub const MAX_NODE_VISITS: u64 = 15;

/// Time limit of a run, in milliseconds.
pub const TIMEOUT_MS: u64 = 90_000;

/// The rule that agents of conversational graphs get after their instructions.
pub const END_RULE: &str = "When nothing more is to be done for the user, call the tool \"end\".";

/// The name of the conversation.
const THREAD_NAME: &str = "messages";

pub(crate) use tables::is_table;
pub(crate) use tools::{ToolPlace, ToolRecordReader, warn_misspelt_tool_keys};

/// The folder next to a graph that holds its agents.
pub const AGENTS_FOLDER: &str = "agents/";

/// The file of an agent's folder with its id and its tools.
pub const AGENT_SETTINGS_FILE: &str = "jsonSchema.json";

/// The file of an agent's folder with its instructions.
pub const AGENT_PROMPT_FILE: &str = "systemPrompt.md";

/// The keys under which an agent has its id. The first existing one counts; without any, the name is the id.
pub const AGENT_ID_KEYS: [&str; 3] = ["id", "agentId", "agent_id"];

/// The folder next to a graph that holds tools shared by several agents.
pub const TOOLS_FOLDER: &str = "tools/";

/// The file that represents a graph whose tables are CSV files.
pub const WORKFLOW_TABLE_FILE: &str = "system_agent_workflow.csv";

/// The keys with a meaning. Exported objects also have columns of their database.
const GRAPH_KEYS: [&str; 9] = [
    "id",
    "name",
    "description",
    "isConversational",
    "is_conversational",
    "nodes",
    "edges",
    "entrypointNodeId",
    "entrypoint_node_id",
];
const NODE_KEYS: [&str; 7] = ["id", "nodeName", "node_name", "nodeType", "node_type", "agentId", "agent_id"];
const EDGE_KEYS: [&str; 9] = [
    "id",
    "sourceNodeId",
    "source_node_id",
    "targetNodeId",
    "target_node_id",
    "conditionType",
    "condition_type",
    "conditionValue",
    "condition_value",
];

/// The destination that means the end.
const END_NAME: &str = "END";

/// The type of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeType {
    Agent,
    Executor,
    Person,
}

/// A node of the source.
struct GraphNode<'a> {
    id: &'a str,
    name: &'a str,
    span: Span,
    kind: NodeType,
    agent: Option<(&'a str, Span)>,
}

/// The condition of an edge.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Condition<'a> {
    Always,
    Value(&'a str),
}

/// An edge of the source. Ends are indexes of nodes; `None` is the end of the graph.
struct GraphEdge<'a> {
    from: usize,
    to: Option<usize>,
    condition: Condition<'a>,
    /// Whether it is an ALWAYS edge that is written as ON_COMPLETE.
    is_on_complete: bool,
    span: Span,
}

impl GraphEdge<'_> {
    /// Whether it leads to an executor.
    fn leads_to_executor(&self, graph: &Graph<'_>) -> bool {
        self.to.is_some_and(|to| graph.nodes[to].kind == NodeType::Executor)
    }
}

/// A whole graph.
struct Graph<'a> {
    nodes: Vec<GraphNode<'a>>,
    edges: Vec<GraphEdge<'a>>,
    /// The edges that leave each node, as indexes.
    outgoing: Vec<Vec<usize>>,
    entry: usize,
    is_conversational: bool,
    /// Whether no edge is left out because of its own values.
    is_whole: bool,
}

impl<'a> Graph<'a> {
    /// The edges that leave a node, in file order.
    fn edges_from(&self, node: usize) -> impl Iterator<Item = &GraphEdge<'a>> {
        self.outgoing.get(node).into_iter().flatten().map(|edge| &self.edges[*edge])
    }
}

/// The nodes of the source, and where each id is.
struct NodeList<'a> {
    nodes: Vec<GraphNode<'a>>,
    /// The first node with an id.
    by_id: HashMap<&'a str, usize>,
}

impl<'a> NodeList<'a> {
    fn new(nodes: Vec<GraphNode<'a>>) -> NodeList<'a> {
        let mut by_id = HashMap::new();
        nodes.iter().enumerate().for_each(|(index, node)| {
            by_id.entry(node.id).or_insert(index);
        });
        NodeList { nodes, by_id }
    }
}

/// The id of the format.
pub const FORMAT: Format = Format::new("graph");

/// The definition in the tables of a folder as JSON. `None` if `file` is not the table of workflows, or if the tables have
/// errors.
pub fn write_tables(file: &str, files: &BTreeMap<String, Vec<u8>>) -> Option<String> {
    if !is_table(file) {
        return None;
    }
    let sources = Sources { files: files.clone(), source_bytes: u64::MAX, ..Sources::default() };
    let mut problems = Problems::new(file);
    let rows = tables::read(file, &sources, &mut problems, &mut Vec::new())?;
    let joined = rows::join_tables(&rows, &mut problems)?;
    (!problems.has_errors()).then(|| to_json(&joined.to_value()))
}

/// Compiles a graph.
fn compile(
    source: DefinitionSource<'_>,
    sources: &Sources,
    problems: &mut Problems,
    needs: &mut Vec<String>,
) -> Option<Plan> {
    let DefinitionSource { file, text, tree } = source;
    let node = if is_table(file) {
        tables::read(file, sources, problems, needs)?
    } else {
        tree.or_else(|| read_json(text, parse_node(text), problems))?
    };
    let node = match rows::join_tables(&node, problems) {
        Some(gathered) => gathered,
        None => node,
    };
    let inner = ["workflow", "definition"].iter().find_map(|key| node.get(key)).unwrap_or(&node);
    let mut agents = AgentCatalog::load_agents(file, &node, inner, sources, problems);
    needs.append(&mut agents.take_missing());
    let is_lenient = sources.is_lenient;
    GraphCompiler { problems, agents, is_lenient, is_whole: true, missing_files: needs }.compile_graph(inner, file)
}

struct GraphCompiler<'a> {
    problems: &'a mut Problems,
    agents: AgentCatalog<'a>,
    /// Whether dangling edges are dropped with a warning.
    is_lenient: bool,
    /// Whether no edge is left out because of its own values.
    is_whole: bool,
    /// Missing files of agents.
    missing_files: &'a mut Vec<String>,
}

impl GraphCompiler<'_> {
    fn compile_graph(mut self, node: &Node, file: &str) -> Option<Plan> {
        let fields = Fields::read_object(node, "a graph", self.problems)?;
        fields.warn_misspelt_keys(&GRAPH_KEYS, self.problems);
        let mut text = |key| read_text_field(&fields, key, self.problems).map(|(text, _)| text.to_owned());
        let (id, name, description) = (text("id"), text("name"), text("description"));
        let conversational = either_key(&fields, "isConversational", "is_conversational");
        let is_conversational = match conversational.map(|node| (node, &node.kind)) {
            None => false,
            Some((_, NodeKind::Bool(is_conversational))) => *is_conversational,
            Some((node, _)) => {
                fields.report_wrong_kind("isConversational", node, "true or false", self.problems).help =
                    Some("write true or false, without quotes".into());
                false
            }
        };
        let (items, _) = fields.read_required_list("nodes", self.problems)?;
        let nodes = NodeList::new(items.iter().filter_map(|item| self.read_node(item)).collect());
        if nodes.nodes.is_empty() {
            self.report_no_nodes(&fields, items.is_empty());
            return None;
        }
        let edges = self.read_edges(&fields, &nodes);
        let entry = self.read_entry(&fields, &nodes);
        let mut outgoing = vec![Vec::new(); nodes.nodes.len()];
        edges.iter().enumerate().for_each(|(index, edge)| outgoing[edge.from].push(index));
        let is_whole = self.is_whole;
        let entry = entry.unwrap_or_default();
        let graph = Graph { nodes: nodes.nodes, edges, outgoing, entry, is_conversational, is_whole };
        check::check_graph(&graph, &self.agents, self.problems);
        let missing = graph.nodes.iter().filter_map(|node| check::missing_agent(node, &self.agents));
        let place = |agent: &str| related_path(file, &format!("{AGENTS_FOLDER}{agent}/{AGENT_SETTINGS_FILE}"));
        self.missing_files.extend(missing.map(|(agent, _)| place(agent)));
        if self.problems.has_errors() {
            return None;
        }
        Some(Plan {
            format: FORMAT,
            name: name.or_else(|| id.clone()).unwrap_or_else(|| file.to_owned()),
            id,
            description: description.unwrap_or_default(),
            inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: true },
            text: TEXT_RULES,
            limits: Limits { time_ms: Some(TIMEOUT_MS), ..Limits::unlimited() },
            functions: Vec::new(),
            thread: Some(THREAD_NAME.into()),
            root: steps::build_machine(&graph, &self.agents),
        })
    }

    /// Reports a graph without nodes. If it has items that are no nodes, they are reported already.
    fn report_no_nodes(&mut self, fields: &Fields<'_>, has_no_items: bool) {
        if let Some(list) = fields.get("nodes").filter(|_| has_no_items) {
            self.problems.add_error(Code::NoEntry, list.span, "the graph has no nodes").help =
                Some("add a node, for example one with \"nodeType\": \"AGENT\"".into());
        }
    }

    fn read_node<'a>(&mut self, node: &'a Node) -> Option<GraphNode<'a>> {
        let fields = Fields::read_object(node, "a node", self.problems)?;
        fields.warn_misspelt_keys(&NODE_KEYS, self.problems);
        let (id, span) = fields.read_required_text("id", self.problems)?;
        let name = read_either_text(&fields, "nodeName", "node_name", self.problems).map_or(id, |(name, _)| name);
        let kind = self.read_node_type(&fields, name);
        let agent = read_either_text(&fields, "agentId", "agent_id", self.problems);
        Some(GraphNode { id, name, span, kind, agent })
    }

    /// The type of a node. One without a valid type is checked like an agent.
    fn read_node_type(&mut self, fields: &Fields<'_>, name: &str) -> NodeType {
        let known = ["AGENT", "TOOL_EXECUTOR", "HUMAN_HANDOFF"];
        let written = either_key(fields, "nodeType", "node_type");
        match (written, written.and_then(Node::as_str)) {
            _ if name == "human_handoff" => return NodeType::Person,
            // The original's `workflow create` writes ROUTER, which is missing in its own enumeration.
            (_, Some("AGENT" | "ROUTER")) => return NodeType::Agent,
            (_, Some("TOOL_EXECUTOR")) => return NodeType::Executor,
            (_, Some("HUMAN_HANDOFF")) => return NodeType::Person,
            (Some(written), Some(other)) => {
                let message = format_args!("there is no node type {other:?}");
                let meant = self.problems.find_similar(other, known);
                let diagnostic = self.problems.add_error(Code::UnknownNodeType, written.span, message);
                let help = || format!("it is one of {}", known.join(", "));
                diagnostic.suggest_or_help(meant.map(|meant| format!("{meant:?}")), help);
            }
            (Some(written), None) => {
                let expected = known.join(" or ");
                fields.report_wrong_kind("nodeType", written, &expected, self.problems).help =
                    Some("write one of them in double quotes".into());
            }
            (None, _) => {
                fields.report_missing("nodeType", self.problems).help =
                    Some(format!("it is one of {}", known.join(", ")));
            }
        }
        NodeType::Agent
    }

    fn read_entry(&mut self, fields: &Fields<'_>, nodes: &NodeList<'_>) -> Option<usize> {
        let entry = either_key(fields, "entrypointNodeId", "entrypoint_node_id");
        if let Some(entry) = entry.filter(|entry| entry.as_str().is_none()) {
            fields.report_wrong_kind("entrypointNodeId", entry, "the id of a node", self.problems).help =
                Some("write the \"id\" of a node in double quotes".into());
            return None;
        }
        let Some((id, span)) = entry.and_then(|node| Some((node.as_str()?, node.span))) else {
            self.problems.add_error(Code::NoEntry, fields.start_span(), "the graph has no \"entrypointNodeId\"").help =
                Some("name the id of the node that the conversation starts with".into());
            return None;
        };
        let found = nodes.by_id.get(id).copied();
        if found.is_none() {
            let message = format_args!("the entry node {id} does not exist");
            self.report_unknown_node(Code::NoEntry, span, message, id, nodes.nodes.iter().map(|node| node.id));
        }
        found
    }

    fn report_unknown_node<'n>(
        &mut self,
        code: Code,
        span: Span,
        message: fmt::Arguments<'_>,
        id: &str,
        known: impl Iterator<Item = &'n str>,
    ) {
        let meant = self.problems.find_similar(id, known);
        let help = match meant {
            Some(meant) => format!("did you mean {meant:?}? or add a node with this id"),
            None if code == Code::DanglingEdge => "add a node with this id, or remove the edge".to_owned(),
            None => "name one of the nodes, or add a node with this id".to_owned(),
        };
        let diagnostic = match code {
            Code::DanglingEdge if self.is_lenient => {
                self.problems.add_warning(code, span, format_args!("{message}; it is left out"))
            }
            _ => self.problems.add_error(code, span, message),
        };
        if let Some(meant) = meant {
            diagnostic.suggest_text(&format!("{meant:?}"));
        }
        diagnostic.help = Some(help);
    }
}

/// A field with its spelling in files and its spelling in tables.
fn either_key<'a>(fields: &Fields<'a>, camel: &str, snake: &str) -> Option<&'a Node> {
    fields.get_non_null(camel).or_else(|| fields.get_non_null(snake))
}

/// The text of such a field. Another value is reported.
fn read_either_text<'a>(
    fields: &Fields<'a>,
    camel: &str,
    snake: &str,
    problems: &mut Problems,
) -> Option<(&'a str, Span)> {
    let key = if fields.get_non_null(camel).is_some() { camel } else { snake };
    read_text_field(fields, key, problems)
}

/// The text of a field. Another value is reported.
fn read_text_field<'a>(fields: &Fields<'a>, key: &str, problems: &mut Problems) -> Option<(&'a str, Span)> {
    let node = fields.get_non_null(key)?;
    let Some(text) = node.as_str() else {
        fields.report_wrong_kind(key, node, "text", problems).help = Some("write it in double quotes".into());
        return None;
    };
    Some((text, node.span))
}
