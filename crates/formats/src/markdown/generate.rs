//! The actions that call a model.

use std::sync::Arc;

use flowloom_core::chat::GenerateOptions;
use flowloom_core::code::Code;
use flowloom_core::expr::js::{Js, Property};
use flowloom_core::expr::{Data, Expr, Script, Template, TemplatePart};
use flowloom_core::plan::{Agent, CallLimit, Composite, Generate, Leaf, StepKind};
use flowloom_core::value::Value;
use oxc_allocator::Allocator;

use super::actions::{Action, ActionValue};
use super::check::ExpressionCheck;
use super::expression::{CheckedExpression, CompiledExpression, ParagraphPart, join_blocks, to_template};
use super::frontmatter::SystemPrompt;
use super::parse::TextPiece;
use super::schema::{self, SchemaReader};
use super::scope::{Meaning, ScopeNames};
use super::tools::ActionTools;
use super::{DEFAULT_SYSTEM_PROMPT, MarkdownCompiler, ROLE_PREFIX};
use crate::json_schema::find_schema_problem;

/// Default temperature.
const DEFAULT_TEMPERATURE: f64 = 0.5;
/// Maximum number of rounds of tool calls.
const MAX_TOOL_ROUNDS: u32 = 8;

impl MarkdownCompiler<'_> {
    /// `<GenText>` and `<GenObject>`; `None`, with an error, if they are not valid.
    pub(super) fn compile_generate(
        &mut self,
        action: &Action<'_>,
        thread: &Arc<str>,
        names: &ScopeNames,
        text: &TextPiece<'_>,
        scripts: &mut Vec<Arc<Script>>,
    ) -> Option<StepKind> {
        let is_object = action.name == "gen-object";
        if is_object {
            let shape = match action.get("output").map(|attribute| &attribute.value) {
                Some(ActionValue::Text("no-schema")) => None,
                Some(ActionValue::Text("enum")) if action.get("enum").is_some() => Some("enum"),
                _ => Some("schema"),
            };
            let common = ["as", "model", "role", "schemaName", "schemaDescription", "output", "options", "stream"];
            let known: Vec<&str> = common.into_iter().chain(shape).collect();
            self.warn_unused_attributes(action, &known, text);
        } else {
            self.warn_unused_attributes(action, &["as", "model", "role", "stream", "tools", "options"], text);
        }
        let name =
            action.get("as").and_then(|name| if let ActionValue::Text(name) = name.value { Some(name) } else { None });
        let names = names.with_own(name.unwrap_or_default(), Meaning::empty_helper());
        let model = self.read_text_attribute(action, "model", &names, text, scripts);
        if action.get("model").is_none() {
            self.attribute_error(action, "model", "is required", text).help =
                Some("write model=\"provider:model\", for example model=\"openai:gpt-4o\"".into());
        }
        let role = self.read_text_attribute(action, "role", &names, text, scripts);
        // Each attribute is read before one that is wrong ends the action.
        let options = self.read_options(action, &names, text, scripts);
        let schema = if is_object { self.read_schema(action, &names, text).map(Some) } else { Some(None) };
        let tools =
            if is_object { Some(ActionTools::default()) } else { self.read_tools(action, &names, text, scripts) };
        let ((options, computed), schema, ActionTools { tools, available }) = (options?, schema?, tools?);
        let generate = Generate {
            model: Some(model?),
            system: self.build_system(role),
            thread: Some(thread.clone()),
            messages: Vec::new(),
            schema,
            options,
            computed,
        };
        Some(match tools.is_empty() {
            true => StepKind::Leaf(Leaf::Generate(generate)),
            false => StepKind::Composite(Composite::Agent(Agent {
                generate,
                tools,
                available,
                limit: CallLimit::Rounds(MAX_TOOL_ROUNDS),
                must_call: false,
            })),
        })
    }

    /// The instructions, with the role appended.
    fn build_system(&self, role: Option<Template>) -> Option<Data> {
        let mut parts = match &self.frontmatter.system {
            SystemPrompt::Default => vec![TemplatePart::Text(DEFAULT_SYSTEM_PROMPT.into())],
            SystemPrompt::Own(own) => vec![TemplatePart::Text(own.as_str().into())],
            SystemPrompt::None => Vec::new(),
        };
        if let Some(role) = role {
            let mark = if parts.is_empty() { ROLE_PREFIX.trim_start() } else { ROLE_PREFIX };
            parts.push(TemplatePart::Text(mark.into()));
            parts.extend(role.parts);
        }
        (!parts.is_empty()).then_some(Data::Text(Template { parts }))
    }

    /// A text attribute, literal or computed.
    pub(super) fn read_text_attribute(
        &mut self,
        action: &Action<'_>,
        name: &str,
        names: &ScopeNames,
        text: &TextPiece<'_>,
        scripts: &mut Vec<Arc<Script>>,
    ) -> Option<Template> {
        match &action.get(name)?.value {
            ActionValue::Text(literal) => Some(Template::from_literal(literal)),
            ActionValue::Bare => {
                self.attribute_error(action, name, "is empty", text);
                None
            }
            ActionValue::Expression(expression) => match self.compile_expression(expression, names, &[])? {
                CompiledExpression::Value(source) => Some(match source.constant_value() {
                    Some(Value::String(constant)) => Template::from_literal(&constant),
                    _ => to_template(vec![ParagraphPart::Value(source)], &mut self.slots, scripts),
                }),
                CompiledExpression::Blocks(blocks) => Some(to_template(join_blocks(blocks), &mut self.slots, scripts)),
                CompiledExpression::Empty => {
                    self.attribute_error(action, name, "is empty", text);
                    None
                }
            },
        }
    }

    /// A required expression attribute.
    pub(super) fn read_value_attribute(
        &mut self,
        action: &Action<'_>,
        name: &str,
        names: &ScopeNames,
        text: &TextPiece<'_>,
    ) -> Option<CheckedExpression> {
        let problem = match action.get(name).map(|attribute| &attribute.value) {
            None => "is required",
            Some(ActionValue::Bare) => "has no value",
            Some(ActionValue::Text(_)) => "must be an expression in braces, not a string",
            Some(ActionValue::Expression(expression)) => match self.compile_expression(expression, names, &[])? {
                CompiledExpression::Value(source) => return Some(source),
                CompiledExpression::Empty => "has no value",
                CompiledExpression::Blocks(_) => "must be a value, not Markdown",
            },
        };
        self.attribute_error(action, name, problem, text).help = Some(format!("write {name}={{…}}"));
        None
    }

    /// A condition; a string literal is truthy or falsy as in JavaScript.
    pub(super) fn read_condition(
        &mut self,
        action: &Action<'_>,
        name: &str,
        names: &ScopeNames,
        text: &TextPiece<'_>,
    ) -> Option<CheckedExpression> {
        match action.get(name).map(|attribute| &attribute.value) {
            Some(ActionValue::Text(literal)) => Some(CheckedExpression::from_constant((*literal).into())),
            _ => self.read_value_attribute(action, name, names, text),
        }
    }

    /// The constant options, and the computed ones.
    fn read_options(
        &mut self,
        action: &Action<'_>,
        names: &ScopeNames,
        text: &TextPiece<'_>,
        scripts: &mut Vec<Arc<Script>>,
    ) -> Option<(GenerateOptions, Option<Expr>)> {
        let mut options = GenerateOptions { temperature: Some(DEFAULT_TEMPERATURE), ..GenerateOptions::default() };
        let mut computed = None;
        let given = action.get("options").map(|_| self.read_value_attribute(action, "options", names, text));
        let stream = action.get("stream").map(|_| self.read_value_attribute(action, "stream", names, text));
        let mut is_valid = given.as_ref().is_none_or(Option::is_some) && stream.as_ref().is_none_or(Option::is_some);
        if let Some(source) = given.flatten() {
            match source.constant_value() {
                Some(constant) => match self.read_constant_options(action, &constant, options.clone(), text) {
                    Some(constant) => options = constant,
                    None => is_valid = false,
                },
                None => computed = Some(source.into_expr(&mut self.slots, scripts)),
            }
        }
        if let Some(source) = stream.flatten() {
            match source.constant_value() {
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
        is_valid.then_some((options, computed))
    }

    /// The JSON Schema of the answer.
    fn read_schema(&mut self, action: &Action<'_>, names: &ScopeNames, text: &TextPiece<'_>) -> Option<Value> {
        let output = match action.get("output").map(|attribute| &attribute.value) {
            None => "object",
            Some(ActionValue::Text(output @ ("object" | "array" | "enum" | "no-schema"))) => output,
            Some(_) => {
                self.attribute_error(action, "output", "must be object, array, enum or no-schema", text);
                return None;
            }
        };
        let read = match output {
            "no-schema" => return Some(Value::map::<&str>([])),
            "enum" if action.get("enum").is_some() || action.get("schema").is_none() => {
                schema::one_of(self.read_schema_attribute(action, "enum", names, text, true)?)
            }
            _ => self.read_schema_attribute(action, "schema", names, text, false)?,
        };
        let read = match output {
            "array" => Value::map([("type", Value::from("array")), ("items", read)]),
            _ => read,
        };
        let literal = |name: &str| match action.get(name).map(|attribute| &attribute.value) {
            Some(ActionValue::Text(text)) => Some(Value::from(*text)),
            _ => None,
        };
        let built = schema::add_title(read, literal("schemaName"), literal("schemaDescription"));
        if let Some(why) = find_schema_problem(&built) {
            let name = if action.get("schema").is_some() { "schema" } else { "enum" };
            self.attribute_error(action, name, &format!("is not a valid JSON Schema: {why}"), text);
            return None;
        }
        Some(built)
    }

    fn read_schema_attribute(
        &mut self,
        action: &Action<'_>,
        name: &str,
        names: &ScopeNames,
        text: &TextPiece<'_>,
        is_list: bool,
    ) -> Option<Value> {
        let expression = match action.get(name).map(|attribute| &attribute.value) {
            Some(ActionValue::Expression(expression)) => expression,
            given => {
                let problem = if given.is_none() { "is required" } else { "must be an expression in braces" };
                self.attribute_error(action, name, problem, text).help = Some(describe_schema(action));
                return None;
            }
        };
        let allocator = Allocator::default();
        let parsed = self.parse_expression(expression, &allocator)?;
        self.read_free_names(expression, &ExpressionCheck::check_expression(&parsed, &[]), names)?;
        let data = self.frontmatter.data.clone();
        let find = |name: &str| data.iter().find(|(key, ..)| key == name).map(|(_, value, _)| value.clone());
        let reader = SchemaReader { data: &find };
        let read = if is_list { reader.read_constant(&parsed) } else { reader.read_schema(&parsed) };
        match read {
            Ok(value) if is_list && is_choice(&value) || !is_list && value.as_map().is_some() => Some(value),
            Ok(value) => {
                let problem = if is_list { "must be a list of one or more strings" } else { "must be a schema" };
                let diagnostic = self.attribute_error(action, name, problem, text);
                diagnostic.help = Some(describe_schema(action));
                if !is_list && value.as_list().is_some() && is_enum(action) {
                    diagnostic.suggest_text("enum");
                }
                None
            }
            Err(wrong) => {
                self.report_error(expression, Code::SchemaSyntax, wrong.start, wrong.end, wrong.message);
                None
            }
        }
    }
}

/// Whether an action generates one of several texts.
fn is_enum(action: &Action<'_>) -> bool {
    matches!(action.get("output").map(|attribute| &attribute.value), Some(ActionValue::Text("enum")))
}

/// Whether a value is a list of texts to choose from.
fn is_choice(value: &Value) -> bool {
    value.as_list().is_some_and(|list| !list.is_empty() && list.iter().all(|one| one.as_str().is_some()))
}

/// How the attributes that an action needs for its schema are written.
fn describe_schema(action: &Action<'_>) -> String {
    match is_enum(action) {
        true => "write enum={[\"yes\", \"no\"]} with the texts to choose from".to_owned(),
        false => "write schema={$.z.object({ name: $.z.string() })}, or a JSON Schema".to_owned(),
    }
}
