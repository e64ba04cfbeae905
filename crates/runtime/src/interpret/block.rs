//! Validation of blocks: inputs are coerced to their schema, outputs are checked against theirs.

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::json;
use flowloom_core::plan::Block;
use flowloom_core::render;
use flowloom_core::value::Value;

use crate::schema::validation_errors;

/// The inputs as the block's schema wants them: texts that hold a number become one, lists and objects become text
/// where text is wanted, and missing ones take their default.
pub(super) fn coerce_inputs(block: &Block, given: Value) -> Result<Value, StepFailure> {
    let Some(schema) = &block.input_schema else { return Ok(given) };
    let mut map = given.as_map().cloned().unwrap_or_default();
    if let Some(properties) = schema.get("properties").and_then(Value::as_map) {
        for (name, property) in properties {
            match (map.get(name), property.get("default")) {
                (None, Some(default)) => {
                    map.insert(name.clone(), default.clone());
                }
                (Some(value), _) => {
                    let fitting = coerce_value(value, property);
                    map.insert(name.clone(), fitting);
                }
                (None, None) => {}
            }
        }
    }
    let whole = Value::from(map);
    match validation_errors(schema, &whole) {
        None => Ok(whole),
        Some(problems) => {
            Err(StepFailure::new(Code::BlockInput, format!("the inputs do not match the block's schema: {problems}")))
        }
    }
}

fn coerce_value(value: &Value, property: &Value) -> Value {
    let wanted = property.get("type").and_then(Value::as_str).unwrap_or_default();
    match (wanted, value) {
        // As Python's `float` and `int` parse it.
        ("number" | "integer", Value::String(text)) => match json::parse_value(text.trim()) {
            Ok(Value::Number(number)) if wanted == "number" => render::to_python_float(&number),
            Ok(number @ Value::Number(_)) => number,
            _ => value.clone(),
        },
        ("boolean", Value::String(text)) => match text.trim() {
            "true" | "True" => true.into(),
            "false" | "False" => false.into(),
            _ => value.clone(),
        },
        ("string", Value::List(_) | Value::Map(_)) => render::to_python_json(value).into(),
        ("string", Value::Number(number)) => number.to_text().into(),
        _ => value.clone(),
    }
}

/// The error in the output of a block that ran, if there is one.
pub(super) fn check_output(block: &Block, output: Option<&Value>) -> Option<StepFailure> {
    let nothing = Value::Null;
    let output = output.unwrap_or(&nothing);
    if let Some(field) = &block.failure
        && let Some(error) = output.get(field)
    {
        let message = match error {
            Value::String(text) => text.to_string(),
            other => render::to_json(other),
        };
        return Some(StepFailure::new(Code::BlockError, message));
    }
    let problems = validation_errors(block.output_schema.as_ref()?, output)?;
    Some(StepFailure::new(Code::BlockOutput, format!("the output does not match the block's schema: {problems}")))
}
