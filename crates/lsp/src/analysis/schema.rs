//! The JSON Schemas of the formats: which keys and values can be at a place, and what they mean.

use flowloom_core::json::Node;
use flowloom_core::plan::Format;
use flowloom_formats::format_schema;
use serde_json::Value;

use super::json_place::PathStep;

/// Maximum number of references that are followed from one place.
const MAX_DEPTH: usize = 16;

/// The schema of a format.
pub struct FormatSchema {
    root: Value,
}

/// A key that an object can have.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaKey<'s> {
    /// The key.
    pub name: &'s str,
    /// The schema of its value.
    pub value: &'s Value,
    /// Whether the object needs it.
    pub is_required: bool,
}

impl FormatSchema {
    /// The schema of a format; `None` if there is none.
    pub fn new(format: Format) -> Option<FormatSchema> {
        Some(FormatSchema { root: serde_json::from_str(format_schema(format)?).ok()? })
    }

    /// The schemas of the value at `path` of `tree`: several where the format has variants that fit.
    pub fn find_schemas(&self, tree: Option<&Node>, path: &[PathStep]) -> Vec<&Value> {
        let mut schemas = self.expand(&self.root, tree, 0);
        let mut node = tree;
        for step in path {
            node = node.and_then(|node| match step {
                PathStep::Key(key) => node.get(key),
                PathStep::Index(index) => node.items()?.get(*index),
            });
            let below = schemas.iter().filter_map(|schema| match step {
                PathStep::Key(key) => {
                    let own = schema.get("properties").and_then(|properties| properties.get(key));
                    own.or_else(|| schema.get("additionalProperties"))
                }
                PathStep::Index(_) => schema.get("items"),
            });
            let below: Vec<&Value> = below.collect();
            schemas = below.into_iter().flat_map(|schema| self.expand(schema, node, 0)).collect();
        }
        schemas
    }

    /// The schemas that a schema consists of: itself, and its references and variants that fit the value.
    fn expand<'s>(&'s self, schema: &'s Value, node: Option<&Node>, depth: usize) -> Vec<&'s Value> {
        if depth > MAX_DEPTH {
            return Vec::new();
        }
        let mut found = vec![schema];
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            found.extend(target.into_iter().flat_map(|target| self.expand(target, node, depth + 1)));
        }
        for variants in ["anyOf", "oneOf"] {
            let variants = schema.get(variants).and_then(Value::as_array).into_iter().flatten();
            let fitting = variants.filter(|variant| node.is_none_or(|node| fits(variant, node)));
            found.extend(fitting.flat_map(|variant| self.expand(variant, node, depth + 1)));
        }
        found
    }

    /// The keys that the object at `path` can have, each once.
    pub fn list_keys(&self, tree: Option<&Node>, path: &[PathStep]) -> Vec<SchemaKey<'_>> {
        let schemas = self.find_schemas(tree, path);
        let is_required = |name: &str| schemas.iter().any(|schema| list_required(schema).contains(&name));
        let mut keys: Vec<SchemaKey<'_>> = Vec::new();
        for (name, value) in schemas.iter().filter_map(|schema| schema.get("properties")?.as_object()).flatten() {
            if !keys.iter().any(|key| key.name == name) {
                keys.push(SchemaKey { name, value, is_required: is_required(name) });
            }
        }
        keys
    }

    /// The variants of a schema that say which they are by a constant key, such as the blocks of a flow.
    pub fn list_variants<'s>(&'s self, schemas: &[&'s Value]) -> Vec<&'s Value> {
        let variants = schemas.iter().filter_map(|schema| schema.get("oneOf")?.as_array()).flatten();
        variants.filter(|variant| find_constant(variant).is_some()).collect()
    }

    /// The meaning of a value; `None` if the schema does not say it.
    pub fn describe<'s>(&'s self, schema: &'s Value) -> Option<&'s str> {
        let all = self.expand(schema, None, 0);
        all.into_iter().find_map(|schema| schema.get("description")?.as_str())
    }

    /// Whether the value at a place can be true or false.
    pub fn takes_boolean(&self, tree: Option<&Node>, path: &[PathStep]) -> bool {
        let is_boolean = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("boolean");
        self.find_value_schemas(tree, path).iter().any(is_boolean)
    }

    /// The schemas of a value that is being written.
    fn find_value_schemas(&self, tree: Option<&Node>, path: &[PathStep]) -> Vec<&Value> {
        // While it is written, the value itself must not decide which variants fit.
        let parent = path.split_last().map(|(_, parent)| parent).unwrap_or_default();
        match path.last() {
            Some(PathStep::Key(key)) => {
                let variants = self.find_all_variants(tree, parent);
                let below = variants.into_iter().filter_map(|schema| schema.get("properties")?.get(key));
                below.flat_map(|schema| self.expand(schema, None, 0)).collect()
            }
            Some(PathStep::Index(_)) | None => self.find_schemas(tree, path),
        }
    }

    /// The values that can be at a place, as JSON.
    pub fn list_values(&self, tree: Option<&Node>, path: &[PathStep]) -> Vec<&Value> {
        let mut values: Vec<&Value> = Vec::new();
        for schema in self.find_value_schemas(tree, path) {
            let lists = ["enum", "examples"].iter().filter_map(|list| schema.get(list)?.as_array()).flatten();
            let found = lists.chain(schema.get("const")).filter(|value| value.is_string());
            found.for_each(|value| {
                if !values.contains(&value) {
                    values.push(value)
                }
            });
        }
        values
    }

    /// The schemas at a path, with every variant of the last one.
    fn find_all_variants(&self, tree: Option<&Node>, path: &[PathStep]) -> Vec<&Value> {
        let Some((last, parent)) = path.split_last() else { return self.expand(&self.root, None, 0) };
        let below = self.find_schemas(tree, parent).into_iter().filter_map(|schema| match last {
            PathStep::Key(key) => schema.get("properties")?.get(key),
            PathStep::Index(_) => schema.get("items"),
        });
        below.flat_map(|schema| self.expand(schema, None, 0)).collect()
    }
}

/// The keys that a schema requires.
fn list_required(schema: &Value) -> Vec<&str> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(Value::as_str).collect()
}

/// The key by which a variant is recognised, with its value.
pub fn find_constant(variant: &Value) -> Option<(&str, &str)> {
    let properties = variant.get("properties")?.as_object()?;
    properties.iter().find_map(|(key, schema)| Some((key.as_str(), schema.get("const")?.as_str()?)))
}

/// Whether a value can be of a variant: its constant keys have the variant's values, if they are there.
fn fits(variant: &Value, node: &Node) -> bool {
    match find_constant(variant) {
        Some((key, value)) => node.get(key).and_then(Node::as_str).is_none_or(|written| written == value),
        None => true,
    }
}

/// The text for a value of a schema, with the places to fill in as a snippet. `stop` is the number of the last
/// place.
pub fn write_skeleton(schema: &Value, stop: &mut u32) -> String {
    let mut next = || {
        *stop += 1;
        *stop
    };
    if let Some(constant) = schema.get("const") {
        return constant.to_string();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        return format!("\"${{{}|{}|}}\"", next(), values.join(","));
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => {
            let default = schema.get("default").and_then(Value::as_bool).unwrap_or_default();
            format!("${{{}|{},{}|}}", next(), !default, default)
        }
        Some("integer" | "number") => match schema.get("default") {
            Some(default) => format!("${{{}:{default}}}", next()),
            None => format!("${}", next()),
        },
        Some("array") => format!("[${}]", next()),
        Some("object") => write_object(schema, stop),
        Some("string") => format!("\"${}\"", next()),
        // A variant without a type of its own is an object.
        _ if schema.get("properties").is_some() => write_object(schema, stop),
        _ => format!("\"${}\"", next()),
    }
}

fn write_object(schema: &Value, stop: &mut u32) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut keys = list_required(schema);
    if let Some((constant, _)) = find_constant(schema) {
        if !keys.contains(&constant) {
            keys.insert(0, constant);
        }
        // The variants of a list have their content under one more key.
        for (key, _) in properties.into_iter().flatten() {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
    }
    if keys.is_empty() {
        *stop += 1;
        return format!("{{${stop}}}");
    }
    let entry = |key: &str, stop: &mut u32| {
        let schema = properties.and_then(|properties| properties.get(key)).unwrap_or(&Value::Null);
        format!("\"{key}\": {}", write_skeleton(schema, stop))
    };
    let entries: Vec<String> = keys.iter().map(|key| entry(key, stop)).collect();
    format!("{{{}}}", entries.join(", "))
}
