//! Structured answers: the schema is checked before the call and the answer after it. After an invalid answer the model
//! receives one correction.

use flowloom_core::chat::{Message, Role};
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_core::expr::js::{hide_conversions, reveal_checks};
use flowloom_core::{Map, Value, json};
use flowloom_runtime::schema::CompiledSchema;
use serde_json::Value as Json;

use crate::error::{ModelError, SchemaError};
use crate::fit::fit_answer;

/// Maximum length of an invalid answer in an error message, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// The field of an answer whose schema is not that of an object.
const WRAPPED_FIELD: &str = "answer";

/// A schema that answers are validated against.
pub(crate) struct Schema {
    compiled: CompiledSchema,
    schema: Value,
    /// The schema that the provider gets; `None` if none of its own kind describes the answer.
    requested: Option<Value>,
    is_wrapped: bool,
}

impl Schema {
    /// Compiles a schema; external references are not fetched.
    pub(crate) fn new(schema: &Value) -> Result<Schema, SchemaError> {
        let text = json::write_json(&reveal_checks(schema));
        let parsed: Json = serde_json::from_str(&text)?;
        if !matches!(parsed, Json::Object(_) | Json::Bool(_)) {
            return Err(SchemaError::NotAnObject { kind: schema.kind_name() });
        }
        let compiled = CompiledSchema::compile_schema(parsed)?;
        Ok(Schema { compiled, schema: schema.clone(), requested: Some(hide_conversions(schema)), is_wrapped: false })
    }

    /// The schema for a provider that only accepts schemas of objects: any other answer is a field of an object.
    pub(crate) fn wrap_answer(mut self) -> Schema {
        let is_object = self.schema.get("type").and_then(Value::as_str) == Some("object");
        let is_any = self.schema.as_map().is_some_and(Map::is_empty);
        self.is_wrapped = !is_object && !is_any;
        self.requested = match self.is_wrapped {
            true => self.requested.as_ref().map(wrap_schema),
            false => self.requested.filter(|_| !is_any),
        };
        self
    }

    /// The schema for a small model, which fills open objects with fields of its own: every object has only the fields
    /// that its schema names.
    pub(crate) fn close_schema(mut self) -> Schema {
        self.requested = self.requested.as_ref().map(close_objects);
        self
    }

    /// The request for an answer in this schema, with an instruction for providers without their own support for
    /// schemas.
    pub(crate) fn build_request(&self, request: &GenerateRequest) -> GenerateRequest {
        let text = json::write_json(self.requested.as_ref().unwrap_or(&self.schema));
        let instruction =
            format!("Answer with only JSON that matches this JSON Schema, without any other text:\n{text}");
        let mut request = GenerateRequest { schema: self.requested.clone(), ..request.clone() };
        request.messages.add_instructions(&instruction);
        request
    }

    /// The answer in a model's text.
    fn read_answer(&self, text: &str) -> Option<Value> {
        let is_text = self.schema.get("type").and_then(Value::as_str) == Some("string");
        let value = match json::read_lenient(text) {
            Some(value) => value,
            // A model that is asked for a text may leave out the quotation marks.
            None if is_text && !text.trim().is_empty() => text.trim().into(),
            None => return None,
        };
        let inner = value.get(WRAPPED_FIELD).filter(|_| self.is_wrapped).cloned();
        Some(fit_answer(inner.unwrap_or(value), &self.schema))
    }

    /// The answer as compact JSON, or the validation errors.
    pub(crate) fn validate_answer(&self, answer: &GenerateReply) -> Result<String, String> {
        let text = answer.text.as_deref().unwrap_or_default();
        let value = self.read_answer(text).ok_or("it is not JSON")?;
        let compact = json::write_json(&value);
        let parsed: Json = serde_json::from_str(&compact).map_err(|error| error.to_string())?;
        match self.compiled.list_errors(&parsed) {
            None => Ok(compact),
            Some(problems) => Err(problems),
        }
    }
}

/// The schema with all its objects closed that name their fields.
fn close_objects(schema: &Value) -> Value {
    let closed = match schema {
        Value::List(items) => return Value::list(items.iter().map(close_objects).collect()),
        Value::Map(map) => map,
        other => return other.clone(),
    };
    let mut closed: Map = closed
        .iter()
        .map(|(key, value)| match &**key {
            "properties" | "$defs" | "definitions" => {
                let parts = value.as_map().into_iter().flatten();
                let parts = parts.map(|(name, part)| (name.clone(), close_objects(part)));
                (key.clone(), parts.collect::<Map>().into())
            }
            "items" | "prefixItems" | "anyOf" | "oneOf" => (key.clone(), close_objects(value)),
            _ => (key.clone(), value.clone()),
        })
        .collect();
    let is_open = !closed.contains_key("additionalProperties") && !closed.contains_key("patternProperties");
    if is_open && closed.get("properties").and_then(Value::as_map).is_some_and(|fields| !fields.is_empty()) {
        closed.insert("additionalProperties".into(), false.into());
    }
    closed.into()
}

/// The schema of an object with one field of this schema. References to its definitions stay valid.
fn wrap_schema(schema: &Value) -> Value {
    let mut field = schema.as_map().cloned().unwrap_or_default();
    let definitions: Map = ["$defs", "definitions"].iter().filter_map(|key| field.shift_remove_entry(*key)).collect();
    let mut wrapped = Map::from_iter([
        ("type".into(), "object".into()),
        ("properties".into(), Value::map([(WRAPPED_FIELD, field.into())])),
        ("required".into(), Value::list(vec![WRAPPED_FIELD.into()])),
        ("additionalProperties".into(), false.into()),
    ]);
    wrapped.extend(definitions);
    wrapped.into()
}

/// The request that repeats an invalid answer and asks for a correction.
pub(crate) fn repair_request(request: &GenerateRequest, answer: &GenerateReply, problem: &str) -> GenerateRequest {
    let mut request = request.clone();
    let wrong = answer.text.clone().filter(|text| !text.trim().is_empty());
    request.messages.push(Message::new(Role::Assistant, wrong.unwrap_or_else(|| "(nothing)".to_owned())));
    let instruction = format!(
        "That answer cannot be used: {problem}. Answer again with only the corrected JSON, without any other text."
    );
    request.messages.push(Message::new(Role::User, instruction));
    request
}

/// The error after the second invalid answer.
pub(crate) fn not_json_error(answer: &GenerateReply, problem: String) -> ModelError {
    let answer_start = answer.text.as_deref().unwrap_or_default().chars().take(MAX_SHOWN_CHARS).collect();
    ModelError::AnswerNotJson { problem, answer_start }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_schema(text: &str) -> Result<Schema, SchemaError> {
        Schema::new(&json::parse_value(text).unwrap())
    }

    fn text_answer(text: &str) -> GenerateReply {
        GenerateReply { text: Some(text.to_owned()), ..GenerateReply::default() }
    }

    const PERSON_SCHEMA: &str = r#"{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}"#;

    #[test]
    fn an_invalid_schema_is_reported_before_anyone_is_asked() {
        for text in [r#"{"type":"objekt"}"#, "[]", "3", r#"{"$ref":"http://example.invalid/schema"}"#] {
            assert!(new_schema(text).is_err(), "{text}");
        }
    }

    #[test]
    fn answers_are_found_in_text_and_checked() {
        let schema = new_schema(PERSON_SCHEMA).unwrap();
        assert_eq!(schema.validate_answer(&text_answer("Sure: {\"age\": 3} there")).unwrap(), "{\"age\":3}");
        assert!(schema.validate_answer(&text_answer("{\"age\":\"3\"}")).unwrap_err().contains("/age"));
        assert!(schema.validate_answer(&text_answer("three")).unwrap_err().contains("not JSON"));
        assert!(schema.validate_answer(&GenerateReply::default()).is_err());
    }

    #[test]
    fn other_answers_than_objects_are_fields_of_one() {
        let list = new_schema(r##"{"type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"integer"}}}"##);
        let list = list.unwrap().wrap_answer();
        let requested = json::write_json(list.requested.as_ref().unwrap());
        let expected = r##"{"type":"object","properties":{"answer":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["answer"],"additionalProperties":false,"$defs":{"n":{"type":"integer"}}}"##;
        assert_eq!(requested, expected);
        for text in [r#"{"answer":[1,2]}"#, "[1,2]"] {
            assert_eq!(list.validate_answer(&text_answer(text)).unwrap(), "[1,2]");
        }
        assert!(list.validate_answer(&text_answer(r#"{"answer":["a"]}"#)).is_err());
        let person = new_schema(PERSON_SCHEMA).unwrap().wrap_answer();
        assert_eq!(json::write_json(person.requested.as_ref().unwrap()), PERSON_SCHEMA);
        assert!(new_schema("{}").unwrap().wrap_answer().requested.is_none());
    }

    #[test]
    fn objects_that_name_their_fields_are_closed() {
        let schema = new_schema(r#"{"properties":{"a":{"items":{"properties":{"b":{}}}},"c":{"type":"object"}}}"#);
        let closed = json::write_json(schema.unwrap().close_schema().requested.as_ref().unwrap());
        let expected = r#"{"properties":{"a":{"items":{"properties":{"b":{}},"additionalProperties":false}},"c":{"type":"object"}},"additionalProperties":false}"#;
        assert_eq!(closed, expected);
    }

    #[test]
    fn a_text_needs_no_quotation_marks() {
        let choice = new_schema(r#"{"type":"string","enum":["y","n"]}"#).unwrap();
        assert_eq!(choice.validate_answer(&text_answer(" y\n")).unwrap(), "\"y\"");
        assert!(choice.validate_answer(&text_answer("maybe")).is_err());
    }
}
