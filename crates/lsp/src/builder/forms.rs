//! The forms of parts: JSON Schemas without references, in which every field names its widget.
//!
//! `x-widget` is how a field is entered: `template` (a text with references), `name` (declares a name), `reference` (names
//! a thing of the kind `x-names`), `model`, `schema` (a JSON Schema), `long` (a text of several lines), `code` (in the
//! language `x-language`), or `json`. Without it, the type determines it.

use flowloom_core::plan::Format;
use flowloom_core::value::Value as Data;
use serde_json::{Map, Value, json};

use crate::analysis::names::{NameKind, Role};
use crate::analysis::roles::{TextRole, find_role};
use crate::analysis::templates::TemplateStyle;

/// Maximum depth of a form.
const MAX_DEPTH: usize = 8;

/// Keys with texts of several lines.
const LONG_KEYS: [&str; 8] = [
    "instruction",
    "promptTemplate",
    "prompt_template",
    "systemPrompt",
    "system_prompt",
    "body",
    "user_prompt",
    "system",
];

/// Keys with a JSON Schema.
const SCHEMA_KEYS: [&str; 3] = ["input_schema", "output_schema", "parameters"];

/// Keys with any values, which are entered as JSON.
const JSON_KEYS: [&str; 1] = ["metadata"];

/// Writes forms for one format.
pub struct FormWriter<'s> {
    format: Format,
    root: &'s Value,
}

impl<'s> FormWriter<'s> {
    /// A writer for a format with this schema.
    pub fn new(format: Format, root: &'s Value) -> FormWriter<'s> {
        FormWriter { format, root }
    }

    /// The form of a value with this schema at this place.
    pub fn write(&self, schema: &Value, place: &[&str]) -> Value {
        let mut place: Vec<&str> = place.to_vec();
        self.write_below(schema, &mut place, 0)
    }

    fn write_below<'p>(&self, schema: &'p Value, place: &mut Vec<&'p str>, depth: usize) -> Value
    where
        's: 'p,
    {
        let mut form = Map::new();
        self.merge(schema, &mut form, 0);
        simplify_type(&mut form);
        if depth < MAX_DEPTH {
            if let Some(Value::Object(properties)) = self.resolve(schema, "properties") {
                let mut inner = Map::new();
                for (key, value) in properties {
                    place.push(key);
                    inner.insert(key.clone(), self.write_below(value, place, depth + 1));
                    place.pop();
                }
                form.insert("properties".into(), inner.into());
            }
            for key in ["items", "additionalProperties"] {
                if let Some(below) = self.resolve(schema, key).filter(|below| below.is_object()) {
                    place.push("*");
                    form.insert(key.into(), self.write_below(below, place, depth + 1));
                    place.pop();
                }
            }
        }
        self.add_widget(&mut form, place);
        form.into()
    }

    /// Copies what a schema and the schemas that it refers to say about a field.
    fn merge(&self, schema: &Value, form: &mut Map<String, Value>, depth: usize) {
        let Some(object) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return };
        if let Some(target) = self.follow(object) {
            self.merge(target, form, depth + 1);
        }
        for (key, value) in object {
            if !matches!(key.as_str(), "$ref" | "$schema" | "$defs" | "properties" | "items" | "allOf" | "oneOf") {
                form.insert(key.clone(), value.clone());
            }
        }
    }

    /// The value of a key of a schema, or of the one that it refers to.
    fn resolve<'p>(&self, schema: &'p Value, key: &str) -> Option<&'p Value>
    where
        's: 'p,
    {
        let mut schema = schema;
        for _ in 0..MAX_DEPTH {
            if let Some(found) = schema.get(key) {
                return Some(found);
            }
            schema = self.follow(schema.as_object()?)?;
        }
        None
    }

    fn follow(&self, schema: &Map<String, Value>) -> Option<&'s Value> {
        let target = schema.get("$ref")?.as_str()?;
        self.root.pointer(target.strip_prefix('#')?)
    }

    fn add_widget(&self, form: &mut Map<String, Value>, place: &[&str]) {
        let key = place.last().copied().unwrap_or_default();
        let mut set = |widget: &str| {
            form.insert("x-widget".into(), widget.into());
        };
        match find_role(self.format, place) {
            TextRole::Template(style, _) if !is_compound(place, key) => {
                set("template");
                form.insert("x-references".into(), style_name(style).into());
            }
            TextRole::Name(NameKind::Model, _) => set("model"),
            TextRole::Name(kind, Role::Read) => {
                set("reference");
                form.insert("x-names".into(), kind.describe().into());
            }
            TextRole::Name(..) => set("name"),
            _ if key == "source_code" => {
                set("code");
                form.insert("x-language".into(), "python".into());
            }
            _ if SCHEMA_KEYS.contains(&key) => set("schema"),
            _ if JSON_KEYS.contains(&key) => set("json"),
            _ if LONG_KEYS.contains(&key) => set("long"),
            _ => {}
        }
        if LONG_KEYS.contains(&key) {
            form.insert("x-long".into(), true.into());
        }
    }
}

/// Whether a place holds other values and no text.
fn is_compound(place: &[&str], key: &str) -> bool {
    matches!(key, "variables" | "headers" | "formData") || (place.len() == 5 && key == "*")
}

/// A type that may also be null is that type.
fn simplify_type(form: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = form.get("type") else { return };
    let is_nullable = types.iter().any(|one| one == "null");
    let others: Vec<Value> = types.iter().filter(|one| *one != "null").cloned().collect();
    match <[Value; 1]>::try_from(others) {
        Ok([only]) => form.insert("type".into(), only),
        Err(_) => form.remove("type"),
    };
    if is_nullable {
        form.insert("nullable".into(), true.into());
    }
}

/// How references are written, for the program that inserts them.
pub fn style_name(style: TemplateStyle) -> &'static str {
    match style {
        TemplateStyle::DollarBraces => "${}",
        TemplateStyle::DoubleBraces => "{{}}",
        TemplateStyle::Braces => "{}",
    }
}

/// The form of a node of a pipeline: that of nodes, with the inputs that its block declares.
pub fn add_block_inputs(form: &mut Value, block: &Data) {
    let Some(inputs) = form.pointer_mut("/properties/inputs").and_then(Value::as_object_mut) else { return };
    let schema = block.get("input_schema").map(|schema| json!(schema)).unwrap_or_default();
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let mut own = Map::new();
    for (name, property) in properties {
        let mut field = property.as_object().cloned().unwrap_or_default();
        field.remove("properties");
        field.remove("items");
        let is_text = field.get("type").is_none_or(|one| one == "string") && field.get("enum").is_none();
        if is_text {
            field.insert("x-long".into(), true.into());
        }
        field.insert("x-widget".into(), "template".into());
        field.insert("x-references".into(), "{{}}".into());
        own.insert(name.clone(), field.into());
    }
    inputs.insert("properties".into(), own.into());
    if let Some(required) = schema.get("required") {
        inputs.insert("required".into(), required.clone());
    }
}
