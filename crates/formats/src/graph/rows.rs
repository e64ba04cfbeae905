//! Definitions as rows of database tables, combined into one object: the workflow with its nodes and edges, and the
//! agents with their tools.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::json::{Node, NodeKind, parse_value};
use flowloom_core::value::Value;

use crate::problems::Problems;

pub(super) const WORKFLOW_TABLE: &str = "system_agent_workflow";
pub(super) const NODE_TABLE: &str = "system_agent_workflow_node";
pub(super) const EDGE_TABLE: &str = "system_agent_workflow_edge";
pub(super) const AGENT_TABLE: &str = "system_agent";
pub(super) const TOOL_TABLE: &str = "system_tool";
pub(super) const AGENT_TOOL_TABLE: &str = "system_agent_tool";

/// The names of tables in the original's documentation, and those in its database.
const DOCUMENTED_NAMES: [(&str, &str); 3] =
    [("agent_workflows", WORKFLOW_TABLE), ("agent_workflow_nodes", NODE_TABLE), ("agent_workflow_edges", EDGE_TABLE)];

/// The key of the agents of a definition.
const AGENTS_KEY: &str = "agents";

/// The columns of tools, and the keys of a tool record that they become.
const TOOL_COLUMNS: [(&str, &str, &str); 4] = [
    ("id", "id", "toolId"),
    ("tool_name", "toolName", "name"),
    ("description_for_llm", "descriptionForLlm", "description"),
    ("internal_api_path", "internalApiPath", "internalApiPath"),
];

/// A table under its name in the database or in the documentation.
fn find_table<'a>(root: &'a Node, table: &str) -> Option<&'a Node> {
    let documented = DOCUMENTED_NAMES.iter().find(|(_, name)| *name == table).map(|(documented, _)| *documented);
    let found = root.get(table).or_else(|| root.get(documented?))?;
    (!matches!(found.kind, NodeKind::Null)).then_some(found)
}

/// The table of workflows, if a document has one.
pub(super) fn find_workflow_table(root: &Node) -> Option<&Node> {
    find_table(root, WORKFLOW_TABLE).filter(|table| table.items().is_some())
}

/// The rows of a table; none if there is no such table. Another value is reported.
fn read_rows<'a>(root: &'a Node, table: &str, problems: &mut Problems) -> &'a [Node] {
    let Some(node) = find_table(root, table) else { return &[] };
    node.items().unwrap_or_else(|| {
        let message = format_args!("the table {table:?} must be a list of rows, not {}", node.kind_name());
        problems.add_error(Code::WrongKind, node.span, message).help =
            Some("write a list with an object for each row".into());
        &[]
    })
}

/// The text of a row in a column, in the spelling of tables or of files.
fn read_column<'a>(row: &'a Node, snake: &str, camel: &str) -> Option<&'a str> {
    [snake, camel].iter().find_map(|key| row.get(key)?.as_str())
}

/// The first workflow of `root` with its nodes, edges and agents; `None` if `root` has no such tables.
pub(super) fn join_tables(root: &Node, problems: &mut Problems) -> Option<Node> {
    let workflow = find_workflow_table(root)?.items()?.first()?;
    let id = workflow.get("id").and_then(Node::as_str).map(str::to_owned);
    let mut gathered = workflow.clone();
    let NodeKind::Map(entries) = &mut gathered.kind else { return None };
    for (key, table) in [("nodes", NODE_TABLE), ("edges", EDGE_TABLE)] {
        let Some(list) = find_table(root, table) else { continue };
        let of_workflow = |row: &&Node| {
            let owner = read_column(row, "workflow_id", "workflowId");
            owner.is_none() || owner == id.as_deref()
        };
        let rows = read_rows(root, table, problems).iter().filter(of_workflow).cloned().collect();
        entries.push((key.to_owned(), list.span, Node { kind: NodeKind::List(rows), span: list.span }));
    }
    let table = find_table(root, AGENT_TABLE).map(|table| table.span);
    let own = root.get(AGENTS_KEY);
    let mut agents = join_agents(root, problems);
    match own.map(|own| (own, own.items())) {
        // Agents of a wrong kind are reported with those of other definitions.
        Some((own, None)) => entries.push((AGENTS_KEY.to_owned(), own.span, own.clone())),
        Some((own, Some(items))) => {
            agents.splice(0..0, items.iter().cloned());
            entries.push((AGENTS_KEY.to_owned(), own.span, Node { kind: NodeKind::List(agents), span: own.span }));
        }
        None => {
            let span = table.unwrap_or_default();
            entries.push((AGENTS_KEY.to_owned(), span, Node { kind: NodeKind::List(agents), span }));
        }
    }
    Some(gathered)
}

/// The rows of agents, each with the records of its tools.
fn join_agents(root: &Node, problems: &mut Problems) -> Vec<Node> {
    let (agents, tools) = (read_rows(root, AGENT_TABLE, problems), read_rows(root, TOOL_TABLE, problems));
    let links = read_rows(root, AGENT_TOOL_TABLE, problems);
    let mut joined = Vec::new();
    for agent in agents {
        let mut agent = agent.clone();
        let id = agent.get("id").and_then(Node::as_str).map(str::to_owned);
        let own = links.iter().filter(|link| id.is_some() && read_column(link, "agent_id", "agentId") == id.as_deref());
        let records: Vec<Node> = own.filter_map(|link| find_tool(link, tools, problems)).collect();
        let (span, kind) = (agent.span, NodeKind::List(records));
        if let NodeKind::Map(entries) = &mut agent.kind {
            entries.retain(|(key, _, _)| key != "tools");
            entries.push(("tools".to_owned(), span, Node { span, kind }));
        }
        joined.push(agent);
    }
    joined
}

/// The record of the tool that a row of the table of agents and tools names.
fn find_tool(link: &Node, tools: &[Node], problems: &mut Problems) -> Option<Node> {
    let id = read_column(link, "tool_id", "toolId").unwrap_or_default();
    let Some(row) = tools.iter().find(|tool| tool.get("id").and_then(Node::as_str) == Some(id)) else {
        let message =
            format_args!("the table {AGENT_TOOL_TABLE} names the tool {id:?}, which {TOOL_TABLE} does not have");
        problems.add_error(Code::UnknownTool, link.span, message).help =
            Some(format!("export the table {TOOL_TABLE} as well, or remove this row"));
        return None;
    };
    let mut entries = Vec::new();
    for (snake, camel, key) in TOOL_COLUMNS {
        if let Some(text) = read_column(row, snake, camel) {
            entries.push((key.to_owned(), row.span, to_node(&text.into(), row.span)));
        }
    }
    let schema = ["json_schema", "jsonSchema"].iter().find_map(|key| row.get(key));
    let schema = schema.and_then(|schema| read_schema(schema, id, problems));
    entries.extend(schema.map(|schema| ("parameters".to_owned(), schema.span, schema)));
    Some(Node { kind: NodeKind::Map(entries), span: row.span })
}

/// The declaration of a tool: an object or, in an export, its JSON text. `None` if it is empty.
fn read_schema(schema: &Node, tool: &str, problems: &mut Problems) -> Option<Node> {
    let schema = match schema.as_str() {
        None => schema.clone(),
        Some(text) => match parse_value(text) {
            Ok(value) => to_node(&value, schema.span),
            Err(error) => {
                let message = format!("\"json_schema\" of the tool {tool} is not valid JSON: {}", error.message);
                problems.add_error(Code::JsonSyntax, schema.span, message).help =
                    Some("write the JSON Schema of its arguments, or its whole record".into());
                return None;
            }
        },
    };
    (!schema.entries().is_empty()).then_some(schema)
}

/// A value as a part of a definition, all of which is at `span`.
fn to_node(value: &Value, span: Span) -> Node {
    let kind = match value {
        Value::Bool(value) => NodeKind::Bool(*value),
        Value::Number(number) => NodeKind::Number(number.clone()),
        Value::String(text) => NodeKind::String(text.to_string()),
        Value::List(items) => NodeKind::List(items.iter().map(|item| to_node(item, span)).collect()),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| (key.to_string(), span, to_node(value, span)));
            NodeKind::Map(entries.collect())
        }
        _ => NodeKind::Null,
    };
    Node { kind, span }
}
