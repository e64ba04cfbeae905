//! The required blocks of a goal as the decomposition lists them, and the validation of that list.

use flowloom_core::value::{Map, Value};
use flowloom_formats::json_schema::find_schema_problem;
use serde::{Deserialize, Serialize};

use crate::object::{find_object, text_of, texts_of};

/// Maximum length of a block's id, in characters.
const MAX_ID_CHARS: usize = 64;
/// Maximum number of blocks of one workflow.
const MAX_BLOCKS: usize = 30;

/// Categories of blocks that can be written. Triggers are not among them: they run nothing that could be tried.
pub(crate) const BLOCK_CATEGORIES: [&str; 4] = ["input", "process", "action", "memory"];
/// Execution types of written blocks.
pub(crate) const EXECUTION_TYPES: [&str; 2] = ["python", "llm"];
/// Schema keywords that determine the type of a value.
const TYPE_KEYWORDS: [&str; 7] = ["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"];

/// Verbs that describe a block which acts on the outside world. Verbs that also describe computing are not among them.
const ACTING_VERBS: [&str; 14] = [
    "alert", "deliver", "dispatch", "e-mail", "email", "mail", "notify", "post", "publish", "push", "remind", "send",
    "tweet", "upload",
];

/// Whether a word is such a verb, in its base form or as `sends` and `pushes`.
fn is_acting_verb(word: &str) -> bool {
    let forms = [Some(word), word.strip_suffix('s'), word.strip_suffix("es")];
    forms.into_iter().flatten().any(|form| ACTING_VERBS.contains(&form)) || word == "notifies"
}

/// A required block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequiredBlock {
    /// The suggested id.
    pub suggested_id: String,
    /// The purpose of the block, in one sentence.
    pub description: String,
    /// The category.
    pub category: String,
    /// `python` or `llm`.
    pub execution_type: String,
    /// Blocks whose outputs it needs.
    pub depends_on: Vec<String>,
    /// JSON Schema of the inputs; `None` if only the id is known.
    pub input_schema: Option<Value>,
    /// JSON Schema of the output; `None` if only the id is known.
    pub output_schema: Option<Value>,
}

impl RequiredBlock {
    /// A block that is assumed to exist: only its id is known.
    pub(crate) fn from_id(id: String) -> RequiredBlock {
        let description = id.replace('_', " ");
        let (category, execution_type) = ("process".to_owned(), "python".to_owned());
        RequiredBlock { suggested_id: id, description, category, execution_type, ..RequiredBlock::default() }
    }

    /// Whether only the id is known.
    pub fn is_only_named(&self) -> bool {
        self.input_schema.is_none() && self.output_schema.is_none()
    }

    /// Why neither code nor a prompt can do what the block does: it acts on the outside world. A block that computes is
    /// never refused.
    pub(crate) fn find_outside_effect(&self) -> Option<String> {
        let first = self.description.split(|c: char| !c.is_alphanumeric() && c != '-').find(|word| !word.is_empty());
        let is_action = self.category == "action" || first.is_some_and(|word| is_acting_verb(&word.to_lowercase()));
        is_action.then(|| {
            "it acts on the outside world, and a written block cannot: its code runs in a sandbox, and its prompt only \
             writes a text; existing blocks that act are http_request, notify_push and memory_write, or store a block \
             that does it"
                .to_owned()
        })
    }

    /// A short description for a list.
    pub(crate) fn to_summary(&self) -> Value {
        Value::map([
            ("suggested_id", Value::from(self.suggested_id.as_str())),
            ("description", self.description.as_str().into()),
            ("execution_type", self.execution_type.as_str().into()),
        ])
    }

    /// The full description.
    pub fn to_definition(&self) -> Value {
        let mut map = self.to_summary().as_map().cloned().unwrap_or_default();
        map.insert("category".into(), self.category.as_str().into());
        map.insert("depends_on".into(), crate::event::names_value(self.depends_on.iter().map(String::as_str)));
        let schemas = [("input_schema", &self.input_schema), ("output_schema", &self.output_schema)];
        map.extend(schemas.into_iter().filter_map(|(key, schema)| Some((key.into(), schema.clone()?))));
        map.into()
    }
}

/// The required blocks in an answer, or all errors of the answer.
pub(crate) fn read(text: &str) -> Result<Vec<RequiredBlock>, Vec<String>> {
    let Some(map) = find_object(text, &["required_blocks"]) else {
        return Err(vec!["the answer has no JSON object".to_owned()]);
    };
    let Some(items) = map.get("required_blocks").and_then(Value::as_list) else {
        return Err(vec!["the answer has no list \"required_blocks\"".to_owned()]);
    };
    let mut problems = Vec::new();
    if items.is_empty() || items.len() > MAX_BLOCKS {
        problems.push(format!("required_blocks has {} blocks; it needs 1 to {MAX_BLOCKS}", items.len()));
    }
    let wanted: Vec<RequiredBlock> =
        items.iter().enumerate().map(|(index, item)| read_block(index, item, &mut problems)).collect();
    for (index, one) in wanted.iter().enumerate() {
        let id = &one.suggested_id;
        if wanted[..index].iter().any(|other| other.suggested_id == *id) {
            problems.push(format!("there are several blocks {id:?}"));
        }
        for needed in &one.depends_on {
            if needed == id || !wanted.iter().any(|other| other.suggested_id == *needed) {
                problems.push(format!("{id}: depends_on names {needed:?}, which is not another block of the list"));
            }
        }
    }
    if problems.is_empty() { Ok(wanted) } else { Err(problems) }
}

fn read_block(index: usize, item: &Value, problems: &mut Vec<String>) -> RequiredBlock {
    let Some(map) = item.as_map() else {
        problems.push(format!("block {} is {}, not an object", index + 1, item.kind_name()));
        return RequiredBlock::default();
    };
    if let (None, Some(id)) = (map.get("suggested_id"), text_of(map, "block_id")) {
        problems.extend(check_id(&id));
        return RequiredBlock::from_id(id);
    }
    let id = text_of(map, "suggested_id").unwrap_or_else(|| {
        problems.push(format!("block {} has no suggested_id", index + 1));
        format!("block_{}", index + 1)
    });
    problems.extend(check_id(&id));
    let description = text_of(map, "description").unwrap_or_else(|| {
        problems.push(format!("{id}: it has no description"));
        String::new()
    });
    RequiredBlock {
        category: read_word(map, "category", &BLOCK_CATEGORIES, "process", &id, problems),
        execution_type: read_word(map, "execution_type", &EXECUTION_TYPES, "python", &id, problems),
        depends_on: texts_of(map, "depends_on"),
        input_schema: read_schema(map, "input_schema", &id, problems),
        output_schema: read_schema(map, "output_schema", &id, problems),
        suggested_id: id,
        description,
    }
}

/// Checks an id, because ids become file names and parts of references.
pub(crate) fn check_id(id: &str) -> Option<String> {
    let is_word = id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let is_good = is_word && !id.is_empty() && id.len() <= MAX_ID_CHARS;
    (!is_good).then(|| format!("{id:?} is not a valid id: use up to {MAX_ID_CHARS} letters, digits and underscores"))
}

/// An optional field that must be one of `words`.
pub(crate) fn read_word(
    map: &Map,
    key: &str,
    words: &[&str],
    default: &str,
    id: &str,
    problems: &mut Vec<String>,
) -> String {
    let given = match map.get(key) {
        None | Some(Value::Null) => return default.to_owned(),
        Some(given) => given,
    };
    match given.as_str().filter(|given| words.contains(given)) {
        Some(given) => given.to_owned(),
        None => {
            let given = flowloom_core::render::to_json(given);
            problems.push(format!("{id}: {key} is {given}; it can be {}", words.join(", ")));
            default.to_owned()
        }
    }
}

fn read_schema(map: &Map, key: &str, id: &str, problems: &mut Vec<String>) -> Option<Value> {
    let schema = map.get(key).filter(|schema| !matches!(schema, Value::Null));
    match schema {
        None => problems.push(format!("{id}: it has no {key}")),
        Some(schema) => {
            problems.extend(schema_errors(schema, key).into_iter().map(|problem| format!("{id}: {problem}")))
        }
    }
    schema.cloned()
}

/// The reasons why a schema is not that of an object with typed fields. An output schema needs at least one field.
pub(crate) fn schema_errors(schema: &Value, key: &str) -> Vec<String> {
    if let Some(why) = find_schema_problem(schema) {
        return vec![format!("{key} is not a JSON Schema: {why}")];
    }
    let mut problems = Vec::new();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        problems.push(format!("{key} must have the type \"object\""));
    }
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_map).unwrap_or(&none);
    if key == "output_schema" && properties.is_empty() {
        problems.push(format!("{key} has no field in \"properties\", so the block would have no output"));
    }
    for (name, property) in properties {
        if !TYPE_KEYWORDS.iter().any(|word| property.get(word).is_some()) {
            problems.push(format!("{key}: the field {name:?} has no type"));
        }
    }
    for name in required_names(schema) {
        if !properties.contains_key(name) {
            problems.push(format!("{key}: {name:?} is required but is not in \"properties\""));
        }
    }
    problems
}

/// The names that a schema requires.
pub(crate) fn required_names(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_list(blocks: &str) -> Result<Vec<RequiredBlock>, Vec<String>> {
        read(&format!(r#"{{"required_blocks": [{blocks}]}}"#))
    }

    fn block_with(change: &str) -> String {
        let schema = r#"{"type":"object","properties":{"t":{"type":"string"}},"required":["t"]}"#;
        format!(r#"{{"suggested_id":"a","description":"d","input_schema":{schema},"output_schema":{schema}{change}}}"#)
    }

    fn read_errors(blocks: &str) -> String {
        read_list(blocks).expect_err("it is wrong").join("; ")
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let wanted = read_list(&block_with("")).expect("valid");
        assert_eq!((wanted[0].category.as_str(), wanted[0].execution_type.as_str()), ("process", "python"));
        assert!(!wanted[0].is_only_named());
    }

    #[test]
    fn a_block_can_be_named_only() {
        let wanted = read_list(r#"{"block_id":"web_scrape","reason":"r"}"#).expect("valid");
        assert!(wanted[0].is_only_named());
        assert_eq!((wanted[0].suggested_id.as_str(), wanted[0].description.as_str()), ("web_scrape", "web scrape"));
        assert!(read_errors(r#"{"block_id":"../x"}"#).contains("../x"));
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        assert!(read("sorry").is_err() && read("{}").is_err() && read(r#"{"required_blocks":{}}"#).is_err());
        assert!(read_errors("").contains("0 blocks"));
        assert!(read_errors("3").contains("not an object"));
        assert!(read_errors(&format!("{},{}", block_with(""), block_with(""))).contains("several blocks \"a\""));
        assert!(read_errors(&block_with(r#","depends_on":["b"]"#)).contains("\"b\""));
        assert!(read_errors(&block_with(r#","depends_on":["a"]"#)).contains("\"a\""));
        assert!(read_errors(&block_with(r#","execution_type":"function""#)).contains("python, llm"));
        assert!(read_errors(&block_with(r#","category":"trigger""#)).contains("trigger"));
        assert!(read_errors(&block_with(r#","suggested_id":"a/b""#)).contains("a/b"));
        let nothing = read_errors("{}");
        for word in ["suggested_id", "description", "input_schema", "output_schema"] {
            assert!(nothing.contains(word), "{nothing}");
        }
    }

    #[test]
    fn schemas_are_objects_with_typed_fields() {
        let fault = |schema: &str| {
            schema_errors(&flowloom_core::json::parse_value(schema).unwrap(), "output_schema").join("; ")
        };
        assert_eq!(fault(r#"{"type":"object","properties":{"a":{"enum":[1]}},"required":["a"]}"#), "");
        assert!(fault(r#"{"type":"objekt"}"#).contains("not a JSON Schema"));
        assert!(fault(r#"{"type":"array"}"#).contains("\"object\""));
        assert!(fault(r#"{"type":"object"}"#).contains("no field"));
        assert!(fault(r#"{"type":"object","properties":{"a":{}}}"#).contains("no type"));
        assert!(fault(r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}"#).contains("\"b\""));
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(text in r#"(\{|\}|\[|\]|"required_blocks"|"suggested_id"|"input_schema"|:|,|"a"|1|null| ){0,30}"#) {
            let _ = read(&text);
            let _ = read(&format!(r#"{{"required_blocks": [{{"suggested_id": {text}}}]}}"#));
        }
    }
}
