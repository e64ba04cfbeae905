//! Validation of blocks: inputs are coerced to their schema, outputs are checked against theirs.

use flowloom_core::block_inputs::coerce_value;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::Block;
use flowloom_core::render;
use flowloom_core::value::Value;

use crate::schema::validation_errors;

/// The inputs as the block's schema wants them: texts that hold a number become one, lists and objects become text
/// where text is wanted, and missing ones take their default. An input that is not required may be null, which is the value
/// of a reference to nothing; it counts as missing, and without a default the block receives the null.
pub(super) fn coerce_inputs(block: &Block, given: Value) -> Result<Value, StepFailure> {
    let Some(schema) = &block.input_schema else { return Ok(given) };
    let mut map = given.as_map().cloned().unwrap_or_default();
    let required = schema.get("required").and_then(Value::as_list).unwrap_or_default();
    let mut nulls = Vec::new();
    for (name, property) in schema.get("properties").and_then(Value::as_map).into_iter().flatten() {
        let is_optional_null = |value: &&Value| **value == Value::Null && !required.contains(&(&**name).into());
        if map.get(name).filter(is_optional_null).is_some() && validation_errors(property, &Value::Null).is_some() {
            map.shift_remove(name);
            nulls.push(name.clone());
        }
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
    let whole = Value::from(map.clone());
    if let Some(problems) = validation_errors(schema, &whole) {
        return Err(StepFailure::new(
            Code::BlockInput,
            format!("the inputs do not match the block's schema: {problems}"),
        ));
    }
    nulls.into_iter().for_each(|name| {
        map.entry(name).or_insert(Value::Null);
    });
    Ok(map.into())
}

/// The error in the output of a block that ran, if there is one.
pub(super) fn check_output(block: &Block, output: Option<&Value>) -> Option<StepFailure> {
    let nothing = Value::Null;
    let output = output.unwrap_or(&nothing);
    if let Some(field) = &block.failure
        && let Some(error) = output.get(field)
    {
        let message = match error {
            Value::String(text) if !text.is_empty() => text.to_string(),
            Value::Null | Value::String(_) => {
                format!("the output has the key {field}; leave it out if nothing is wrong")
            }
            other => render::to_json(other),
        };
        return Some(StepFailure::new(Code::BlockError, message));
    }
    let problems = validation_errors(block.output_schema.as_ref()?, output)?;
    Some(StepFailure::new(Code::BlockOutput, format!("the output does not match the block's schema: {problems}")))
}
