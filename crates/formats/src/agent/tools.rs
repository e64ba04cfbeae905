//! The tools of an agent: workflows by the names that they go by, functions, tools of MCP servers, and records of tools as
//! graphs have them.

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Span, did_you_mean};
use flowloom_core::json::Node;
use flowloom_core::plan::{AgentTool, ToolEffect};
use flowloom_core::value::Value;

use super::OfferedFlow;
use crate::graph::{TOOLS, ToolRecords};
use crate::problems::Problems;
use crate::reader::beside_file;
use crate::servers::tool_name;
use crate::sources::Sources;

/// What AnythingLLM puts before the names of flows in its lists of tools.
const PLUGIN: &str = "@@";

/// Collects the tools of an agent.
pub(super) struct Tools<'a> {
    pub(super) tools: Vec<AgentTool>,
    /// Functions that are called, each with the place where it is named.
    pub(super) functions: Vec<(Arc<str>, Span)>,
    /// Files of tools that are named and not there.
    pub(super) missing: Vec<String>,
    pub(super) problems: &'a mut Problems,
    file: &'a str,
    sources: &'a Sources,
}

impl<'a> Tools<'a> {
    pub(super) fn new(file: &'a str, sources: &'a Sources, problems: &'a mut Problems) -> Tools<'a> {
        Tools { tools: Vec::new(), functions: Vec::new(), missing: Vec::new(), problems, file, sources }
    }

    /// Adds every workflow that there is.
    pub(super) fn every_flow(&mut self, span: Span) {
        for flow in self.sources.flows.iter().flatten() {
            self.flow(flow, span);
        }
    }

    /// Adds what an item of the list names.
    pub(super) fn add(&mut self, item: &Node) {
        let span = item.span;
        let Some(name) = item.as_str() else { return self.record(&item.to_value(), span) };
        if let Some(flow) = self.find(name) {
            return self.flow(flow, span);
        }
        match name.split_once("::") {
            Some((server, "*")) => self.server(server, span),
            Some(_) => self.function(name, span),
            None if self.sources.functions.iter().any(|function| function == name) => self.function(name, span),
            None => {
                let path = beside_file(self.file, &format!("{TOOLS}{name}.json"));
                match self.sources.files.contains_key(&path) {
                    true => self.record(&item.to_value(), span),
                    false => self.absent(name, path, span),
                }
            }
        }
    }

    /// A workflow by its id, the name of its tool, or as AnythingLLM names it: `@@flow_ID`, `flow_ID`.
    fn find(&self, name: &str) -> Option<&'a OfferedFlow> {
        let flows = self.sources.flows.as_deref().unwrap_or_default();
        let plain = name.strip_prefix(PLUGIN).unwrap_or(name);
        let by_id = |id: &str| flows.iter().find(|flow| flow.id == id);
        by_id(plain)
            .or_else(|| by_id(plain.strip_prefix("flow_")?))
            .or_else(|| flows.iter().find(|flow| flow.declaration.name == plain))
    }

    /// A name that is no tool. Without knowing which workflows there are, nothing can be said against it.
    fn absent(&mut self, name: &str, record: String, span: Span) {
        if !name.starts_with(PLUGIN) {
            self.missing.push(record);
        }
        let Some(flows) = &self.sources.flows else { return };
        let near = did_you_mean(name, flows.iter().map(|flow| flow.declaration.name.as_str()));
        self.problems.error(Code::UnknownTool, span, format!("there is no tool or workflow {name}")).help =
            Some(match near {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!(
                    "a workflow may have errors, or be switched off; the record of a tool stands in {TOOLS}{name}.json"
                ),
            });
    }

    fn flow(&mut self, flow: &OfferedFlow, span: Span) {
        let effect = ToolEffect::Flow(flow.id.as_str().into());
        self.push(AgentTool { declaration: flow.declaration.clone(), effect, needs_approval: false }, span);
    }

    /// Every tool of a server; before it was asked, only that it is to be asked.
    fn server(&mut self, name: &str, span: Span) {
        let Some(server) = self.sources.servers.iter().find(|server| server.name == name) else {
            let message = format!("there is no MCP server {name}");
            self.problems.error(Code::UnknownTool, span, message).help =
                Some(format!("declare it in flowloom.toml: [mcp.{name}]"));
            return;
        };
        match &server.tools {
            None => self.functions.push((format!("{name}::*").into(), span)),
            Some(tools) => {
                for tool in tools {
                    self.function(&format!("{name}::{}", tool.name), span);
                }
            }
        }
    }

    fn function(&mut self, function: &str, span: Span) {
        if let Some(tool) = self.sources.function_tool(function, span, self.problems) {
            self.functions.push((function.into(), span));
            self.push(tool, span);
        }
    }

    fn record(&mut self, record: &Value, span: Span) {
        let mut records = ToolRecords::new(self.file, self.sources);
        let tool = records.read(record, span, self.problems);
        self.missing.append(&mut records.missing);
        if let Some(tool) = tool {
            self.push(tool, span);
        }
    }

    /// Adds a tool. One name for two would let one be called in the other's place.
    fn push(&mut self, tool: AgentTool, span: Span) {
        let name = &tool.declaration.name;
        let Some(other) = self.tools.iter().find(|other| other.declaration.name == *name) else {
            return self.tools.push(tool);
        };
        if other.effect.function() == tool.effect.function() && tool.effect.function().is_some() {
            return;
        }
        let message = format!("two tools are called {name}: {} and {}", shown(&other.effect), shown(&tool.effect));
        self.problems.error(Code::DuplicateName, span, message).help =
            Some("rename one of them, or list the tools that the agent is to have under \"tools\"".into());
    }

    pub(super) fn approve_all(&mut self, all: bool) {
        self.tools.iter_mut().for_each(|tool| tool.needs_approval |= all);
    }

    /// Lets a person agree to each call of the tool that an item names.
    pub(super) fn approve(&mut self, item: &Node) {
        let name = item.as_str().unwrap_or_default();
        let wanted = self.find(name).map_or_else(|| tool_name(name), |flow| flow.declaration.name.clone());
        match self.tools.iter_mut().find(|tool| tool.declaration.name == wanted) {
            Some(tool) => tool.needs_approval = true,
            // Which there are may not be known yet.
            None if self.sources.flows.is_none() || self.functions.iter().any(|(name, _)| name.ends_with("::*")) => {}
            None => {
                let names: Vec<&str> = self.tools.iter().map(|tool| tool.declaration.name.as_str()).collect();
                let help = format!("its tools are {}", names.join(", "));
                let message = format!("the agent has no tool {name:?}");
                self.problems.error(Code::UnknownTool, item.span, message).help = Some(help);
            }
        }
    }
}

/// What a tool does, for people.
fn shown(effect: &ToolEffect) -> String {
    match effect {
        ToolEffect::Flow(id) => format!("the workflow {id}"),
        ToolEffect::Function(function) => format!("the function {function}"),
        ToolEffect::Http(_) => "a request".into(),
        ToolEffect::Client => "a tool of the client".into(),
    }
}
