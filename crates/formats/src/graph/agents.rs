//! The agents of a graph: from the file itself, or from folders `agents/NAME/` with `systemPrompt.md` and
//! `jsonSchema.json` beside it, or from folders of the same shape that the configuration names.

use std::borrow::Cow;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::http::{Body, HttpSpec};
use flowloom_core::json::{Node, parse_value};
use flowloom_core::plan::{AgentTool, ToolEffect};
use flowloom_core::request::ToolDeclaration;
use flowloom_core::template::{Data, Part, Ref, Template};
use flowloom_core::value::Value;

use super::TOOLS;
use crate::reader::beside_file;
use crate::servers::tool_name;
use crate::{Problems, Sources};

/// An agent.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) id: String,
    pub(super) prompt: String,
    pub(super) model: Option<String>,
    pub(super) tools: Vec<AgentTool>,
}

/// Every agent that is known.
pub(super) struct Agents<'a> {
    list: Vec<Agent>,
    file: &'a str,
    /// Files of tools that agents name and that are not there.
    missing: Vec<String>,
    sources: &'a Sources,
}

impl<'s> Agents<'s> {
    pub(super) fn load(
        file: &'s str,
        root: &Node,
        sources: &'s Sources,
        problems: &mut Problems,
        needs: &mut Vec<String>,
    ) -> Agents<'s> {
        let mut agents = Agents { list: Vec::new(), file, missing: Vec::new(), sources };
        let embedded = root.get("agents").or_else(|| root.get("workflow")?.get("agents"));
        for node in embedded.and_then(Node::items).unwrap_or_default() {
            agents.add(&node.to_value(), None, None, node.span, problems);
        }
        let schemas = sources.files.iter().filter(|(path, _)| *path != file && path.ends_with("/jsonSchema.json"));
        for (path, bytes) in schemas {
            let folder = path.trim_end_matches("/jsonSchema.json");
            let prompt = sources.files.get(&format!("{folder}/systemPrompt.md"));
            let prompt = prompt.map(|bytes| without_line_numbers(&String::from_utf8_lossy(bytes)));
            // One that the configuration names has its id from there.
            let configured = sources.agent_folders.iter().find(|(_, named)| named.as_str() == folder);
            let name = configured.map_or_else(|| folder.rsplit('/').next().unwrap_or(folder), |(id, _)| id).to_owned();
            match parse_value(&String::from_utf8_lossy(bytes)) {
                Ok(value) => agents.add(&value, Some(name), prompt, Span::default(), problems),
                Err(error) => {
                    let message = format!("{path}: {}", error.message);
                    problems.error(Code::JsonSyntax, Span::default(), message);
                }
            }
        }
        needs.append(&mut agents.missing);
        agents
    }

    fn add(
        &mut self,
        value: &Value,
        name: Option<String>,
        prompt: Option<String>,
        span: Span,
        problems: &mut Problems,
    ) {
        let text = |keys: &[&str]| keys.iter().find_map(|key| value.get(key)?.as_str()).map(str::to_owned);
        let name = name.or_else(|| text(&["name"]));
        let Some(id) = text(&["id", "agentId", "agent_id"]).or_else(|| name.clone()) else {
            problems.error(Code::MissingKey, span, "an agent has no \"id\"");
            return;
        };
        let tools = value.get("tools").and_then(Value::as_list).unwrap_or_default();
        let prompt = prompt.or_else(|| text(&["systemPrompt", "system_prompt"])).unwrap_or_default();
        let model = text(&["model", "llmModelId", "llm_model_id"]);
        let tools = tools.iter().filter_map(|tool| {
            let record = self.record(tool, span, problems)?;
            self.tool(&record, span, problems)
        });
        let tools = tools.collect();
        if let Some(name) = name.filter(|name| *name != id) {
            let alias = Agent { id: name, prompt: prompt.clone(), model: model.clone(), tools };
            self.list.push(Agent { id, ..alias.clone() });
            self.list.push(alias);
            return;
        }
        self.list.push(Agent { id, prompt, model, tools });
    }

    /// The record of a tool. One that is only named, as text or by its `toolId`, stands in `tools/ID.json`; `None` if that
    /// is not there.
    fn record<'t>(&mut self, tool: &'t Value, span: Span, problems: &mut Problems) -> Option<Cow<'t, Value>> {
        let is_whole = ["function", "name", "tool_name"].iter().any(|key| tool.get(key).is_some());
        let named = tool.as_str().or_else(|| tool.get("toolId").or_else(|| tool.get("tool_id"))?.as_str());
        let Some(id) = named.filter(|_| !is_whole) else { return Some(Cow::Borrowed(tool)) };
        let path = beside_file(self.file, &format!("{TOOLS}{id}.json"));
        let Some(bytes) = self.sources.files.get(&path) else {
            let message = format!("the tool {id} does not exist");
            problems.error(Code::MissingKey, span, message).help =
                Some(format!("put its record into {TOOLS}{id}.json"));
            self.missing.push(path);
            return None;
        };
        match parse_value(&String::from_utf8_lossy(bytes)) {
            Ok(value) => Some(Cow::Owned(value)),
            Err(error) => {
                problems.error(Code::JsonSyntax, Span::default(), format!("{path}: {}", error.message));
                None
            }
        }
    }

    /// A tool; older records wrap what a model sees once more.
    fn tool(&self, tool: &Value, span: Span, problems: &mut Problems) -> Option<AgentTool> {
        let mut function = tool;
        while let Some(inner) = function.get("function").filter(|inner| inner.as_map().is_some()) {
            function = inner;
        }
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(name) = text(function, "name").or_else(|| text(tool, "tool_name")) else {
            problems.error(Code::MissingKey, span, "a tool of an agent has no \"name\"");
            return None;
        };
        let mut parameters = function.get("parameters").cloned().unwrap_or_default();
        while let Some(inner) = parameters.get("function").and_then(|inner| inner.get("parameters")) {
            parameters = inner.clone();
        }
        let field = |keys: &[&str]| keys.iter().find_map(|key| text(tool, key).or_else(|| text(function, key)));
        let mut needs_approval = tool.get("needsApproval").is_some_and(Value::is_truthy);
        let mut description = field(&["description", "description_for_llm"]);
        let effect = if field(&["execution_location", "executionLocation"]).as_deref() == Some("client") {
            ToolEffect::Client
        } else {
            match field(&["internalApiPath", "internal_api_path"]) {
                Some(path) => ToolEffect::Http(Box::new(self.request(&path))),
                None => {
                    let function = field(&["functionId", "function_id"]).unwrap_or_else(|| name.clone());
                    if let Some((server, tool)) = self.sources.server_of(&function) {
                        needs_approval |= server.needs_approval(tool);
                        server.require(tool, span, problems);
                        // What a record leaves out is what the server says of the tool.
                        if let Some(declared) = server.declared(tool) {
                            description = description.or_else(|| Some(declared.description.clone()));
                            parameters =
                                if parameters == Value::Null { declared.parameters.clone() } else { parameters };
                        }
                    }
                    ToolEffect::Function(function.into())
                }
            }
        };
        // Providers allow no colons.
        let name = if name.contains("::") { tool_name(&name) } else { name };
        let description = description.unwrap_or_default();
        Some(AgentTool { declaration: ToolDeclaration { name, description, parameters }, effect, needs_approval })
    }

    /// The arguments as JSON to a path below the base address of tools.
    fn request(&self, path: &str) -> HttpSpec {
        let host = &self.sources.tools;
        let base = host.base.as_deref().unwrap_or("http://localhost").trim_end_matches('/');
        let arguments = Ref { name: "arguments".into(), path: Vec::new(), source: "arguments".into() };
        let mut headers: Vec<_> =
            host.headers.iter().map(|(name, value)| (Template::literal(name), value.clone())).collect();
        if host.forwards_user {
            let owner = Ref { name: "owner".into(), path: Vec::new(), source: "owner".into() };
            headers.push((Template::literal("X-User-Id"), Template { parts: vec![Part::Ref(owner)] }));
        }
        HttpSpec {
            method: Template::literal("POST"),
            url: Template::literal(&format!("{base}/{}", path.trim_start_matches('/'))),
            headers,
            body: Body::JsonValue(Data::Text(Template { parts: vec![Part::Ref(arguments)] })),
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&Agent> {
        self.list.iter().find(|agent| agent.id == id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|agent| agent.id.as_str())
    }

    /// Whether no agent is known at all: then a graph runs with agents that know only where they can go.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Every tool of every agent, each once.
    pub(super) fn tools<'a>(&'a self, agents: impl Iterator<Item = &'a str>) -> Vec<AgentTool> {
        let mut all: Vec<AgentTool> = Vec::new();
        for tool in agents.filter_map(|id| self.get(id)).flat_map(|agent| &agent.tools) {
            if !all.iter().any(|known| known.declaration.name == tool.declaration.name) {
                all.push(tool.clone());
            }
        }
        all
    }
}

/// Some prompts were pasted with the numbers of their lines (`12|text`).
fn without_line_numbers(text: &str) -> String {
    let number =
        |line: &str| line.split_once('|').is_some_and(|(n, _)| !n.is_empty() && n.trim().parse::<u32>().is_ok());
    let has_numbers = text.lines().filter(|line| !line.trim().is_empty()).all(number) && !text.trim().is_empty();
    if !has_numbers {
        return text.to_owned();
    }
    text.lines().map(|line| line.split_once('|').map_or(line, |(_, rest)| rest)).collect::<Vec<_>>().join("\n")
}

/// Names as they are shared with the plan.
pub(super) fn shared(text: &str) -> Arc<str> {
    text.into()
}
