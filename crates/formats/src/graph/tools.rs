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
use super::steps::{END_TOOL, ROUTER_TOOL};
use crate::functions::no_parameters;
use crate::json_schema::find_schema_problem;
use crate::problems::Problems;
use crate::reader::{Fields, json_code, related_path};
use crate::servers::tool_name;
use crate::sources::Sources;

/// Reads tool records.
pub(crate) struct ToolRecordReader<'a> {
    file: &'a str,
    sources: &'a Sources,
    /// Missing tool files.
    pub(crate) missing: Vec<String>,
}

/// Keys of a tool record with a meaning. Exported records also have columns of their database.
const KNOWN_KEYS: [&str; 18] = [
    "id",
    "name",
    "tool_name",
    "type",
    "function",
    "toolId",
    "tool_id",
    "functionId",
    "function_id",
    "internalApiPath",
    "internal_api_path",
    "description",
    "description_for_llm",
    "parameters",
    "needsApproval",
    "execution_location",
    "executionLocation",
    "strict",
];

/// Warns about misspelt keys of a tool record, in every layer.
pub(crate) fn warn_misspelt_tool_keys(record: &Node, problems: &mut Problems) {
    let layers = std::iter::successors(Some(record), |layer| {
        layer.get("function").or_else(|| layer.get("parameters").filter(|inner| inner.get("function").is_some()))
    });
    for layer in layers.filter(|layer| !layer.entries().is_empty()) {
        if let Some(fields) = Fields::read_object(layer, "a tool", problems) {
            fields.warn_misspelt_keys(&KNOWN_KEYS, problems);
        }
    }
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
                problems.within_file(&path, |problems| {
                    problems.add_error(json_code(error.kind), error.span, error.message).help =
                        Some("write the record of the tool as one JSON object".into());
                });
                None
            }
        }
    }

    /// The tool of a record.
    fn build_tool(&self, tool: &Value, place: ToolPlace, problems: &mut Problems) -> Option<AgentTool> {
        let span = place.tool;
        let record = ToolRecord::unwrap_layers(tool);
        let Some(name) = record.find_name() else {
            problems.add_error(Code::MissingKey, span, "a tool of an agent has no \"name\"").help =
                Some("give it the name by which models call it".into());
            return None;
        };
        let mut parameters = record.get_declaration().get("parameters").cloned().unwrap_or_default();
        if let Some(why) = find_schema_problem(&parameters) {
            let message = format_args!("\"parameters\" of the tool {name} is not a valid JSON Schema: {why}");
            let help = why.help.unwrap_or("write a JSON Schema of an object with the arguments as its \"properties\"");
            problems.add_error(Code::BadSchema, span, message).help = Some(help.to_owned());
            return None;
        }
        let mut needs_approval = record.needs_approval();
        let mut description = record.find_text(&["description", "description_for_llm"]);
        let path = record.find_text(&["internalApiPath", "internal_api_path"]);
        let effect = match path {
            _ if record.is_run_by_client() => ToolEffect::Client,
            Some(path) => {
                self.check_path(&name, &path, span, problems);
                ToolEffect::Http(Box::new(self.build_request(&path)))
            }
            None => {
                let function = record.find_text(&["functionId", "function_id"]).unwrap_or_else(|| name.clone());
                needs_approval |= self.sources.declared.get(&function).is_some_and(|own| own.needs_approval);
                if let Some((server, tool)) = self.sources.server_of(&function) {
                    needs_approval |= server.needs_approval(tool);
                    server.report_unknown_tool(tool, span, problems);
                } else if let Some(named) = place.function {
                    self.sources.check_function(&function, named, problems);
                } else {
                    self.report_missing_function(&function, span, problems);
                }
                // The function's own declaration supplies what the record leaves out.
                if let Some(declared) = self.sources.find_declaration(&function) {
                    description = description.or(Some(declared.description));
                    parameters = if parameters == Value::Null { declared.parameters } else { parameters };
                }
                ToolEffect::Function(function.into())
            }
        };
        // Providers do not allow colons in names.
        let name = if name.contains("::") { tool_name(&name) } else { name };
        let description = description.unwrap_or_default();
        let parameters = if parameters == Value::Null { no_parameters() } else { parameters };
        let declaration = ToolDeclaration { name, description, parameters };
        Some(AgentTool { declaration, alias: None, effect, needs_approval })
    }

    /// Warns about a tool that does not declare what a call does, if no function has its name.
    fn report_missing_function(&self, name: &str, span: Span, problems: &mut Problems) {
        // A tool with the name of a routing tool is reported as that.
        if self.sources.find_declaration(name).is_some() || [ROUTER_TOOL, END_TOOL].contains(&name) {
            return;
        }
        let message = format_args!("nothing implements the tool {name}: calls of it fail");
        problems.add_warning(Code::UnknownTool, span, message).help = Some(format!(
            "give it an internalApiPath or a functionId, or declare it in flowloom.toml: [functions.\"{name}\"]"
        ));
    }

    /// Reports a path that leaves the base URL, whose headers are the operator's, and a base URL that is not set.
    fn check_path(&self, name: &str, path: &str, span: Span, problems: &mut Problems) {
        if leaves_base(path) {
            let message = format_args!("the path {path:?} of the tool {name} is not below the server of the tools");
            problems.add_error(Code::WrongKind, span, message).help =
                Some("write a path without the parts \".\" and \"..\", backslashes and control characters".into());
        } else if self.sources.tools.base.is_none() {
            let message = format_args!("the tool {name} has a path and no server: calls of it fail");
            problems.add_warning(Code::UnknownTool, span, message).help =
                Some("set base_url in the table [tools] of flowloom.toml".into());
        }
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
            uses_tool_host: true,
        }
    }
}

/// Whether a path would lead out of the URL before it, or be changed when the request is sent. In URLs, `%2e` means a dot, and
/// servers may read `%2f` and `%5c` as separators.
fn leaves_base(path: &str) -> bool {
    let end = path.find(['?', '#']).unwrap_or(path.len());
    let plain = path[..end].to_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    path.contains('\\') || path.chars().any(char::is_control) || plain.split('/').any(|part| matches!(part, "." | ".."))
}

/// A tool record. Older records wrap the declaration once more, in `function` or in `parameters`.
struct ToolRecord<'a> {
    /// The wrapping records and the declaration, from the outside to the inside; never empty.
    layers: Vec<&'a Value>,
    /// How many layers are reached by `function` only.
    functions: usize,
}

impl<'a> ToolRecord<'a> {
    fn unwrap_layers(tool: &'a Value) -> ToolRecord<'a> {
        fn inner_function(value: &Value) -> Option<&Value> {
            value.get("function").filter(|inner| inner.as_map().is_some())
        }
        let mut layers = vec![tool];
        let mut functions = None;
        let mut last = tool;
        while let Some(inner) = inner_function(last).or_else(|| {
            let parameters = last.get("parameters").filter(|parameters| inner_function(parameters).is_some())?;
            functions.get_or_insert(layers.len());
            Some(parameters)
        }) {
            layers.push(inner);
            last = inner;
        }
        let functions = functions.unwrap_or(layers.len());
        ToolRecord { layers, functions }
    }

    /// The declaration.
    fn get_declaration(&self) -> &'a Value {
        self.layers[self.layers.len() - 1]
    }

    /// The name of the outermost declaration, or else the nearest other name.
    fn find_name(&self) -> Option<String> {
        let (outer, inner) = self.layers.split_at(self.functions);
        let names = outer.last().into_iter().chain(inner).map(|layer| layer.get("name"));
        let names = names.chain([self.layers[0].get("tool_name")]);
        names.flatten().find_map(Value::as_str).map(str::to_owned)
    }

    /// The outermost text under one of these keys; an earlier key comes first.
    fn find_text(&self, keys: &[&str]) -> Option<String> {
        let layers = |key: &&str| self.layers.iter().find_map(|layer| layer.get(key)?.as_str());
        keys.iter().find_map(layers).map(str::to_owned)
    }

    /// Whether a person must approve each call.
    fn needs_approval(&self) -> bool {
        self.layers.iter().any(|layer| layer.get("needsApproval").is_some_and(Value::is_truthy))
    }

    /// Whether the client runs it, in whichever layer that is declared.
    fn is_run_by_client(&self) -> bool {
        let keys = ["execution_location", "executionLocation"];
        let is_client =
            |layer: &&Value| keys.iter().any(|key| layer.get(key).and_then(Value::as_str) == Some("client"));
        self.layers.iter().any(is_client)
    }
}
