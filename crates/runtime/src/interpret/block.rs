//! Validation of blocks: inputs are coerced to their schema, outputs are checked against theirs.

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::Block;
use flowloom_core::render;
use flowloom_core::value::{Number, Value};

use crate::schema::validation_errors;

/// A double holds every integer below this exactly.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

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

fn coerce_value(value: &Value, property: &Value) -> Value {
    let wanted = property.get("type").and_then(Value::as_str).unwrap_or_default();
    match (wanted, value) {
        ("number", Value::String(text)) => match parse_python_number(text) {
            Some(number) => render::to_python_float(&number),
            None => value.clone(),
        },
        ("integer", Value::String(text)) => match parse_python_number(text).and_then(|number| to_integer(&number)) {
            Some(number) => Value::Number(number),
            None => value.clone(),
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

/// A number as Python's `float` reads it: with a sign, leading zeros, underscores between digits, or nothing before or after
/// the point. Not `nan` or `inf`, which are no JSON.
fn parse_python_number(text: &str) -> Option<Number> {
    let text = text.trim();
    let is_digit = |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    let mut underscores = text.match_indices('_').map(|(at, _)| at);
    if !underscores.all(|at| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1))) {
        return None;
    }
    let plain = text.replace('_', "");
    let (sign, rest) = match plain.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let end = rest.find(['e', 'E']).unwrap_or(rest.len());
    let (mantissa, exponent) = rest.split_at(end);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    Number::parse(&format!("{sign}{whole}{point}{fraction}{exponent}")).filter(|_| has_digits)
}

/// The number without a fraction; `None` if it has one.
fn to_integer(number: &Number) -> Option<Number> {
    let text = number.to_text();
    if text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(number.clone());
    }
    let value = number.as_f64();
    (value.fract() == 0.0 && value.abs() < MAX_EXACT_INTEGER).then(|| Number::from(value as i64))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_the_numbers_that_python_reads() {
        let coerce = |kind: &str, text: &str| coerce_value(&text.into(), &Value::map([("type", kind.into())]));
        let integers = [("4.0", "4"), ("1e2", "100"), ("007", "7"), ("+3", "3"), ("-0", "-0"), (" 1_000 ", "1000")];
        for (text, expected) in integers {
            assert_eq!(render::to_json(&coerce("integer", text)), expected, "{text}");
        }
        for (text, expected) in [(".5", "0.5"), ("5.", "5.0"), ("1_000", "1000.0"), ("-1E-2", "-0.01"), ("12", "12.0")]
        {
            assert_eq!(render::to_json(&coerce("number", text)), expected, "{text}");
        }
        for text in ["", ".", "1.5", "_1", "1_", "1__0", "0x10", "nan", "1e", "--1", "1 2", "é"] {
            assert_eq!(coerce("integer", text), text.into(), "{text}");
        }
    }
}
