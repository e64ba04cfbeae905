//! The names in JSON definitions.

use flowloom_core::diagnostic::Span;
use flowloom_core::json::Node;
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::{flow, pipeline, steps};

use super::json_place::{PathStep, follow_path, to_pattern, visit_values};
use super::json_tree::inner_span;
use super::names::{About, Name, NameKind, Role, ValueField};
use super::roles::{TextRole, find_role};
use super::templates::{Reference, TemplateStyle, find_references};

/// A text with references, as it is embedded in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateText {
    /// The text between the quotes.
    pub span: Span,
    /// How it writes references.
    pub style: TemplateStyle,
    /// The kind of things that its references name.
    pub kind: NameKind,
    /// The scope of its names.
    pub scope: usize,
}

/// The names of a document, and its texts with references.
#[derive(Clone, Debug, Default)]
pub struct JsonNames {
    /// The names in the order of the document.
    pub names: Vec<Name>,
    /// The texts with references.
    pub templates: Vec<TemplateText>,
    /// The names of variables that the run computes.
    pub computed: Vec<ComputedName>,
}

/// The name of a variable with references in it, such as `note_${kind}`: which variable it is follows from the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedName {
    /// The place of the text.
    pub span: Span,
    /// The references in it.
    references: Vec<Span>,
}

impl ComputedName {
    /// Whether the run can compute this name: it begins and ends with the text around the references.
    pub fn can_be(&self, text: &str, name: &str) -> bool {
        let (Some(first), Some(last)) = (self.references.first(), self.references.last()) else { return false };
        let before = text.get(self.span.start..first.start).unwrap_or_default();
        let after = text.get(last.end()..self.span.end()).unwrap_or_default();
        name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
    }
}

/// The number of the iteration in a step list.
pub(super) const COUNTER_NAME: &str = "iteration";

/// The outputs of the last fan-out of a step list.
pub(super) const FANOUT_NAME: &str = "__fanout";

/// The names that a definition uses without declaring them.
const GIVEN_STEPS_NAMES: [(&str, &str, &str); 3] = [
    ("input", "text", "the input, or the output of the step before"),
    (FANOUT_NAME, "list", "the outputs of the last fan-out"),
    (COUNTER_NAME, "number", "the iteration of a loop, from 0"),
];

/// Finds the names of a JSON definition.
pub fn find_json_names(format: Format, text: &str, tree: &Node) -> JsonNames {
    let mut found = JsonNames::default();
    visit_values(tree, &mut |path, node| {
        if node.as_str().is_none() {
            return;
        }
        let span = inner_span(text, node);
        let written = text.get(span.start..span.end()).unwrap_or_default();
        match find_role(format, &to_pattern(path)) {
            TextRole::Name(kind, role) if !written.is_empty() => {
                let about = describe_origin(format, tree, path);
                let references = match (format, kind, role) {
                    (flow::FORMAT, NameKind::Variable, Role::Written) => {
                        find_references(written, span.start, TemplateStyle::DollarBraces)
                    }
                    _ => Vec::new(),
                };
                if references.is_empty() {
                    found.names.push(Name { about, ..Name::new(kind, written, span, role) });
                    return;
                }
                let read = |reference: &Reference| Name::new(kind, &reference.name, reference.name_span, Role::Read);
                found.names.extend(references.iter().map(read));
                let references = references.into_iter().map(|reference| reference.span).collect();
                found.computed.push(ComputedName { span, references });
                found.templates.push(TemplateText { span, style: TemplateStyle::DollarBraces, kind, scope: 0 });
            }
            TextRole::Template(style, kind) => {
                let scope = if kind == NameKind::Field { find_position(path) + 1 } else { 0 };
                found.templates.push(TemplateText { span, style, kind, scope });
                for reference in find_references(written, span.start, style) {
                    // Without a field, the text is sent as it is written.
                    let is_text = kind == NameKind::Node && reference.path.is_empty();
                    if is_text || is_special(kind, &reference.name) {
                        continue;
                    }
                    let name = Name::new(kind, &reference.name, reference.name_span, Role::Read);
                    found.names.push(Name { scope, ..name });
                }
            }
            TextRole::Name(..) | TextRole::Plain => {}
        }
    });
    if format == pipeline::FORMAT {
        add_block_inputs(text, tree, &mut found.names);
    }
    if format == steps::FORMAT {
        extend_dotted_names(text, &mut found.names);
    }
    found.names.sort_by_key(|name| name.span.start);
    found
}

/// Makes `{{a.b}}` a reference to the variable `a.b` if there is one, and not to a field of `a`.
fn extend_dotted_names(text: &str, names: &mut [Name]) {
    let is_dotted = |name: &&Name| name.is_origin() && name.text.contains('.');
    let dotted: Vec<String> = names.iter().filter(is_dotted).map(|name| name.text.clone()).collect();
    for name in names.iter_mut().filter(|name| name.kind == NameKind::Variable && name.role == Role::Read) {
        let written = text[name.span.start..].split(['}', '"']).next().unwrap_or_default();
        let is_meant =
            |one: &&String| written.strip_prefix(one.as_str()).is_some_and(|rest| !rest.starts_with(is_word));
        if let Some(longest) = dotted.iter().filter(is_meant).max_by_key(|one| one.len()) {
            (name.text, name.span.length) = (longest.clone(), longest.len());
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Names that a definition uses without declaring them, with their type and meaning.
pub fn list_given_names(format: Format) -> Vec<Name> {
    if format != steps::FORMAT {
        return Vec::new();
    }
    let given = GIVEN_STEPS_NAMES.iter().map(|(name, type_name, origin)| Name {
        about: About { type_name: (*type_name).to_owned(), origin: (*origin).to_owned(), fields: Vec::new() },
        ..Name::new(NameKind::Variable, name, Span::default(), Role::Declared)
    });
    given.collect()
}

/// Whether a reference is to nothing that a definition declares.
fn is_special(kind: NameKind, name: &str) -> bool {
    name == "secret" || (kind == NameKind::Node && matches!(name, "memory" | "user"))
}

/// The position in the list that a path leads through first.
fn find_position(path: &[PathStep]) -> usize {
    path.iter().find_map(|step| if let PathStep::Index(index) = step { Some(*index) } else { None }).unwrap_or_default()
}

/// The inputs that the blocks of a document declare.
fn add_block_inputs(text: &str, tree: &Node, names: &mut Vec<Name>) {
    let blocks = tree.get("blocks").and_then(Node::items).unwrap_or_default();
    for (index, block) in blocks.iter().enumerate() {
        names.extend(find_block_inputs(text, block, index + 1));
    }
}

/// The inputs that a block declares, in a scope.
pub fn find_block_inputs(text: &str, block: &Node, scope: usize) -> Vec<Name> {
    let properties = block.get("input_schema").and_then(|schema| schema.get("properties"));
    let entries = properties.map(Node::entries).unwrap_or_default();
    let declare = |(key, span, schema): &(String, Span, Node)| {
        let type_name = schema.get("type").and_then(Node::as_str).unwrap_or_default().to_owned();
        let about = About { type_name, origin: "input of the block".to_owned(), fields: Vec::new() };
        let string = Node { span: *span, kind: flowloom_core::json::NodeKind::String(key.clone()) };
        let name = Name::new(NameKind::Field, key, inner_span(text, &string), Role::Declared);
        Name { scope, about, ..name }
    };
    entries.iter().map(declare).collect()
}

/// The fields that the output schema of a block has. A trigger has others, whatever its schema says.
pub fn list_output_fields(block: &Node) -> Vec<ValueField> {
    if block.get("category").and_then(Node::as_str) == Some("trigger") {
        let text = Value::map([("type", Value::from("string"))]);
        return ["status", "trigger_type"].map(|name| ValueField::of_schema(name, &text)).into();
    }
    let properties = block.get("output_schema").and_then(|schema| schema.get("properties"));
    let entries = properties.map(Node::entries).unwrap_or_default();
    entries.iter().map(|(key, _, schema)| ValueField::of_schema(key, &schema.to_value())).collect()
}

/// The type and the origin of what the value at `path` names.
fn describe_origin(format: Format, tree: &Node, path: &[PathStep]) -> About {
    let parent = path.split_last().and_then(|(_, parent)| follow_path(tree, parent));
    let text = |node: Option<&Node>, key: &str| node?.get(key)?.as_str().map(str::to_owned);
    match (format, to_pattern(path).as_slice()) {
        (flow::FORMAT, [.., "variables", "*", "name"]) => {
            let description = text(parent, "description").filter(|text| !text.is_empty());
            let origin = description.map_or_else(|| "input".to_owned(), |text| format!("input: {text}"));
            About { type_name: "text".to_owned(), origin, fields: Vec::new() }
        }
        (flow::FORMAT, _) => {
            let step = path.len().checked_sub(2).and_then(|length| follow_path(tree, &path[..length]));
            let kind = text(step, "type").unwrap_or_default();
            let type_name = if kind == "apiCall" { "text or object" } else { "text" };
            About { type_name: type_name.to_owned(), origin: format!("result of {kind}"), fields: Vec::new() }
        }
        (steps::FORMAT, _) => {
            let function = text(parent, "functionId").unwrap_or_default();
            let type_name = if function.starts_with("agent::") || function == "human::ask" { "text" } else { "any" };
            let step = text(parent, "name").unwrap_or_default();
            let origin = format!("output of the step {step} ({function})");
            About { type_name: type_name.to_owned(), origin, fields: Vec::new() }
        }
        (pipeline::FORMAT, [.., "nodes", "*", "id"]) => {
            let block = text(parent, "block_id").unwrap_or_default();
            let blocks = tree.get("blocks").and_then(Node::items).unwrap_or_default();
            let own = blocks.iter().find(|one| one.get("id").and_then(Node::as_str) == Some(block.as_str()));
            let fields = own.map(list_output_fields).unwrap_or_default();
            About { type_name: "object".to_owned(), origin: format!("output of the block {block}"), fields }
        }
        (_, [.., "nodes", "*", _]) => {
            let name = text(parent, "nodeName").or_else(|| text(parent, "node_name")).unwrap_or_default();
            About { type_name: String::new(), origin: name, fields: Vec::new() }
        }
        _ => About::default(),
    }
}
