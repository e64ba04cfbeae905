//! `flow`: AnythingLLM agent flows (docs/formats/flow.md).
//!
//! A JSON object with `name`, `description` and `steps`, each `{type, config}`; references are `${path}`.

mod blocks;
mod check;
mod front_end;
mod present;
mod template;
mod tool;

use std::collections::HashSet;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Fix, Span};
use flowloom_core::expr::{Missing, TextRules};
use flowloom_core::json::{Node, NodeKind, parse_node};
use flowloom_core::limits::Limits;
use flowloom_core::path::{Key, Siblings};
use flowloom_core::plan::{Composite, Format, Input, Inputs, Plan, Step, StepKind};
use flowloom_core::render::TextStyle;
use flowloom_core::value::{Map, Value};

use crate::front_end::DefinitionSource;
use crate::problems::Problems;
use crate::reader::{Fields, label_span, read_json};
use crate::wording::ORIGINAL_WORDING;

pub use check::describe_unused_inputs;
pub(crate) use front_end::FRONT_END;
pub(crate) use tool::tool_name_of_uuid;
pub use tool::{ToolReply, flow_tool, is_active, is_text_active, tool_reply};

/// The text rules of a flow: unknown and null references stay as text; everything else is rendered as in JavaScript.
pub const TEXT_RULES: TextRules = TextRules {
    missing: Missing::Keep,
    null_is_missing: true,
    style: TextStyle::JavaScript,
    keeps_type: false,
    wording: ORIGINAL_WORDING,
};

/// The supported block types.
pub const BLOCK_TYPES: [&str; 4] = ["start", "apiCall", "llmInstruction", "webScraping"];

/// The block that marks the end in flows of old versions; it does nothing.
pub const FINISH_BLOCK: &str = "finish";

/// The keys of a stored flow. Others are allowed: AnythingLLM keeps them.
const KNOWN_KEYS: [&str; 6] = ["uuid", "name", "description", "active", "steps", "config"];

/// Block types of old and closed versions, with their replacements.
const REMOVED_BLOCK_TYPES: [(&str, &str); 3] = [
    ("website", "use webScraping, or apiCall for a plain page"),
    ("file", "reading and writing files is not part of flows; a step list can do it with tool::file_read"),
    ("code", "running code is not part of flows; a pipeline can do it in a Python block"),
];

/// The flow inside a community hub item: its text, and the name of the item.
pub(crate) fn find_wrapped_flow(node: &Node) -> Option<(&Node, Option<&Node>)> {
    let item = node.get("item").unwrap_or(node);
    let flow = item.get("flow").filter(|flow| flow.as_str().is_some())?;
    Some((flow, item.get("name")))
}

/// The flow in a reply of AnythingLLM's API, `{"success": true, "flow": {"name", "uuid", "config"}}`, or of the hub,
/// `{"item": {"name", "flow": {"steps"}}}`.
pub(crate) fn find_replied_flow(node: &Node) -> Option<&Node> {
    let item = node.get("item").unwrap_or(node);
    item.get("flow").filter(|flow| flow.get("config").is_some() || flow.get("steps").is_some())
}

/// The name of a replied flow, or else that of its item.
fn find_replied_name<'n>(node: &'n Node, flow: &'n Node) -> Option<&'n Node> {
    flow.get("name").or_else(|| node.get("item")?.get("name"))
}

/// Extracts a flow from a community hub item or a reply of the API, in the form in which AnythingLLM stores it; `None` if
/// `text` is neither.
pub fn unwrap_item(text: &str) -> Option<Value> {
    let (node, _) = parse_node(text).ok()?;
    if let Some(flow) = find_replied_flow(&node) {
        let mut map = flow.get("config").unwrap_or(flow).to_value().as_map()?.clone();
        if let Some(name) = find_replied_name(&node, flow) {
            map.insert("name".into(), name.to_value());
        }
        return Some(map.into());
    }
    let (flow, name) = find_wrapped_flow(&node)?;
    let inner = flowloom_core::json::parse_value(flow.as_str()?).ok()?;
    let mut map = inner.as_map()?.clone();
    if let Some(name) = name.and_then(Node::as_str) {
        map.insert("name".into(), name.into());
    }
    Some(map.into())
}

/// The id of the format.
pub const FORMAT: Format = Format::new("flow");

/// Compiles a flow.
fn compile(source: DefinitionSource<'_>, problems: &mut Problems) -> Option<Plan> {
    let DefinitionSource { file, text, tree } = source;
    let node = tree.or_else(|| read_json(text, parse_node(text), problems))?;
    let Some((flow, name)) = find_wrapped_flow(&node) else {
        let replied = find_replied_flow(&node);
        let name = replied.and_then(|flow| find_replied_name(&node, flow)?.as_str());
        return FlowCompiler { source: text, variables: HashSet::new(), has_started: false, problems }.compile_flow(
            replied.unwrap_or(&node),
            name,
            file,
        );
    };
    problems.enter_string(flow.span.start, text.get(flow.span.start..flow.span.end()).unwrap_or_default());
    let inner = flow.as_str().unwrap_or_default();
    let node = read_json(inner, parse_node(inner), problems)?;
    FlowCompiler { source: inner, variables: HashSet::new(), has_started: false, problems }.compile_flow(
        &node,
        name.and_then(Node::as_str),
        file,
    )
}

pub(crate) struct FlowCompiler<'a> {
    /// The text that spans refer to.
    source: &'a str,
    /// The names of all variables that the flow sets. One called `secret` hides the secrets.
    variables: HashSet<String>,
    /// Whether a start block was compiled.
    has_started: bool,
    problems: &'a mut Problems,
}

impl FlowCompiler<'_> {
    fn compile_flow(&mut self, node: &Node, name: Option<&str>, file: &str) -> Option<Plan> {
        let fields = Fields::read_object(node, "a flow", self.problems)?;
        fields.warn_misspelt_keys(&KNOWN_KEYS, self.problems);
        // The wrapper that the hub or an endpoint puts around the stored object.
        if let Some(config) = fields.get_non_null("config").filter(|_| fields.get("steps").is_none()) {
            let name = name.or_else(|| fields.get("name").and_then(Node::as_str));
            return self.compile_flow(config, name, file);
        }
        let named = name.map(str::to_owned).or_else(|| {
            fields.read_text("name", self.problems).map(|(name, _)| name.to_owned()).filter(|name| !name.is_empty())
        });
        if named.is_none() && fields.get_non_null("name").is_none_or(|name| name.as_str().is_some()) {
            self.problems.add_warning(
                Code::MissingKey,
                fields.start_span(),
                "the flow has no name; the file's name is used",
            );
        }
        let name = named.unwrap_or_else(|| file_stem(file).to_owned());
        let description = fields.read_text("description", self.problems).map(|(text, _)| text.to_owned());
        let (items, span) = fields.read_required_list("steps", self.problems)?;
        self.variables = items.iter().flat_map(list_variables).map(str::to_owned).collect();
        let steps = self.compile_steps(items);
        let (declared, defaults) = self.read_inputs(items);
        let root = Step {
            title: name.clone(),
            span,
            ..Step::new(root_key(), StepKind::Composite(Composite::Sequence(steps)))
        };
        let plan = Plan {
            format: FORMAT,
            // AnythingLLM knows a flow by its file; a "uuid" within is a copy of another one.
            id: None,
            name,
            description: description.unwrap_or_default(),
            inputs: Inputs::Named { declared, defaults, accepts_others: true },
            text: TEXT_RULES,
            limits: Limits::unlimited(),
            functions: Vec::new(),
            thread: None,
            root,
        };
        check::check_references(&plan, self.source, self.problems);
        Some(plan)
    }

    fn compile_steps(&mut self, items: &[Node]) -> Vec<Step> {
        let mut siblings = Siblings::default();
        let mut steps = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let is_last = index + 1 == items.len();
            if let Some(step) = self.compile_step(item, is_last, &mut siblings) {
                steps.push(step);
            }
            let stops =
                matches!(steps.last().map(|step: &Step| &step.kind), Some(StepKind::Composite(Composite::Return(_))));
            if let (true, Some(next)) = (stops && !is_last, items.get(index + 1)) {
                let message = "the step before this one has directOutput, so this one never runs";
                self.problems.add_warning(Code::AfterDirectOutput, start_span(next), message);
                self.check_rest(&items[index + 1..], &mut siblings);
                break;
            }
        }
        steps
    }

    /// Reports the problems of steps that never run.
    fn check_rest(&mut self, items: &[Node], siblings: &mut Siblings) {
        for (index, item) in items.iter().enumerate() {
            self.compile_step(item, index + 1 == items.len(), siblings);
        }
    }

    fn compile_step(&mut self, item: &Node, is_last: bool, siblings: &mut Siblings) -> Option<Step> {
        let fields = Fields::read_object(item, "a step", self.problems)?;
        fields.warn_unknown_keys(&["type", "config", "id", "name"], self.problems);
        let (kind, span) = fields.read_required_text("type", self.problems)?;
        if kind == FINISH_BLOCK && is_last {
            let message = "a finish block does nothing here: a flow ends after its last step";
            self.problems.add_warning(Code::TrailingFinish, start_span(item), message).fix = self.removal_fix(item);
            return None;
        }
        let kind = match BLOCK_TYPES.contains(&kind) {
            true => kind,
            // The rest of the step is checked as one of the type that is meant.
            false => self.report_unknown_block(kind, span)?,
        };
        let Some(config) = fields.get_non_null("config") else {
            let message = format_args!("this {kind} step has no \"config\"");
            self.problems.add_error(Code::MissingConfig, start_span(item), message);
            return None;
        };
        let config = Fields::read_object(config, "\"config\"", self.problems)?;
        for (_, _, value) in item.get("config").into_iter().flat_map(Node::entries) {
            check::double_braces(self.source, value.span, &self.variables, self.problems);
        }
        let name = self.result_name(&config);
        let key = siblings.next_key(name.as_deref(), kind);
        let mut step = self.compile_block(kind, &config, key)?;
        step.span = item.span;
        step.title = step_title(kind, name.as_deref());
        self.finish_step(kind, &config, step)
    }

    /// Reports an unknown type, and returns the one that is probably meant.
    fn report_unknown_block(&mut self, kind: &str, span: Span) -> Option<&'static str> {
        let meant = self.problems.find_similar(kind, BLOCK_TYPES);
        let help = match REMOVED_BLOCK_TYPES.iter().find(|(name, _)| *name == kind) {
            Some((_, instead)) => (*instead).to_owned(),
            None => match meant {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("the types are {}", BLOCK_TYPES.join(", ")),
            },
        };
        let fix =
            meant.map(|meant| Fix::new_safe(format!("change it to {meant:?}"), vec![(span, format!("{meant:?}"))]));
        let diagnostic =
            self.problems.add_error(Code::UnknownBlock, span, format_args!("there is no block type {kind:?}"));
        diagnostic.help = Some(help);
        diagnostic.fix = fix;
        meant
    }

    /// The literal name of the step's result variable, for the step's key.
    fn result_name(&self, config: &Fields<'_>) -> Option<String> {
        let names = ["resultVariable", "responseVariable"];
        let name = names.iter().find_map(|key| config.get(key)?.as_str().filter(|name| !name.is_empty()));
        name.map(str::to_owned)
    }

    /// A fix that removes a list item, together with an adjacent comma.
    fn removal_fix(&self, item: &Node) -> Option<Fix> {
        let before = self.source.get(..item.span.start)?.trim_end();
        let start = if before.ends_with(',') { before.len() - 1 } else { item.span.start };
        let span = Span { start, length: item.span.end() - start };
        Some(Fix::new_safe("remove it", vec![(span, String::new())]))
    }

    /// The parameters and their defaults: the rows of the first start block, wherever it is.
    fn read_inputs(&mut self, items: &[Node]) -> (Vec<Input>, Map) {
        let start = items.iter().find(|item| item.get("type").and_then(Node::as_str) == Some("start"));
        let rows = start.and_then(|step| step.get("config")?.get("variables")?.items()).unwrap_or_default();
        let (mut declared, mut defaults) = (Vec::new(), Map::new());
        for row in rows {
            let Some(name) = row.get("name").map(scalar_text) else { continue };
            let value = row.get("value").map(Node::to_value);
            let is_blank = name.is_empty() && !value.as_ref().is_some_and(Value::is_truthy);
            if is_blank {
                continue;
            }
            if let Some(value) = row.get("value") {
                self.refuse_secret_default(value);
            }
            // A row without a value keeps its place among the variables; the start block makes it an empty text.
            defaults.insert(name.as_str().into(), value.clone().unwrap_or_default());
            if !name.is_empty() {
                let description = row.get("description").and_then(Node::as_str).filter(|text| !text.is_empty());
                let description = description.map(str::to_owned);
                declared.push(Input { name, description, default: value, span: row.span, ..Input::default() });
            }
        }
        (declared, defaults)
    }

    /// Reports a secret in the default of a variable, which is a text without references: the reference would be sent.
    fn refuse_secret_default(&mut self, value: &Node) {
        let parsed = value.as_str().map(|text| template::parse(text, self.variables.contains("secret")));
        let Some(name) = parsed.as_ref().and_then(|parsed| parsed.iter_secrets().next()) else { return };
        let message = format_args!("the secret {name} cannot be the value of a variable");
        self.problems.add_error(Code::SecretPlace, value.span, message).help = Some(format!(
            "write ${{secret.{name}}} where it is used: in the query of a URL, in a header value or in a body"
        ));
    }
}

/// Whether the text of a flow declares a variable with this name, which hides what the name means otherwise.
pub fn declares_variable(text: &str, name: &str) -> bool {
    let Ok((node, _)) = parse_node(text) else { return false };
    let steps = [node.get("steps"), node.get("config").and_then(|config| config.get("steps"))];
    steps.into_iter().flatten().filter_map(Node::items).flatten().flat_map(list_variables).any(|set| set == name)
}

/// The names of the variables that a step sets.
fn list_variables(item: &Node) -> impl Iterator<Item = &str> {
    let config = item.get("config");
    let rows = config.and_then(|config| config.get("variables")?.items()).unwrap_or_default();
    let stores = ["resultVariable", "responseVariable"].into_iter().filter_map(move |key| config?.get(key));
    rows.iter().filter_map(|row| row.get("name")).chain(stores).filter_map(Node::as_str)
}

fn root_key() -> Key {
    Key::numbered_key("flow", 1)
}

fn file_stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().filter(|stem| !stem.is_empty()).unwrap_or(name)
}

fn step_title(kind: &str, name: Option<&str>) -> String {
    name.map_or_else(|| kind.to_owned(), |name| format!("{kind} → {name}"))
}

/// The start of an object, for diagnostics that should not underline all of it.
fn start_span(node: &Node) -> Span {
    label_span(node)
}

/// The result of JavaScript's `String()` for a scalar; objects as JSON.
pub(crate) fn scalar_text(node: &Node) -> String {
    match &node.kind {
        NodeKind::String(text) => text.clone(),
        _ => flowloom_core::render::render_text(&node.to_value(), TextStyle::JavaScript),
    }
}
