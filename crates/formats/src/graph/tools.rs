//! The tool records of agents.

use std::borrow::Cow;

use flowloom_core::chat::ToolDeclaration;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::Span;
use flowloom_core::expr::{Data, Ref, Template, TemplatePart};
use flowloom_core::json::{Node, parse_value};
use flowloom_core::plan::{AgentTool, BodySpec, HttpSpec, ToolEffect};
use flowloom_core::value::Value;

use super::TOOLS_FOLDER;
use crate::functions::no_parameters;
use crate::json_schema::find_schema_problem;
use crate::problems::Problems;
use crate::reader::related_path;
use crate::servers::tool_name;
use crate::sources::Sources;

/// Reads tool records.
pub(crate) struct ToolRecordReader<'a> {
    file: &'a str,
    sources: &'a Sources,
    /// Missing tool files.
    pub(crate) missing: Vec<String>,
}

/// Where a tool is written.
#[derive(Clone, Copy)]
pub(crate) struct ToolPlace {
    tool: Span,
    /// Where it names its function; `None` if it names none.
    function: Option<Span>,
}

impl ToolPlace {
    /// The place of the record or name at a node.
    pub(crate) fn of_node(node: &Node) -> ToolPlace {
        let named = |node: &Node| Some(node.get("functionId").or_else(|| node.get("function_id"))?.span);
        ToolPlace { tool: node.span, function: named(node).or_else(|| named(node.get("function")?)) }
    }

    /// The place of a tool in another file than the definition.
    pub(crate) fn elsewhere(span: Span) -> ToolPlace {
        ToolPlace { tool: span, function: None }
    }
}

impl<'a> ToolRecordReader<'a> {
    /// A reader for the definition `file`.
    pub(crate) fn new(file: &'a str, sources: &'a Sources) -> ToolRecordReader<'a> {
        ToolRecordReader { file, sources, missing: Vec::new() }
    }

    /// The tool of a record, or of the file that it refers to; `None`, with an error, if it is not valid.
    pub(crate) fn read(&mut self, tool: &Value, place: ToolPlace, problems: &mut Problems) -> Option<AgentTool> {
        let record = self.find_record(tool, place.tool, problems)?;
        self.build_tool(&record, place, problems)
    }

    /// The record of a tool. A tool that is only named, as text or by its `toolId`, is read from `tools/ID.json`;
    /// `None`, with an error, if that file is missing.
    fn find_record<'t>(&mut self, tool: &'t Value, span: Span, problems: &mut Problems) -> Option<Cow<'t, Value>> {
        let is_whole = ["function", "name", "tool_name"].iter().any(|key| tool.get(key).is_some());
        let named = tool.as_str().or_else(|| tool.get("toolId").or_else(|| tool.get("tool_id"))?.as_str());
        let Some(id) = named.filter(|_| !is_whole) else { return Some(Cow::Borrowed(tool)) };
        let path = related_path(self.file, &format!("{TOOLS_FOLDER}{id}.json"));
        let Some(bytes) = self.sources.files.get(&path) else {
            let message = format!("the tool {id} does not exist");
            problems.add_error(Code::MissingKey, span, message).help = Some(match id.contains("::") {
                true => format!(
                    "a function is named in a record: {{\"name\": \"…\", \"functionId\": \"{id}\"}}; \
                     a record can also be in {TOOLS_FOLDER}{id}.json"
                ),
                false => format!("put its record into {TOOLS_FOLDER}{id}.json"),
            });
            self.missing.push(path);
            return None;
        };
        match parse_value(&String::from_utf8_lossy(bytes)) {
            Ok(value) => Some(Cow::Owned(value)),
            Err(error) => {
                problems.add_error(Code::JsonSyntax, Span::default(), format!("{path}: {}", error.message));
                None
            }
        }
    }

    /// The tool of a record. Older records wrap the declaration once more.
    fn build_tool(&self, tool: &Value, place: ToolPlace, problems: &mut Problems) -> Option<AgentTool> {
        let span = place.tool;
        let mut function = tool;
        while let Some(inner) = function.get("function").filter(|inner| inner.as_map().is_some()) {
            function = inner;
        }
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let Some(name) = text(function, "name").or_else(|| text(tool, "tool_name")) else {
            problems.add_error(Code::MissingKey, span, "a tool of an agent has no \"name\"");
            return None;
        };
        let mut parameters = function.get("parameters").cloned().unwrap_or_default();
        while let Some(inner) = parameters.get("function").and_then(|inner| inner.get("parameters")) {
            parameters = inner.clone();
        }
        if let Some(why) = find_schema_problem(&parameters) {
            let message = format_args!("\"parameters\" of the tool {name} is not a valid JSON Schema: {why}");
            problems.add_error(Code::BadSchema, span, message).help = why.help.map(str::to_owned);
            return None;
        }
        let field = |keys: &[&str]| keys.iter().find_map(|key| text(tool, key).or_else(|| text(function, key)));
        let mut needs_approval = tool.get("needsApproval").is_some_and(Value::is_truthy);
        let mut description = field(&["description", "description_for_llm"]);
        let effect = if field(&["execution_location", "executionLocation"]).as_deref() == Some("client") {
            ToolEffect::Client
        } else {
            match field(&["internalApiPath", "internal_api_path"]) {
                Some(path) => ToolEffect::Http(Box::new(self.build_request(&path))),
                None => {
                    let function = field(&["functionId", "function_id"]).unwrap_or_else(|| name.clone());
                    needs_approval |= self.sources.declared.get(&function).is_some_and(|own| own.needs_approval);
                    if let Some((server, tool)) = self.sources.server_of(&function) {
                        needs_approval |= server.needs_approval(tool);
                        server.report_unknown_tool(tool, span, problems);
                    } else if let Some(named) = place.function {
                        self.sources.check_function(&function, named, problems);
                    }
                    // The function's own declaration supplies what the record leaves out.
                    if let Some(declared) = self.sources.find_declaration(&function) {
                        description = description.or(Some(declared.description));
                        parameters = if parameters == Value::Null { declared.parameters } else { parameters };
                    }
                    ToolEffect::Function(function.into())
                }
            }
        };
        // Providers do not allow colons in names.
        let name = if name.contains("::") { tool_name(&name) } else { name };
        let description = description.unwrap_or_default();
        let parameters = if parameters == Value::Null { no_parameters() } else { parameters };
        let declaration = ToolDeclaration { name, description, parameters };
        Some(AgentTool { declaration, alias: None, effect, needs_approval })
    }

    /// A request that posts the arguments as JSON to a path below the base URL.
    fn build_request(&self, path: &str) -> HttpSpec {
        let host = &self.sources.tools;
        let base = host.base.as_deref().unwrap_or("http://localhost").trim_end_matches('/');
        let arguments = Ref { name: "arguments".into(), path: Vec::new(), source: "arguments".into() };
        let mut headers: Vec<_> =
            host.headers.iter().map(|(name, value)| (Template::from_literal(name), value.clone())).collect();
        if host.forwards_user {
            let owner = Ref { name: "owner".into(), path: Vec::new(), source: "owner".into() };
            headers.push((Template::from_literal("X-User-Id"), Template { parts: vec![TemplatePart::Ref(owner)] }));
        }
        HttpSpec {
            method: Template::from_literal("POST"),
            url: Template::from_literal(&format!("{base}/{}", path.trim_start_matches('/'))),
            headers,
            body: BodySpec::JsonValue(Data::Text(Template { parts: vec![TemplatePart::Ref(arguments)] })),
        }
    }
}
