//! Writes agents, and graphs with one agent.

use std::collections::BTreeSet;

use flowloom_core::diagnostic::Span;
use flowloom_core::expr::{Data, Template};
use flowloom_core::json::parse_node;
use flowloom_core::plan::{
    Agent, AgentTool, CallLimit, Composite, Format, Generate, HttpSpec, Machine, StepKind, ToolEffect, Turn,
};
use flowloom_core::value::Value;
use flowloom_formats::{agent, blank_comments, graph};

use super::Emitter;
use super::parts::strip_rule;
use crate::json_text::{ObjectBuilder, Row, write_definition};
use crate::text::to_identifier;
use crate::turns::describe_graph_limits;

impl Emitter<'_> {
    /// An agent as a graph with one agent and the executor of its tools.
    pub(super) fn emit_agent(&mut self, single: &Agent, to: Format) -> Option<String> {
        let span = self.plan.root.span;
        if let CallLimit::Calls(limit) = single.limit {
            let message = format!("at most {limit} tool calls: a graph ends after 15 nodes and after 90 s");
            self.report.add_change(span, message);
        }
        if single.must_call {
            self.report
                .add_loss(span, "that the first answer must call a tool: the model of a graph is free to answer");
        }
        self.report_workflow_tools(&single.tools);
        Some(self.write_conversation(&single.generate, &single.tools, to))
    }

    /// Reports the tools that are workflows. Which ones there are is known to a server only, not to the plan of a file.
    fn report_workflow_tools(&mut self, tools: &[AgentTool]) {
        let Ok((node, _)) = parse_node(&blank_comments(self.source)) else {
            let message = "the tools that are workflows: the list of tools cannot be read";
            return self.report.add_loss(Span::default(), message);
        };
        let Some(list) = node.get("tools").filter(|list| list.items().is_some()) else {
            let span = Span { start: node.span.start, length: 1 };
            self.report.add_loss(span, "all workflows as tools: the tools of a graph are records");
            return;
        };
        let own_name = |tool: &'_ AgentTool| match &tool.effect {
            ToolEffect::Function(id) => id.to_string(),
            ToolEffect::Flow(_) | ToolEffect::Http(_) | ToolEffect::Client => tool.declaration.name.clone(),
        };
        let names: Vec<String> = tools.iter().map(own_name).collect();
        let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        for item in list.items().unwrap_or_default() {
            let Some(name) = item.as_str() else { continue };
            let server = name.strip_suffix('*').filter(|server| server.ends_with("::"));
            let has_server = |server: &str| known.range(server..).next().is_some_and(|id| id.starts_with(server));
            let is_known = known.contains(name) || server.is_some_and(has_server);
            if !is_known {
                let message = format!("the tool {name}: a workflow or a server, and the tools of a graph are records");
                self.report.add_loss(item.span, message);
            }
        }
    }

    /// A graph with one agent as an agent.
    pub(super) fn emit_machine(&mut self, machine: &Machine, turn: &Turn, to: Format) -> String {
        let is_person =
            |kind: &StepKind| !matches!(kind, StepKind::Composite(Composite::Turn(_) | Composite::Tools(_)));
        for node in machine.nodes.iter().filter(|node| is_person(&node.kind)) {
            self.report.add_loss(node.span, format!("the person {}: only a graph hands over to one", node.title));
        }
        let span = machine.nodes[machine.entry].span;
        if turn.router.is_some() {
            let message = format!("the routing tools of {}: an agent ends by answering", turn.name);
            self.report.add_loss(span, message);
        }
        if turn.not_run_reason.is_some() && !turn.tools.is_empty() {
            self.report.add_loss(span, format!("that the tools of {} are not run", turn.name));
        }
        let message = format!("{}: an agent may call 10 tools and takes its time", describe_graph_limits());
        self.report.add_change(Span::default(), message);
        self.write_conversation(&turn.generate, &turn.tools, to)
    }

    fn write_conversation(&mut self, generate: &Generate, tools: &[AgentTool], to: Format) -> String {
        let span = self.plan.root.span;
        let prompt = match &generate.system {
            Some(Data::Text(text)) => strip_rule(text.as_literal().unwrap_or_default()).to_owned(),
            _ => String::new(),
        };
        let mark = self.report.mark();
        let records: Vec<Value> = tools.iter().filter_map(|tool| self.tool_record(tool)).collect();
        let has_tools = !records.is_empty();
        let model = generate.model.as_ref().and_then(Template::as_literal).filter(|model| !model.is_empty());
        let losses = self.loss_comments(mark);
        self.report.add_kept("agent", span, "the instructions and the model");
        let name = self.plan.id.clone().unwrap_or_else(|| to_identifier(&self.plan.name, "agent"));
        let record = ObjectBuilder::default();
        if to == agent::FORMAT {
            let head = record
                .with_some("id", self.plan.id.as_deref())
                .with("name", self.plan.name.as_str())
                .with_text("description", &self.plan.description)
                .with("systemPrompt", prompt)
                .with_some("model", model)
                .build();
            let rows: Vec<Row> =
                records.into_iter().map(|value| Row { comments: Vec::new(), value: Some(value) }).collect();
            return write_definition(agent::FORMAT, head, &[("tools", &rows)], self.has_comments);
        }
        let record = record.with("id", name.as_str()).with("systemPrompt", prompt).with_some("model", model);
        let record = if has_tools { record.with("tools", Value::list(records)) } else { record };
        let head = ObjectBuilder::default()
            .with_some("id", self.plan.id.as_deref())
            .with("name", self.plan.name.as_str())
            .with_text("description", &self.plan.description)
            .with("isConversational", false)
            .with("entrypointNodeId", "agent");
        let node = |id: &str, kind: &str, agent: Option<&str>| {
            let node = ObjectBuilder::default().with("id", id).with("nodeType", kind).with("nodeName", id);
            Row { comments: Vec::new(), value: Some(node.with_some("agentId", agent).build()) }
        };
        let mut nodes = vec![node("agent", "AGENT", Some(&name))];
        let mut edges = Vec::new();
        if has_tools {
            nodes.push(node("tools", "TOOL_EXECUTOR", None));
            let edge = ObjectBuilder::default()
                .with("sourceNodeId", "agent")
                .with("targetNodeId", "tools")
                .with("conditionType", "CONDITIONAL")
                .with("conditionValue", "tools");
            edges.push(Row { comments: Vec::new(), value: Some(edge.build()) });
        }
        let agents = [Row { comments: losses, value: Some(record.build()) }];
        let lists = [("nodes", &nodes[..]), ("edges", &edges[..]), ("agents", &agents[..])];
        write_definition(graph::FORMAT, head.build(), &lists, self.has_comments)
    }

    /// A tool as a record; `None` if records cannot describe it.
    pub(super) fn tool_record(&mut self, tool: &AgentTool) -> Option<Value> {
        let span = self.plan.root.span;
        let declaration = &tool.declaration;
        let function = Value::map([
            ("name", Value::from(declaration.name.as_str())),
            ("description", declaration.description.as_str().into()),
            ("parameters", declaration.parameters.clone()),
        ]);
        let record = ObjectBuilder::default().with("type", "function").with("function", function);
        let record = match &tool.effect {
            ToolEffect::Function(id) => record.with("functionId", &**id),
            ToolEffect::Client => record.with("execution_location", "client"),
            ToolEffect::Http(http) => {
                let path = request_path(http);
                let message = format!("the tool {} is sent below the base URL of tools: {path}", declaration.name);
                self.report.add_change(span, message);
                record.with("internalApiPath", path)
            }
            ToolEffect::Flow(id) => {
                let message = format!("the tool {}: a record cannot name the workflow {id}", declaration.name);
                self.report.add_loss(span, message);
                return None;
            }
        };
        let message = format!("the tool {} is described and run as in this format", declaration.name);
        self.report.add_change(span, message);
        Some(if tool.needs_approval { record.with("needsApproval", true) } else { record }.build())
    }
}

/// The agent of a graph that has only one.
pub(super) fn find_only_turn(machine: &Machine) -> Option<&Turn> {
    let mut turns = machine.nodes.iter().filter_map(|node| match &node.kind {
        StepKind::Composite(Composite::Turn(turn)) => Some(turn),
        _ => None,
    });
    turns.next().filter(|_| turns.next().is_none())
}

/// The path of a request of a tool, without its host.
fn request_path(http: &HttpSpec) -> String {
    let url = http.url.as_literal().unwrap_or_default();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..]).to_owned()
}
