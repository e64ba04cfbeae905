//! The tools of an agent: workflows (by any of their names), functions, MCP tools, and tool records in the form of
//! graphs.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Span, find_similar_name};
use flowloom_core::json::Node;
use flowloom_core::plan::{AgentTool, ToolEffect};

use super::AvailableFlow;
use crate::flow::tool_name_of_uuid;
use crate::graph::{TOOLS_FOLDER, ToolPlace, ToolRecordReader, warn_misspelt_tool_keys};
use crate::problems::Problems;
use crate::reader::related_path;
use crate::servers::tool_name;
use crate::sources::Sources;

/// The prefix of flow names in AnythingLLM's lists of tools.
const FLOW_PREFIX: &str = "@@";

/// Collects the tools of an agent.
pub(super) struct ToolCollector<'a> {
    pub(super) tools: Vec<AgentTool>,
    /// Functions that are called, each with the place where it is named.
    pub(super) functions: Vec<(Arc<str>, Span)>,
    /// Missing tool files.
    pub(super) missing: Vec<String>,
    pub(super) problems: &'a mut Problems,
    file: &'a str,
    sources: &'a Sources,
}

impl<'a> ToolCollector<'a> {
    pub(super) fn new(file: &'a str, sources: &'a Sources, problems: &'a mut Problems) -> ToolCollector<'a> {
        ToolCollector { tools: Vec::new(), functions: Vec::new(), missing: Vec::new(), problems, file, sources }
    }

    /// Adds all available workflows.
    pub(super) fn add_all_flows(&mut self, span: Span) {
        for flow in self.sources.flows.iter().flatten() {
            self.add_flow(flow, span);
        }
    }

    /// Adds the tool that an item of the list names.
    pub(super) fn add(&mut self, item: &Node) {
        let span = item.span;
        let Some(name) = item.as_str() else { return self.add_record(item) };
        if let Some(flow) = self.find_flow(name) {
            return self.add_flow(flow, span);
        }
        match name.split_once("::") {
            Some((server, "*")) => self.add_server_tools(server, span),
            Some(_) => self.add_function(name, span),
            None if self.sources.functions.iter().any(|function| function == name) => self.add_function(name, span),
            None => {
                let path = related_path(self.file, &format!("{TOOLS_FOLDER}{name}.json"));
                match self.sources.files.contains_key(&path) {
                    true => self.add_record(item),
                    false => self.report_unknown(name, path, span),
                }
            }
        }
    }

    /// Finds a workflow by its id, its tool name, or one of AnythingLLM's names: `@@flow_ID`, `flow_ID`.
    fn find_flow(&self, name: &str) -> Option<&'a AvailableFlow> {
        let flows = self.sources.flows.as_deref().unwrap_or_default();
        let plain = name.strip_prefix(FLOW_PREFIX).unwrap_or(name);
        let by_id = |id: &str| flows.iter().find(|flow| flow.id == id);
        by_id(plain)
            .or_else(|| by_id(plain.strip_prefix("flow_")?))
            .or_else(|| flows.iter().find(|flow| flow.declaration.name == plain))
    }

    /// Reports an unknown name. If the available workflows are not known, there is nothing to report.
    fn report_unknown(&mut self, name: &str, record: String, span: Span) {
        if !name.starts_with(FLOW_PREFIX) {
            self.missing.push(record);
        }
        let Some(flows) = &self.sources.flows else { return };
        let near = find_similar_name(name, flows.iter().map(|flow| flow.declaration.name.as_str()));
        let message = format!("there is no tool or workflow {name}");
        // AnythingLLM leaves out a flow that is switched off or gone.
        let diagnostic = match name.starts_with(FLOW_PREFIX) {
            true => self.problems.add_warning(Code::UnknownTool, span, message + "; the agent runs without it"),
            false => self.problems.add_error(Code::UnknownTool, span, message),
        };
        diagnostic.suggest_or_help(near.map(|near| format!("{near:?}")), || {
            format!(
                "the workflow may have errors or be switched off; a tool record belongs in {TOOLS_FOLDER}{name}.json"
            )
        });
    }

    fn add_flow(&mut self, flow: &AvailableFlow, span: Span) {
        let effect = ToolEffect::Flow(flow.id.as_str().into());
        // The name that AnythingLLM gives to a flow.
        let alias = Some(format!("flow_{}", flow.id).into());
        let declaration = flow.declaration.clone();
        self.push(AgentTool { declaration, alias, effect, needs_approval: false }, span);
    }

    /// Adds all tools of a server. If it has not been queried yet, only notes that it must be.
    fn add_server_tools(&mut self, name: &str, span: Span) {
        let Some(server) = self.sources.servers.iter().find(|server| server.name == name) else {
            let message = format!("there is no MCP server {name}");
            self.problems.add_error(Code::UnknownTool, span, message).help =
                Some(format!("declare it in flowloom.toml: [mcp.{name}]"));
            return;
        };
        match &server.tools {
            None => self.functions.push((format!("{name}::*").into(), span)),
            Some(tools) => {
                for tool in tools {
                    self.add_function(&format!("{name}::{}", tool.name), span);
                }
            }
        }
    }

    fn add_function(&mut self, function: &str, span: Span) {
        if let Some(tool) = self.sources.function_tool(function, span, self.problems) {
            self.functions.push((function.into(), span));
            self.push(tool, span);
        }
    }

    fn add_record(&mut self, record: &Node) {
        warn_misspelt_tool_keys(record, self.problems);
        let mut records = ToolRecordReader::new(self.file, self.sources);
        let tool = records.read(&record.to_value(), ToolPlace::of_node(record), self.problems);
        self.missing.append(&mut records.missing);
        if let Some(tool) = tool {
            self.push(tool, record.span);
        }
    }

    /// Adds a tool. Two tools with one name are an error, because one could be called in place of the other. Of two
    /// flows with one name, the second is offered as `flow_ID`.
    fn push(&mut self, mut tool: AgentTool, span: Span) {
        let Some(other) = self.tools.iter().find(|other| other.declaration.name == tool.declaration.name) else {
            return self.tools.push(tool);
        };
        if let (ToolEffect::Flow(first), ToolEffect::Flow(second)) = (&other.effect, &tool.effect) {
            let new_name = tool_name_of_uuid(second);
            if first == second || self.tools.iter().any(|other| other.declaration.name == new_name) {
                return;
            }
            let message =
                format!("the workflows {first} and {second} have one name; the second is the tool {new_name}");
            self.problems.add_warning(Code::DuplicateName, span, message).help = Some("rename one of them".into());
            tool.declaration.name = new_name;
            return self.tools.push(tool);
        }
        let name = &tool.declaration.name;
        if other.effect.function_id() == tool.effect.function_id() && tool.effect.function_id().is_some() {
            return;
        }
        let message = format!(
            "two tools are called {name}: {} and {}",
            describe_effect(&other.effect),
            describe_effect(&tool.effect)
        );
        self.problems.add_error(Code::DuplicateName, span, message).help =
            Some("rename one of them, or list the tools that the agent is to have under \"tools\"".into());
    }

    pub(super) fn require_all_approvals(&mut self, all: bool) {
        self.tools.iter_mut().for_each(|tool| tool.needs_approval |= all);
    }

    /// Requires approval for each call of the tool that an item names.
    pub(super) fn require_approval(&mut self, item: &Node) {
        let name = item.as_str().unwrap_or_default();
        let flow = self.find_flow(name).map(|flow| flow.id.as_str());
        let is_wanted = |tool: &AgentTool| match (flow, &tool.effect) {
            (Some(flow), ToolEffect::Flow(id)) => **id == *flow,
            (Some(_), _) => false,
            (None, _) => tool.declaration.name == tool_name(name),
        };
        match self.tools.iter_mut().find(|tool| is_wanted(tool)) {
            Some(tool) => tool.needs_approval = true,
            // The available tools may not be known yet; a name with colons is no workflow's.
            None if self.functions.iter().any(|(name, _)| name.ends_with("::*")) => {}
            None if self.sources.flows.is_none() && !name.contains("::") => {}
            None => {
                let functions = self.functions.iter().map(|(function, _)| &**function);
                let names: Vec<&str> = self.tools.iter().map(|tool| tool.declaration.name.as_str()).collect();
                let meant = find_similar_name(name, functions.chain(names.iter().copied()));
                let message = format!("the agent has no tool {name:?}");
                let diagnostic = self.problems.add_error(Code::UnknownTool, item.span, message);
                let help = || match names.as_slice() {
                    [] => "list it under \"tools\"".to_owned(),
                    names => format!("its tools are {}", names.join(", ")),
                };
                diagnostic.suggest_or_help(meant.map(|meant| format!("{meant:?}")), help);
            }
        }
    }
}

/// The effect of a tool, for people.
fn describe_effect(effect: &ToolEffect) -> String {
    match effect {
        ToolEffect::Flow(id) => format!("the workflow {id}"),
        ToolEffect::Function(function) => format!("the function {function}"),
        ToolEffect::Http(_) => "a request".into(),
        ToolEffect::Client => "a tool of the client".into(),
    }
}
