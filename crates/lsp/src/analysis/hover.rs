//! The meaning of a thing at a position.

use flowloom_core::diagnostic::Span;
use flowloom_core::json::Node;

use super::definition::{Definition, IndexedFile};
use super::elements::find_element;
use super::index::Body;
use super::json_place::{JsonPlace, PathStep, find_place, touches_offset};
use super::known::{Known, KnownName};
use super::mdx::MdxDocument;
use super::names::{Name, NameKind};
use super::schema::FormatSchema;
use super::yaml::find_yaml_keys;

/// The meaning of something, as Markdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// Its subject.
    pub span: Span,
    /// The meaning.
    pub text: String,
    /// The variable that it is about, so that its last value can be added.
    pub variable: Option<Name>,
}

/// The meaning of the text at byte `offset` of a file.
pub fn find_meaning(definition: &Definition, file: &IndexedFile, offset: usize, known: &Known) -> Option<Meaning> {
    if let Some(name) = file.index.find_names(offset).next() {
        return Some(describe_name(definition, name, known));
    }
    match &file.index.body {
        Body::Json(tree) => describe_key(file, tree.as_ref()?, offset),
        Body::Markdown(document) => describe_markdown(&file.index.text, document, offset, known),
    }
}

fn describe_name(definition: &Definition, name: &Name, known: &Known) -> Meaning {
    let origin = definition.find_origin(name);
    let mut lines = vec![format!("{} `{}`", name.kind.describe(), name.text)];
    if let Some(origin) = origin {
        let about = &origin.about;
        let fields = definition.list_fields(name);
        if !about.type_name.is_empty() {
            lines.push(format!("type: {}", about.type_name));
        }
        if !fields.is_empty() {
            let names: Vec<_> = fields.into_iter().map(|field| field.name).collect();
            lines.push(format!("fields: {}", names.join(", ")));
        }
        if !about.origin.is_empty() {
            lines.push(about.origin.clone());
        }
    } else {
        let names = match name.kind {
            NameKind::Function => &known.functions,
            NameKind::Block => &known.blocks,
            NameKind::Agent => &known.agents,
            NameKind::Tool => &known.workflows,
            _ => &known.models,
        };
        let found = names.iter().find(|known| known.name == name.text);
        lines.extend(found.map(|found| found.detail.clone()).filter(|detail| !detail.is_empty()));
    }
    let is_variable = matches!(name.kind, NameKind::Variable | NameKind::Node);
    Meaning { span: name.span, text: lines.join("\n\n"), variable: is_variable.then(|| name.clone()) }
}

/// The meaning of a key of the format's schema, and what its value can be.
fn describe_key(file: &IndexedFile, tree: &Node, offset: usize) -> Option<Meaning> {
    let schema = FormatSchema::new(file.index.format?)?;
    let JsonPlace::Key { mut path, key: Some((key, span)), .. } = find_place(&file.index.text, tree, offset)? else {
        return None;
    };
    let found = schema.list_keys(Some(tree), &path).into_iter().find(|one| one.name == key)?;
    let mut lines = vec![format!("`{key}`{}", if found.is_required { " (required)" } else { "" })];
    lines.extend(schema.describe(found.value).map(str::to_owned));
    path.push(PathStep::Key(key.to_owned()));
    let values: Vec<String> = schema
        .list_values(Some(tree), &path)
        .iter()
        .filter_map(|value| Some(format!("`{}`", value.as_str()?)))
        .collect();
    if !values.is_empty() {
        lines.push(format!("one of {}", values.join(", ")));
    } else if let Some(kind) = found.value.get("type").and_then(serde_json::Value::as_str) {
        lines.push(format!("type: {kind}"));
    }
    lines.extend(found.value.get("default").map(|default| format!("default: `{default}`")));
    Some(Meaning { span, text: lines.join("\n\n"), variable: None })
}

fn describe_markdown(text: &str, document: &MdxDocument, offset: usize, known: &Known) -> Option<Meaning> {
    let is_here = |span: &Span| touches_offset(*span, offset);
    let meaning = |span: Span, text: String| Some(Meaning { span, text, variable: None });
    if let Some(range) = document.frontmatter.clone().filter(|range| range.contains(&offset)) {
        let key = find_yaml_keys(text, range).into_iter().find(|key| is_here(&key.span))?;
        let schema = FormatSchema::new(flowloom_formats::markdown::FORMAT)?;
        let (name, parents) = key.path.split_last()?;
        let path: Vec<PathStep> = parents.iter().cloned().map(PathStep::Key).collect();
        let found = schema.list_keys(None, &path).into_iter().find(|one| one.name == name)?;
        let description = schema.describe(found.value).map(|text| format!("\n\n{text}")).unwrap_or_default();
        return meaning(key.span, format!("`{name}`{description}"));
    }
    for element in &document.elements {
        let Some(kind) = find_element(&element.name) else {
            let Some(function) = known.find_called_function(&element.name) else { continue };
            if is_here(&element.name_span) || element.closing_name.as_ref().is_some_and(is_here) {
                return meaning(element.name_span, describe_function(&element.name, function));
            }
            if let Some(attribute) = element.attributes.iter().find(|attribute| is_here(&attribute.name_span)) {
                let input = function.inputs.iter().find(|one| one.name == attribute.name)?;
                return meaning(attribute.name_span, format!("`{}`\n\n{}", input.name, input.detail));
            }
            continue;
        };
        if is_here(&element.name_span) || element.closing_name.as_ref().is_some_and(is_here) {
            return meaning(element.name_span, format!("`<{}>`\n\n{}", kind.name, kind.meaning));
        }
        if let Some(attribute) = element.attributes.iter().find(|attribute| is_here(&attribute.name_span)) {
            let known = kind.attributes.iter().find(|one| one.name == attribute.name)?;
            return meaning(attribute.name_span, format!("`{}`\n\n{}", known.name, known.meaning));
        }
    }
    None
}

/// The meaning of an action that calls a function.
fn describe_function(element: &str, function: &KnownName) -> String {
    let mut lines = vec![format!("`<{element}>`"), format!("calls the function `{}`", function.name)];
    lines.extend(Some(function.detail.clone()).filter(|detail| !detail.is_empty()));
    let inputs: Vec<String> = function.inputs.iter().map(|input| format!("`{}`", input.name)).collect();
    if !inputs.is_empty() {
        lines.push(format!("attributes: {}", inputs.join(", ")));
    }
    lines.join("\n\n")
}
