//! Warnings about prompt injection: a model reads text of strangers, and may call a tool that changes something without
//! asking a person.

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_core::plan::{
    AgentTool, BlockCode, Composite, EffectClass, Leaf, MemoryOperation, Plan, StepKind, ToolEffect,
};
use flowloom_formats::find_built_in_risk;

use super::agent_folder::{FolderWorkflow, compile_with_workflows};
use super::source::{LoadedDefinition, Loader};
use crate::config::mcp::McpSettings;
use crate::config::{Config, FunctionSettings};

/// The risk of a workflow that an agent may call.
struct WorkflowRisk {
    /// Whether its output can contain text of strangers.
    reads_text: bool,
    /// Whether it changes something without asking a person.
    changes: bool,
}

/// Judges the tools of one definition.
struct InjectionCheck<'a> {
    config: &'a Config,
    /// The workflows that the definition may call as tools, by id.
    workflows: BTreeMap<&'a str, WorkflowRisk>,
}

impl LoadedDefinition {
    /// Adds warnings about tools that change something and need no approval, if the models of the definition read text of
    /// strangers; one for each tool.
    pub fn add_injection_warnings(&mut self, config: &Config) {
        let check = InjectionCheck { config, workflows: BTreeMap::new() };
        let warnings = self.compiled.plan.as_ref().map(|plan| check.check_plan(plan, self));
        self.compiled.diagnostics.extend(warnings.into_iter().flatten());
    }

    /// Adds these warnings to an agent that may call the workflows in its folder.
    pub(super) fn add_agent_injection_warnings(&mut self, loader: &Loader<'_>, workflows: &[FolderWorkflow]) {
        let Some(plan) = compile_with_workflows(loader, self, workflows) else { return };
        let config = loader.config;
        let judge = InjectionCheck { config, workflows: BTreeMap::new() };
        let risks =
            workflows.iter().filter_map(|one| Some((one.id.as_str(), judge.judge_workflow(&one.tool.as_ref()?.plan))));
        let warnings = InjectionCheck { config, workflows: risks.collect() }.check_plan(&plan, self);
        self.compiled.diagnostics.extend(warnings);
    }
}

impl InjectionCheck<'_> {
    fn check_plan(&self, plan: &Plan, source: &LoadedDefinition) -> Vec<Diagnostic> {
        let Some(origin) = self.find_untrusted_text(plan) else { return Vec::new() };
        let tools = collect_tools(plan);
        let changing = tools.iter().filter(|found| self.changes_something(found.tool));
        let model_steps = list_model_steps(plan);
        let mut places = BTreeMap::new();
        for found in changing {
            let name = tool_name(found.tool);
            let step = model_steps.get(&name).copied().unwrap_or(found.step);
            places.entry(name).or_insert(step);
        }
        places.iter().map(|(name, step)| warn_about(source, name, *step, &origin)).collect()
    }

    fn judge_workflow(&self, plan: &Plan) -> WorkflowRisk {
        let mut changes = collect_tools(plan).iter().any(|found| self.changes_something(found.tool));
        plan.root.visit(&mut |step| {
            changes |= match &step.kind {
                StepKind::Leaf(Leaf::Http(_)) => !step.kind.is_read_only(),
                StepKind::Leaf(Leaf::Call(call)) => self.function_changes(&call.function),
                _ => false,
            };
        });
        WorkflowRisk { reads_text: self.find_untrusted_text(plan).is_some(), changes }
    }

    /// A source of untrusted text for the models of a plan: a step or a tool. A question to the user does not.
    fn find_untrusted_text(&self, plan: &Plan) -> Option<String> {
        let mut found = None;
        plan.root.visit(&mut |step| {
            let origin = match &step.kind {
                StepKind::Leaf(Leaf::Http(_)) => Some("a reply to a request".to_owned()),
                StepKind::Leaf(Leaf::Scrape(_)) => Some("a web page".to_owned()),
                StepKind::Leaf(Leaf::Call(call)) if self.reads_text(&call.function) => Some(call.function.to_string()),
                StepKind::Leaf(Leaf::Memory(memory)) if memory.operation == MemoryOperation::Get => {
                    Some("the memory".to_owned())
                }
                StepKind::Leaf(Leaf::Block(block)) if !matches!(block.code, BlockCode::Prompt { .. }) => {
                    Some("a block of code".to_owned())
                }
                _ => None,
            };
            found = found.take().or(origin);
        });
        found.or_else(|| {
            let tools = collect_tools(plan);
            let mut tools = tools.iter().map(|found| found.tool);
            let reading = tools.find(|tool| match &tool.effect {
                ToolEffect::Function(id) => self.reads_text(id),
                ToolEffect::Http(_) => true,
                ToolEffect::Flow(id) => self.workflows.get(&**id).is_some_and(|risk| risk.reads_text),
                ToolEffect::Client => false,
            });
            reading.map(tool_name)
        })
    }

    /// Whether the result of a function contains text of strangers.
    fn reads_text(&self, id: &str) -> bool {
        find_built_in_risk(id).is_some_and(|risk| risk.reads_strangers)
            || self.config.functions.get(id).is_some_and(|function| function.url.is_some())
            || find_server(self.config, id).is_some()
    }

    /// Whether a call of a tool changes something without asking a person, as far as definitions and the configuration
    /// state.
    fn changes_something(&self, tool: &AgentTool) -> bool {
        let changes = match &tool.effect {
            ToolEffect::Function(id) => self.function_changes(id),
            ToolEffect::Http(_) => true,
            ToolEffect::Flow(id) => self.workflows.get(&**id).is_some_and(|risk| risk.changes),
            ToolEffect::Client => false,
        };
        changes && !tool.needs_approval
    }

    /// Whether a call of a function changes something. A function that may be called again after a crash is expected to do
    /// no harm.
    fn function_changes(&self, id: &str) -> bool {
        if let Some(function) = self.config.functions.get(id) {
            return function.effect != Some(EffectClass::AtLeastOnce) && !is_read(function);
        }
        match find_server(self.config, id) {
            Some((server, name)) => {
                server.effects.get(name).or(server.effect.as_ref()) != Some(&EffectClass::AtLeastOnce)
            }
            None => find_built_in_risk(id).is_some_and(|risk| risk.changes),
        }
    }
}

fn warn_about(source: &LoadedDefinition, tool: &str, step: Span, origin: &str) -> Diagnostic {
    let text = std::str::from_utf8(source.bytes()).unwrap_or_default();
    let span = find_tool(text, tool, step);
    let message = format!(
        "a model that reads text of strangers ({origin}) can be talked into calling {tool}, which changes something \
         without approval"
    );
    Diagnostic::new_warning(Code::UntrustedTool, source.name(), span, message)
        .with_help("let a person approve each call with `needs_approval` or `needsApproval`, or do not offer the tool")
}

/// Where a definition names a tool: itself, all tools of its server, or the step whose agent has it in a file of its own. A list
/// of tools is searched first, because the name may also stand in a prompt or be that of the workflow.
fn find_tool(text: &str, tool: &str, step: Span) -> Span {
    let server = tool.split_once("::").map(|(server, _)| format!("{server}::*"));
    let quoted = format!("\"{tool}\"");
    let names = || [Some(quoted.as_str()), Some(tool), server.as_deref()].into_iter().flatten();
    let list = ["\"tools\"", "tools="].into_iter().filter_map(|word| text.find(word)).min();
    let find_from = |from: usize, word: &str| Some((from + text[from..].find(word)?, word.len()));
    let in_list = list.and_then(|from| names().find_map(|word| find_from(from, word)));
    let named = in_list.or_else(|| names().find_map(|word| find_from(0, word)));
    let of_step = (step.length > 0).then_some((step.start, step.length));
    let fallback = || ["\"tools\"", "\"agentId\"", "\"name\""].into_iter().find_map(|word| find_from(0, word));
    let found = named.or(of_step).or_else(fallback);
    found.map_or_else(Span::default, |(start, length)| Span { start, length })
}

/// A tool that a step has.
struct FoundTool<'a> {
    step: Span,
    tool: &'a AgentTool,
}

fn collect_tools(plan: &Plan) -> Vec<FoundTool<'_>> {
    let mut found = Vec::new();
    plan.root.visit(&mut |step| {
        let tools = match &step.kind {
            StepKind::Composite(Composite::Agent(agent)) => &agent.tools,
            StepKind::Composite(Composite::Tools(calls)) => &calls.tools,
            _ => return,
        };
        found.extend(tools.iter().map(|tool| FoundTool { step: step.span, tool }));
    });
    found
}

/// The places of the steps whose models may call tools that another step performs: the first for each tool.
fn list_model_steps(plan: &Plan) -> BTreeMap<String, Span> {
    let mut places = BTreeMap::new();
    plan.root.visit(&mut |step| {
        if let StepKind::Composite(Composite::Turn(turn)) = &step.kind {
            for tool in &turn.tools {
                places.entry(tool_name(tool)).or_insert(step.span);
            }
        }
    });
    places
}

fn is_read(function: &FunctionSettings) -> bool {
    let method = function.method.as_deref().unwrap_or("POST").to_ascii_uppercase();
    function.url.is_some() && matches!(method.as_str(), "GET" | "HEAD")
}

/// The MCP server of a function, and the name of its tool.
fn find_server<'a>(config: &'a Config, id: &'a str) -> Option<(&'a McpSettings, &'a str)> {
    let (server, tool) = id.split_once("::")?;
    Some((config.mcp.get(server)?, tool))
}

/// The name of a tool as the definition most likely writes it.
fn tool_name(tool: &AgentTool) -> String {
    match &tool.effect {
        ToolEffect::Function(id) => id.to_string(),
        ToolEffect::Flow(_) | ToolEffect::Http(_) | ToolEffect::Client => tool.declaration.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overrides;
    use crate::definitions::source::Loader;

    const CONFIG: &str = "\
[functions.\"shop::order\"]\nurl = \"https://shop.example/order\"\n\
[functions.\"shop::find\"]\nurl = \"https://shop.example/find\"\nmethod = \"GET\"\n\
[functions.\"shop::cancel\"]\nurl = \"https://shop.example/cancel\"\nneeds_approval = true\n\
[mcp.desk]\ncommand = \"desk\"\n[mcp.desk.effects]\nlist = \"at_least_once\"\n";

    fn check_tools(tools: &str) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("flowloom.toml");
        std::fs::write(&file, CONFIG).expect("written");
        let config = Config::load(Overrides { file: Some(file), ..Overrides::default() }).expect("the configuration");
        let text = format!("{{\"agentId\": \"a\", \"systemPrompt\": \"x\", \"tools\": {tools}}}");
        let files = [("a.json".to_owned(), text.into_bytes())].into();
        let mut source = Loader::new(&config).compile_files("a.json", files);
        assert!(source.compiled.plan.is_some(), "{:?}", source.compiled.diagnostics);
        source.add_injection_warnings(&config);
        let warnings = source.compiled.diagnostics.into_iter();
        let warnings = warnings.filter(|warning| warning.code == Code::UntrustedTool && warning.span.length > 0);
        warnings.map(|warning| warning.message).collect()
    }

    #[test]
    fn untrusted_text_and_a_changing_tool_are_a_warning() {
        for (tools, changing) in [
            (["shop::find", "shop::order"], "shop::order"),
            (["tool::web_fetch", "tool::file_write"], "tool::file_write"),
            (["tool::web_search", "desk::send"], "desk::send"),
            (["desk::list", "notify::push"], "notify::push"),
            (["tool::http_request", "tool::file_read"], "tool::http_request"),
        ] {
            let warnings = check_tools(&format!("{tools:?}"));
            assert!(warnings.len() == 1 && warnings[0].contains(changing), "{tools:?}: {warnings:?}");
        }
    }

    #[test]
    fn the_warning_points_to_the_node_of_the_agent() {
        let config = Config::load(Overrides::default()).expect("the defaults");
        let graph = r#"{"id": "g", "name": "g", "entrypointNodeId": "a", "nodes": [
            {"id": "a", "workflowId": "g", "nodeType": "AGENT", "nodeName": "First", "agentId": "first"},
            {"id": "b", "workflowId": "g", "nodeType": "AGENT", "nodeName": "Second", "agentId": "second"},
            {"id": "t", "workflowId": "g", "nodeType": "TOOL_EXECUTOR", "nodeName": "tools", "agentId": null}],
            "edges": [
            {"id": "1", "workflowId": "g", "sourceNodeId": "a", "targetNodeId": "b", "conditionType": "ALWAYS"},
            {"id": "2", "workflowId": "g", "sourceNodeId": "b", "targetNodeId": "t", "conditionType": "ALWAYS"},
            {"id": "3", "workflowId": "g", "sourceNodeId": "t", "targetNodeId": "b", "conditionType": "ALWAYS"}]}"#;
        let tool = r#"[{"toolId": "order", "type": "function", "function": {"name": "order", "description": "d",
            "parameters": {"type": "object"}}, "internalApiPath": "/order"}]"#;
        let files = [
            ("g.json", graph.to_owned()),
            ("agents/first/jsonSchema.json", r#"{"agentId": "first", "tools": []}"#.to_owned()),
            ("agents/first/systemPrompt.md", "Be kind.".to_owned()),
            ("agents/second/jsonSchema.json", format!("{{\"agentId\": \"second\", \"tools\": {tool}}}")),
            ("agents/second/systemPrompt.md", "Be kind.".to_owned()),
        ];
        let files = files.map(|(name, text)| (name.to_owned(), text.into_bytes())).into();
        let mut source = Loader::new(&config).compile_files("g.json", files);
        source.add_injection_warnings(&config);
        let found = source.compiled.diagnostics.iter().find(|found| found.code == Code::UntrustedTool);
        let found = found.unwrap_or_else(|| panic!("a warning: {:?}", source.compiled.diagnostics));
        let marked = &graph[found.span.start..found.span.start + found.span.length];
        assert_eq!(marked, "\"b\"", "the id of the node");
    }

    #[test]
    fn reading_alone_and_approved_tools_are_no_warning() {
        let safe: [&[&str]; 4] =
            [&["shop::find"], &["shop::find", "shop::cancel"], &["tool::web_fetch", "desk::list"], &["notify::push"]];
        for tools in safe {
            assert_eq!(check_tools(&format!("{tools:?}")), Vec::<String>::new(), "{tools:?}");
        }
    }

    #[test]
    fn a_workflow_that_changes_something_is_a_tool_that_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        let request = |method: &str| {
            format!(
                r#"{{"name": "{method} it", "steps": [{{"type": "apiCall",
                    "config": {{"url": "https://shop.example/", "method": "{method}"}}}}]}}"#
            )
        };
        write("flowloom.toml", "");
        write("read.json", &request("GET"));
        write("order.json", &request("POST"));
        write("off.json", &request("DELETE").replacen('{', r#"{"active": false, "#, 1));
        let file = folder.path().join("flowloom.toml");
        let config = Config::load(Overrides { file: Some(file), ..Overrides::default() }).expect("the configuration");
        for (settings, expected) in [
            (r#""tools": ["read", "order"]"#, Some("calling post_it")),
            (r#""maxToolCalls": 3"#, Some("calling post_it")),
            (r#""tools": ["read", "order"], "needsApproval": ["order"]"#, None),
            (r#""tools": ["read"]"#, None),
        ] {
            write("clerk.json", &format!("{{\"systemPrompt\": \"x\", {settings}}}"));
            let loader = Loader::new(&config);
            let mut source = loader.compile(&folder.path().join("clerk.json"));
            source.add_check_warnings(&loader);
            let found = source.compiled.diagnostics.iter().filter(|found| found.code == Code::UntrustedTool);
            let found: Vec<&str> = found.map(|found| found.message.as_str()).collect();
            assert_eq!(found.len(), usize::from(expected.is_some()), "{settings}: {found:?}");
            assert!(expected.is_none_or(|expected| found[0].contains(expected)), "{settings}: {found:?}");
        }
    }
}
