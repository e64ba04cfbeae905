//! Structured answers: the schema is checked before the call and the answer after it. After an invalid answer the model
//! is told once what is wrong.

use flowloom_core::chat::{Message, Role};
use flowloom_core::effect::{GenerateReply, GenerateRequest};
use flowloom_core::{Value, json};
use serde_json::Value as Json;

use crate::error::{ModelError, SchemaError};

/// Maximum number of validation errors reported to a model.
const MAX_VALIDATION_ERRORS: usize = 5;
/// Maximum length of an invalid answer in an error message, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// A schema that answers are validated against.
pub(crate) struct Schema {
    validator: jsonschema::Validator,
    text: String,
}

impl Schema {
    /// Compiles a schema; external references are not fetched.
    pub(crate) fn new(schema: &Value) -> Result<Schema, SchemaError> {
        let text = json::write_json(schema);
        let parsed: Json = serde_json::from_str(&text)?;
        if !matches!(parsed, Json::Object(_) | Json::Bool(_)) {
            return Err(SchemaError::NotAnObject { kind: schema.kind_name() });
        }
        let validator = jsonschema::validator_for(&parsed).map_err(|error| SchemaError::Invalid(Box::new(error)))?;
        Ok(Schema { validator, text })
    }

    /// Adds an instruction to answer with JSON, for providers without their own support for schemas.
    pub(crate) fn add_instruction(&self, request: &GenerateRequest) -> GenerateRequest {
        let instruction =
            format!("Answer with only JSON that matches this JSON Schema, without any other text:\n{}", self.text);
        let mut request = request.clone();
        request.messages.add_instructions(&instruction);
        request
    }

    /// The answer as compact JSON, or the validation errors.
    pub(crate) fn validate_answer(&self, answer: &GenerateReply) -> Result<String, String> {
        let text = answer.text.as_deref().unwrap_or_default();
        let value = json::read_lenient(text).ok_or("it is not JSON")?;
        let compact = json::write_json(&value);
        let parsed: Json = serde_json::from_str(&compact).map_err(|error| error.to_string())?;
        let complaints: Vec<String> = self
            .validator
            .iter_errors(&parsed)
            .take(MAX_VALIDATION_ERRORS)
            .map(|error| match error.instance_path().to_string() {
                path if path.is_empty() => error.to_string(),
                path => format!("{path}: {error}"),
            })
            .collect();
        if complaints.is_empty() { Ok(compact) } else { Err(complaints.join("; ")) }
    }
}

/// The request that repeats an invalid answer and asks for a correction.
pub(crate) fn repair_request(request: &GenerateRequest, answer: &GenerateReply, complaint: &str) -> GenerateRequest {
    let mut request = request.clone();
    let wrong = answer.text.clone().filter(|text| !text.trim().is_empty());
    request.messages.push(Message::new(Role::Assistant, wrong.unwrap_or_else(|| "(nothing)".to_owned())));
    let instruction = format!(
        "That answer cannot be used: {complaint}. Answer again with only the corrected JSON, without any other text."
    );
    request.messages.push(Message::new(Role::User, instruction));
    request
}

/// The error after the second invalid answer.
pub(crate) fn not_json_error(answer: &GenerateReply, complaint: String) -> ModelError {
    let answer_start = answer.text.as_deref().unwrap_or_default().chars().take(MAX_SHOWN_CHARS).collect();
    ModelError::AnswerNotJson { complaint, answer_start }
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
}
