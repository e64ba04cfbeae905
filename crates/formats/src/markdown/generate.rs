//! The actions that call a model.

use std::sync::Arc;

use flowloom_core::chat::GenerateOptions;
use flowloom_core::code::Code;
use flowloom_core::expr::js::{Js, Property};
use flowloom_core::expr::{Data, Expr, Part, Script, Template};
use flowloom_core::plan::{Agent, AgentTool, CallLimit, Composite, Generate, Kind, Leaf};
use flowloom_core::value::Value;
use oxc_allocator::Allocator;

use super::actions::{Action, Given};
use super::check::Seen;
use super::expression::{Chunk, Compiled, Source, joined, template};
use super::frontmatter::System;
use super::parse::Text;
use super::schema::{self, Reader};
use super::scope::{Meaning, Names};
use super::{Compiler, ROLE_MARK, SYSTEM};
use crate::servers::tool_name;

/// Default temperature.
const TEMPERATURE: f64 = 0.5;
/// Maximum number of rounds of tool calls.
const ROUNDS: u32 = 8;

impl Compiler<'_> {
    /// `<GenText>` and `<GenObject>`; `None`, with an error, if they are not valid.
    pub(super) fn generate(
        &mut self,
        action: &Action<'_>,
        thread: &Arc<str>,
        names: &Names,
        text: &Text<'_>,
        scripts: &mut Vec<Arc<Script>>,
    ) -> Option<Kind> {
        let is_object = action.name == "gen-object";
        if is_object {
            let known = [
                "as",
                "model",
                "role",
                "schema",
                "schemaName",
                "schemaDescription",
                "output",
                "enum",
                "tools",
                "options",
                "stream",
            ];
            self.only(action, &known, text);
        } else {
            self.only(action, &["as", "model", "role", "stream", "tools", "options"], text);
        }
        let name = action.get("as").and_then(|name| if let Given::Text(name) = name.value { Some(name) } else { None });
        let names = names.with_own(name.unwrap_or_default(), Meaning::empty());
        let model = self.text_attribute(action, "model", &names, text, scripts);
        if action.get("model").is_none() {
            self.attribute_error(action, "model", "is required", text).help =
                Some("write model=\"provider:model\", for example model=\"openai:gpt-4o\"".into());
        }
        let role = self.text_attribute(action, "role", &names, text, scripts);
        let (options, computed) = self.options(action, &names, text, scripts)?;
        let schema = if is_object { Some(self.schema(action, &names, text)?) } else { None };
        let tools = if is_object { Vec::new() } else { self.tools(action, &names, text)? };
        let generate = Generate {
            model: Some(model?),
            system: self.system(role),
            thread: Some(thread.clone()),
            messages: Vec::new(),
            schema,
            options,
            computed,
        };
        Some(match tools.is_empty() {
            true => Kind::Leaf(Leaf::Generate(generate)),
            false => Kind::Composite(Composite::Agent(Agent {
                generate,
                tools,
                limit: CallLimit::Rounds(ROUNDS),
                must_call: false,
            })),
        })
    }

    /// The instructions, with the role appended.
    fn system(&self, role: Option<Template>) -> Option<Data> {
        let mut parts = match &self.frontmatter.system {
            System::Usual => vec![Part::Text(SYSTEM.into())],
            System::Own(own) => vec![Part::Text(own.as_str().into())],
            System::None => Vec::new(),
        };
        if let Some(role) = role {
            let mark = if parts.is_empty() { ROLE_MARK.trim_start() } else { ROLE_MARK };
            parts.push(Part::Text(mark.into()));
            parts.extend(role.parts);
        }
        (!parts.is_empty()).then_some(Data::Text(Template { parts }))
    }

    /// A text attribute, literal or computed.
    pub(super) fn text_attribute(
        &mut self,
        action: &Action<'_>,
        name: &str,
        names: &Names,
        text: &Text<'_>,
        scripts: &mut Vec<Arc<Script>>,
    ) -> Option<Template> {
        match &action.get(name)?.value {
            Given::Text(literal) => Some(Template::literal(literal)),
            Given::Bare => {
                self.attribute_error(action, name, "is empty", text);
                None
            }
            Given::Expression(expression) => match self.expression(expression, names, &[])? {
                Compiled::Value(source) => Some(template(vec![Chunk::Value(source)], &mut self.slots, scripts)),
                Compiled::Blocks(blocks) => Some(template(joined(blocks), &mut self.slots, scripts)),
                Compiled::Nothing => {
                    self.attribute_error(action, name, "is empty", text);
                    None
                }
            },
        }
    }

    /// A required expression attribute.
    pub(super) fn value_attribute(
        &mut self,
        action: &Action<'_>,
        name: &str,
        names: &Names,
        text: &Text<'_>,
    ) -> Option<Source> {
        let problem = match action.get(name).map(|attribute| &attribute.value) {
            None => "is required",
            Some(Given::Bare) => "has no value",
            Some(Given::Text(_)) => "must be an expression in braces, not a text",
            Some(Given::Expression(expression)) => match self.expression(expression, names, &[])? {
                Compiled::Value(source) => return Some(source),
                Compiled::Nothing => "has no value",
                Compiled::Blocks(_) => "must be a value, not Markdown",
            },
        };
        self.attribute_error(action, name, problem, text).help = Some(format!("write {name}={{…}}"));
        None
    }

    /// A condition; a string literal is truthy or falsy as in JavaScript.
    pub(super) fn condition_attribute(
        &mut self,
        action: &Action<'_>,
        name: &str,
        names: &Names,
        text: &Text<'_>,
    ) -> Option<Source> {
        match action.get(name).map(|attribute| &attribute.value) {
            Some(Given::Text(literal)) => Some(Source::of((*literal).into())),
            _ => self.value_attribute(action, name, names, text),
        }
    }

    /// The constant options, and the computed ones.
    fn options(
        &mut self,
        action: &Action<'_>,
        names: &Names,
        text: &Text<'_>,
        scripts: &mut Vec<Arc<Script>>,
    ) -> Option<(GenerateOptions, Option<Expr>)> {
        let mut options = GenerateOptions { temperature: Some(TEMPERATURE), ..GenerateOptions::default() };
        let mut computed = None;
        if action.get("options").is_some() {
            let source = self.value_attribute(action, "options", names, text)?;
            match source.constant() {
                Some(constant) => options = self.constant_options(action, &constant, text)?,
                None => computed = Some(source.into_expr(&mut self.slots, scripts)),
            }
        }
        if action.get("stream").is_some() {
            let source = self.value_attribute(action, "stream", names, text)?;
            match source.constant() {
                Some(Value::Bool(true)) => {}
                Some(Value::Bool(false)) => options.stream = Some(false),
                None if !matches!(computed, Some(Expr::Script(_))) => {
                    let Expr::Js(js) = source.into_expr(&mut self.slots, scripts) else {
                        self.attribute_error(action, "stream", "must be true or false", text);
                        return None;
                    };
                    let given = computed.iter().filter_map(|given| match given {
                        Expr::Js(given) => Some(Property::Spread((**given).clone())),
                        _ => None,
                    });
                    let stream = Property::Pair(Js::Literal("stream".into()), (*js).clone());
                    computed = Some(Expr::Js(Arc::new(Js::Object(given.chain([stream]).collect()))));
                }
                _ => {
                    self.attribute_error(action, "stream", "must be true or false", text);
                    return None;
                }
            }
        }
        Some((options, computed))
    }

    fn constant_options(&mut self, action: &Action<'_>, value: &Value, text: &Text<'_>) -> Option<GenerateOptions> {
        let Some(map) = value.as_map() else {
            let problem = format!("must be an object, not {}", value.kind());
            self.attribute_error(action, "options", &problem, text);
            return None;
        };
        let mut whole = flowloom_core::value::Map::new();
        whole.insert(
            "temperature".into(),
            flowloom_core::value::Number::from_f64(TEMPERATURE).map_or(Value::Null, Value::Number),
        );
        for (key, value) in map {
            match (&**key, value) {
                ("stop", Value::String(_)) => whole.insert(key.clone(), Value::list(vec![value.clone()])),
                _ => whole.insert(key.clone(), value.clone()),
            };
        }
        const KNOWN: [&str; 8] =
            ["maxTokens", "temperature", "seed", "stop", "topP", "topK", "presencePenalty", "frequencyPenalty"];
        if let Some(key) = map.keys().find(|key| !KNOWN.contains(&&***key)) {
            let (start, end) =
                action.get("options").map_or((action.start, action.end), |given| (given.start, given.end));
            let span = text.span(start, end);
            let message = format!("the option {key} is not known and has no effect");
            self.problems.warn(Code::IgnoredKey, span, message).help =
                Some(format!("the options are {}", KNOWN.join(", ")));
        }
        match serde_json::from_str(&flowloom_core::render::json(&whole.into())) {
            Ok(options) => Some(options),
            Err(error) => {
                let problem = format!("cannot be used: {error}");
                self.attribute_error(action, "options", &problem, text);
                None
            }
        }
    }

    /// The JSON Schema of the answer.
    fn schema(&mut self, action: &Action<'_>, names: &Names, text: &Text<'_>) -> Option<Value> {
        let output = match action.get("output").map(|attribute| &attribute.value) {
            None => "object",
            Some(Given::Text(output @ ("object" | "array" | "enum" | "no-schema"))) => output,
            Some(_) => {
                self.attribute_error(action, "output", "must be object, array, enum or no-schema", text);
                return None;
            }
        };
        let read = match output {
            "no-schema" => return Some(Value::map::<&str>([])),
            "enum" if action.get("enum").is_some() => {
                schema::one_of(self.schema_attribute(action, "enum", (names, text), true)?)
            }
            _ => self.schema_attribute(action, "schema", (names, text), false)?,
        };
        let read = match output {
            "array" => Value::map([("type", Value::from("array")), ("items", read)]),
            _ => read,
        };
        let literal = |name: &str| match action.get(name).map(|attribute| &attribute.value) {
            Some(Given::Text(text)) => Some(Value::from(*text)),
            _ => None,
        };
        Some(schema::named(read, literal("schemaName"), literal("schemaDescription")))
    }

    fn schema_attribute(
        &mut self,
        action: &Action<'_>,
        name: &str,
        (names, text): (&Names, &Text<'_>),
        is_list: bool,
    ) -> Option<Value> {
        let expression = match action.get(name).map(|attribute| &attribute.value) {
            Some(Given::Expression(expression)) => expression,
            given => {
                let problem = if given.is_none() { "is required" } else { "must be an expression in braces" };
                self.attribute_error(action, name, problem, text).help =
                    Some("write schema={$.z.object({ name: $.z.string() })}, or a JSON Schema".into());
                return None;
            }
        };
        let allocator = Allocator::default();
        let parsed = self.read(expression, &allocator)?;
        self.names_of(expression, &Seen::of(&parsed, &[]), names)?;
        let data = self.frontmatter.data.clone();
        let find = |name: &str| data.iter().find(|(key, ..)| key == name).map(|(_, value, _)| value.clone());
        let reader = Reader { data: &find };
        let read = if is_list { reader.constant(&parsed) } else { reader.schema(&parsed) };
        match read {
            Ok(value) if is_list == value.as_list().is_some() && (is_list || value.as_map().is_some()) => Some(value),
            Ok(_) => {
                self.attribute_error(
                    action,
                    name,
                    if is_list { "must be a list of texts" } else { "must be a schema" },
                    text,
                );
                None
            }
            Err(wrong) => {
                self.report(expression, Code::SchemaSyntax, wrong.start, wrong.end, wrong.message);
                None
            }
        }
    }

    /// The tools of the action.
    fn tools(&mut self, action: &Action<'_>, names: &Names, text: &Text<'_>) -> Option<Vec<AgentTool>> {
        if action.get("tools").is_none() {
            return Some(Vec::new());
        }
        let source = self.value_attribute(action, "tools", names, text)?;
        let listed = source.constant();
        let listed: Option<Vec<String>> = listed
            .as_ref()
            .and_then(Value::as_list)
            .and_then(|list| list.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        let Some(listed) = listed else {
            self.attribute_error(action, "tools", "must be a list of names", text).help =
                Some("write tools={['name']}; the tools are the functions that the configuration declares".into());
            return None;
        };
        let (start, end) = action.get("tools").map_or((action.start, action.end), |given| (given.start, given.end));
        let mut tools = Vec::new();
        for name in listed {
            let found =
                self.sources.functions.iter().find(|function| **function == name || tool_name(function) == name);
            let sources = self.sources;
            let server = sources.server_of(&name);
            let Some(function) = found.cloned().or_else(|| server.map(|_| name.clone())) else {
                let message = format!("there is no tool {name}");
                self.report(text, Code::UnknownTool, start, end, message).help =
                    Some(format!("declare it in flowloom.toml: [functions.\"{name}\"] with a url or a workflow"));
                return None;
            };
            let at = text.span(start, end);
            let tool = sources.function_tool(&function, at, self.problems)?;
            let span = text.span(action.start, action.end);
            self.functions.push((function.as_str().into(), span));
            tools.push(tool);
        }
        Some(tools)
    }
}
