//! The names in Markdown workflows. The content of a block is a scope of its own: the number of a scope is the position
//! of the block's element plus one, and 0 is the whole document.

use std::collections::{HashMap, HashSet};

use flowloom_core::diagnostic::Span;
use flowloom_formats::markdown::{ExpressionNames, NameRead, inspect_expression, read_written_schema};

use super::field_reads::{BlockResult, FieldReads, ReadPath};
use super::mdx::{BLOCKS, Element, MdxDocument, plain_name, read_mdx};
use super::names::{About, Name, NameKind, Role, ValueField};
use super::yaml::{YamlKey, find_yaml_keys};

/// The names of a document and the files that it includes.
#[derive(Clone, Debug, Default)]
pub struct MdxNames {
    /// The names in the order of the document.
    pub names: Vec<Name>,
    /// The names of included files, with their places.
    pub includes: Vec<(String, Span)>,
    /// The reads of fields, and the results that have fields.
    pub fields: FieldReads,
}

/// Maximum number of fragments within each other whose content is read.
const MAX_FRAGMENT_DEPTH: usize = 8;

/// Finds the names of a Markdown document.
pub fn find_mdx_names(text: &str, document: &MdxDocument) -> MdxNames {
    let mut found = MdxNames::default();
    if let Some(range) = &document.frontmatter {
        let keys = find_yaml_keys(text, range.clone());
        found.names.extend(read_frontmatter_names(text, &keys));
    }
    let results = list_results(text, document);
    for (index, element) in document.elements.iter().enumerate() {
        let inner = results.get(&(index + 1)).map(Vec::as_slice).unwrap_or_default();
        let result = declare_result(text, element, inner);
        if let Some(name) = result.as_ref().filter(|_| BLOCKS.contains(&plain_name(&element.name).as_str())) {
            let is_loop = plain_name(&element.name) == "loop";
            let block = BlockResult { name: name.text.clone(), scope: name.scope, inner: index + 1, is_loop };
            found.fields.blocks.push(block);
        }
        found.names.extend(result);
    }
    for expression in &document.expressions {
        let written = &text[expression.span.start..expression.span.end()];
        let names = inspect_expression(written).unwrap_or_default();
        let scope = match &expression.attribute {
            // Attributes are read in the scope around the element.
            Some((element, _)) => document.elements[*element].scope,
            None => document.find_scope(expression.element),
        };
        let provided =
            expression.attribute.as_ref().filter(|(_, name)| name == "provide").map(|(element, _)| element + 1);
        let read = ScopedExpression { text: written, start: expression.span.start, scope, depth: 0 };
        add_expression(read, &names, &mut found);
        if let Some(inner) = provided {
            let read = ReadExpression { names: &names, start: expression.span.start };
            read.add_provided(inner, &mut found.names);
        }
    }
    add_results_in_blocks(document, &mut found.names);
    found.names.sort_by_key(|name| (name.span.start, name.role));
    found
}

/// The names that the keys of the frontmatter declare, with the fields of constants.
fn read_frontmatter_names(text: &str, keys: &[YamlKey]) -> Vec<Name> {
    let mut names: Vec<Name> = Vec::new();
    let mut known: HashSet<&str> = HashSet::new();
    for key in keys {
        if let Some(name) = read_frontmatter(text, key) {
            names.push(name);
            known.clear();
        } else if let ([section, _, field], Some(last)) = (key.path.as_slice(), names.last_mut())
            && section == "data"
            && known.insert(field)
        {
            last.about.fields.push(ValueField::new(field));
        }
    }
    names
}

/// The type of a value of the frontmatter, as far as its first character determines it; empty if that is not known.
fn find_value_type(text: &str, key: &YamlKey) -> &'static str {
    let below =
        || text[key.value.end()..].lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let value = text[key.value.start..key.value.end()].split(" #").next().unwrap_or_default().trim();
    match value.chars().next() {
        None => {
            if below().is_some_and(|line| line.starts_with('-')) {
                "list"
            } else {
                "object"
            }
        }
        Some('[') => "list",
        Some('{') => "object",
        Some('"' | '\'' | '|' | '>') => "text",
        Some(_) if value == "true" || value == "false" => "boolean",
        Some(_) if value.parse::<f64>().is_ok() => "number",
        Some('*' | '&' | '!') => "",
        Some(_) => "text",
    }
}

/// The name that a key of the frontmatter declares.
fn read_frontmatter(text: &str, key: &YamlKey) -> Option<Name> {
    let [section, name] = key.path.as_slice() else { return None };
    let value = text[key.value.start..key.value.end()].trim();
    let about = match section.as_str() {
        "input" => {
            let kinds = [("array", "list"), ("number", "number"), ("boolean", "boolean"), ("image", "file")];
            let found = kinds.iter().find(|(word, _)| value.contains(word)).map_or("text", |(_, kind)| kind);
            About { type_name: found.to_owned(), origin: "input".to_owned(), fields: Vec::new() }
        }
        "data" => {
            let type_name = find_value_type(text, key).to_owned();
            About { type_name, origin: "constant of the frontmatter".to_owned(), fields: Vec::new() }
        }
        _ => return None,
    };
    Some(Name { about, ..Name::new(NameKind::Variable, name, key.span, Role::Declared) })
}

/// The name that an action gives to its result. `inner` names the results inside it.
fn declare_result(text: &str, element: &Element, inner: &[ValueField]) -> Option<Name> {
    let attribute = element.attributes.iter().find(|attribute| attribute.name == "as")?;
    let span = attribute.value.filter(|_| !attribute.is_expression)?;
    let name = text.get(span.start..span.end()).filter(|name| !name.is_empty())?;
    let ValueField { type_name, fields, .. } = describe_result(text, element, name, inner);
    let about = About { type_name, origin: format!("result of <{}>", element.name), fields };
    let scope = element.scope;
    Some(Name { scope, about, ..Name::new(NameKind::Variable, name, span, Role::Declared) })
}

/// The type and the fields of the result of an action. `inner` are the results inside it.
fn describe_result(text: &str, element: &Element, name: &str, inner: &[ValueField]) -> ValueField {
    let of_type =
        |type_name: &str, fields| ValueField { type_name: type_name.to_owned(), fields, ..ValueField::new(name) };
    match plain_name(&element.name).as_str() {
        "gentext" => of_type("text", Vec::new()),
        "genobject" => describe_object(text, element, name),
        "loop" => of_type("list", inner.to_vec()),
        "cond" => of_type("object", inner.to_vec()),
        _ => of_type("any", Vec::new()),
    }
}

/// The type and the fields that the attributes of an action give to its object.
fn describe_object(text: &str, element: &Element, name: &str) -> ValueField {
    let find = |name: &str| {
        let value = element.attributes.iter().find(|attribute| attribute.name == name)?.value?;
        text.get(value.start..value.end())
    };
    let schema = find("schema").unwrap_or_default();
    let fields = match read_written_schema(schema) {
        Some(schema) => ValueField::of_schema(name, &schema).fields,
        // A schema that is being written has its keys already.
        None => {
            let names = inspect_expression(schema).unwrap_or_default();
            names.argument_keys.iter().map(|(key, _)| ValueField::new(key)).collect()
        }
    };
    let type_name = match find("output") {
        Some("array") => "list",
        Some("enum") => "text",
        Some("no-schema") => "any",
        _ => "object",
    };
    ValueField { type_name: type_name.to_owned(), fields, ..ValueField::new(name) }
}

/// The results inside each scope.
fn list_results(text: &str, document: &MdxDocument) -> HashMap<usize, Vec<ValueField>> {
    let mut results: HashMap<usize, Vec<ValueField>> = HashMap::new();
    // The results inside a block come before the block.
    for (index, element) in document.elements.iter().enumerate().rev() {
        let value = element.attributes.iter().find(|attribute| attribute.name == "as").and_then(|one| one.value);
        if let Some(name) = value.and_then(|value| text.get(value.start..value.end())) {
            let inner = results.get(&(index + 1)).map(Vec::as_slice).unwrap_or_default();
            let result = describe_result(text, element, name, inner);
            let names = results.entry(element.scope).or_default();
            if names.first().is_none_or(|first| first.name != name) {
                names.insert(0, result);
            }
        }
    }
    results
}

fn shift(range: &std::ops::Range<usize>, start: usize) -> Span {
    Span { start: start + range.start, length: range.len() }
}

/// An expression and the scope in which it is read.
#[derive(Clone, Copy)]
struct ScopedExpression<'a> {
    text: &'a str,
    start: usize,
    scope: usize,
    /// The number of fragments around it.
    depth: usize,
}

fn add_expression(expression: ScopedExpression<'_>, names: &ExpressionNames, found: &mut MdxNames) {
    let ScopedExpression { text, start, scope, depth } = expression;
    for read in names.reads.iter().filter(|read| !read.name.starts_with('$')) {
        let NameRead { name, range, fields, is_shorthand } = read;
        let read = Name::new(NameKind::Variable, name, shift(range, start), Role::Read);
        found.names.push(Name { scope, is_shorthand: *is_shorthand, ..read });
        let fields = fields.iter().map(|field| (field.name.clone(), shift(&field.range, start))).collect();
        found.fields.reads.push(ReadPath { name: name.clone(), scope, fields });
    }
    found.includes.extend(names.includes.iter().map(|(path, range)| (path.clone(), shift(range, start))));
    for fragment in names.fragments.iter().filter(|_| depth < MAX_FRAGMENT_DEPTH) {
        let inner = &text[fragment.clone()];
        for expression in read_mdx(inner).expressions {
            let written = &inner[expression.span.start..expression.span.end()];
            let names = inspect_expression(written).unwrap_or_default();
            let start = start + fragment.start + expression.span.start;
            add_expression(ScopedExpression { text: written, start, scope, depth: depth + 1 }, &names, found);
        }
    }
}

/// An expression, with its place.
struct ReadExpression<'a> {
    names: &'a ExpressionNames,
    start: usize,
}

impl ReadExpression<'_> {
    /// Adds the names that it, as the value of `provide`, gives to the content of a block with the scope `inner`.
    fn add_provided(&self, inner: usize, found: &mut Vec<Name>) {
        for key in &self.names.keys {
            let span = shift(&key.range, self.start);
            let about = About { origin: "provided to the block".to_owned(), ..About::default() };
            let declared = Name::new(NameKind::Variable, &key.name, span, Role::Declared);
            found.push(Name { scope: inner, about, is_shorthand: key.is_shorthand, ..declared });
        }
    }
}

/// The type and the fields of provided names are those of the names that they refer to.
fn add_results_in_blocks(document: &MdxDocument, names: &mut [Name]) {
    let outer: Vec<Name> = names.iter().filter(|name| name.is_origin() && !name.is_shorthand).cloned().collect();
    for name in names.iter_mut().filter(|name| name.is_shorthand && name.is_origin()) {
        let block = name.scope.checked_sub(1).and_then(|index| document.elements.get(index));
        let around = block.map_or(0, |element| element.scope);
        if let Some(meant) = outer.iter().find(|one| one.scope == around && one.text == name.text) {
            name.about.type_name.clone_from(&meant.about.type_name);
            name.about.fields.clone_from(&meant.about.fields);
        }
    }
}
