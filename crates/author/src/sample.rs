//! Generates sample inputs from a schema, for trials of a block.

use flowloom_core::value::{Map, Number, Value};
use flowloom_runtime::schema::validation_errors;

use crate::required::required_names;

/// Maximum nesting of generated values.
const MAX_SAMPLE_DEPTH: usize = 4;

/// Sample inputs that match a schema: one with all fields, and one with only the required fields. Empty if none can be
/// generated.
pub(crate) fn sample_inputs(schema: &Value) -> Vec<Value> {
    let all = sample_object(schema, MAX_SAMPLE_DEPTH, false);
    let least = sample_object(schema, MAX_SAMPLE_DEPTH, true);
    let mut samples = vec![all];
    if samples[0] != least {
        samples.push(least);
    }
    samples.retain(|sample| validation_errors(schema, sample).is_none());
    samples
}

/// Inputs that match a schema and differ from the other samples wherever the schema allows it; `None` if there are none.
pub(crate) fn sample_other_inputs(schema: &Value) -> Option<Value> {
    let other = vary_value(schema, &sample_object(schema, MAX_SAMPLE_DEPTH, false));
    (validation_errors(schema, &other).is_none() && !sample_inputs(schema).contains(&other)).then_some(other)
}

/// Another value for the same schema. What does not match there stays.
fn vary_value(schema: &Value, value: &Value) -> Value {
    let part = |key: &str| schema.get(key).unwrap_or(&Value::Null);
    let choices = schema.get("enum").and_then(Value::as_list).unwrap_or_default();
    let varied = match value {
        _ if !choices.is_empty() => choices.last().cloned().unwrap_or_default(),
        Value::String(_) => sample_text(schema, 1).into(),
        Value::Number(number) => Number::from_f64(number.as_f64() + 41.0).map_or(Value::Null, Value::Number),
        Value::Bool(given) => (!given).into(),
        Value::List(items) => {
            let first = items.first().cloned().unwrap_or_default();
            Value::list(vec![vary_value(part("items"), &first), first])
        }
        Value::Map(fields) => {
            let properties = part("properties");
            let vary = |name: &str, field: &Value| vary_value(properties.get(name).unwrap_or(&Value::Null), field);
            fields.iter().map(|(name, field)| (name.clone(), vary(name, field))).collect::<Map>().into()
        }
        other => other.clone(),
    };
    if validation_errors(schema, &varied).is_none() { varied } else { value.clone() }
}

fn sample_object(schema: &Value, depth: usize, only_required: bool) -> Value {
    let none = Map::new();
    let fields = schema.get("properties").and_then(Value::as_map).unwrap_or(&none);
    let is_wanted = |name: &str| !only_required || required_names(schema).any(|other| other == name);
    let fields = fields.iter().filter(|(name, _)| is_wanted(name));
    fields.map(|(name, field)| (name.clone(), sample_value(field, depth, only_required))).collect::<Map>().into()
}

fn sample_value(schema: &Value, depth: usize, only_required: bool) -> Value {
    if let Some(given) = schema.get("const").or_else(|| schema.get("default")) {
        return given.clone();
    }
    let first = |key: &str| schema.get(key).and_then(Value::as_list).and_then(<[Value]>::first);
    if let Some(first) = first("enum") {
        return first.clone();
    }
    if let (Some(choice), true) = (first("anyOf").or_else(|| first("oneOf")), depth > 0) {
        return sample_value(choice, depth - 1, only_required);
    }
    let kind = schema.get("type").and_then(Value::as_str).or_else(|| first("type")?.as_str());
    match kind.unwrap_or("string") {
        "integer" => sample_number(schema, 1.0),
        "number" => sample_number(schema, 1.5),
        "boolean" => true.into(),
        "array" => sample_list(schema, depth, only_required),
        "object" if depth > 0 => sample_object(schema, depth - 1, only_required),
        "object" => Map::new().into(),
        "null" => Value::Null,
        _ => sample_text(schema, 0).into(),
    }
}

fn sample_number(schema: &Value, defaults: f64) -> Value {
    let bound = |key: &str| match schema.get(key) {
        Some(Value::Number(number)) => Some(number.as_f64()),
        _ => None,
    };
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + 1.0));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - 1.0));
    let number = defaults.max(least.unwrap_or(defaults)).min(most.unwrap_or(f64::MAX));
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

fn sample_list(schema: &Value, depth: usize, only_required: bool) -> Value {
    let least = schema.get("minItems").and_then(Value::as_i64).unwrap_or(0).clamp(0, 10) as usize;
    let count = if depth == 0 { 0 } else { least.max(1) };
    let item = schema.get("items").map(|item| sample_value(item, depth.saturating_sub(1), only_required));
    Value::list(vec![item.unwrap_or_else(|| "item".into()); count])
}

/// A text that matches a schema. `variant` is 0, or 1 for a text that has nothing in common with it.
fn sample_text(schema: &Value, variant: usize) -> String {
    let texts = match schema.get("format").and_then(Value::as_str).unwrap_or_default() {
        "date" => ["2024-02-29", "1999-12-31"],
        "date-time" => ["2024-02-29T12:00:00Z", "1999-12-31T23:59:59Z"],
        "time" => ["12:00:00Z", "23:59:59Z"],
        "email" => ["someone@example.com", "nobody@example.org"],
        "uri" | "url" => ["https://example.com/", "https://example.org/23"],
        _ => ["some text", "Other words: 23 pairs, e.g. \u{201c}none\u{201d}."],
    };
    let bound = |key: &str| schema.get(key).and_then(Value::as_i64).map(|bound| bound.clamp(0, 1000) as usize);
    let mut text = texts[variant].to_owned();
    while text.len() < bound("minLength").unwrap_or(0) {
        text.push('x');
    }
    text.chars().take(bound("maxLength").unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    fn samples_text(fields: &str, required: &str) -> Vec<String> {
        let text = format!(r#"{{"type":"object","properties":{{{fields}}},"required":[{required}]}}"#);
        sample_inputs(&parse_value(&text).expect("JSON")).iter().map(flowloom_core::render::to_json).collect()
    }

    #[test]
    fn all_fields_and_those_that_must_be_given() {
        let fields = r#""text":{"type":"string","minLength":12},"n":{"type":"integer","minimum":5}"#;
        assert_eq!(
            samples_text(fields, r#""text""#),
            [r#"{"text":"some textxxx","n":5}"#, r#"{"text":"some textxxx"}"#]
        );
        assert_eq!(
            samples_text(r#""x":{"type":"number","maximum":1}"#, r#""x""#),
            [r#"{"x":1}"#],
            "once, if they are the same"
        );
        assert_eq!(samples_text("", ""), ["{}"]);
    }

    #[test]
    fn other_inputs_differ_wherever_they_can() {
        let fields = r#""text":{"type":"string"},"day":{"type":"string","format":"date"},"n":{"type":"integer","maximum":9},
            "kind":{"enum":["x","y"]},"list":{"type":"array","items":{"type":"number"}},"is":{"type":"boolean"}"#;
        let schema = parse_value(&format!(r#"{{"type":"object","properties":{{{fields}}}}}"#)).expect("JSON");
        let other = flowloom_core::render::to_json(&sample_other_inputs(&schema).expect("inputs"));
        let expected = r#"{"text":"Other words: 23 pairs, e.g. “none”.","day":"1999-12-31","n":1,"kind":"y","list":[42.5,1.5],"is":false}"#;
        assert_eq!(other, expected);
        assert_eq!(sample_other_inputs(&parse_value("{}").expect("JSON")), None);
    }

    #[test]
    fn every_kind_of_field_gets_a_value_that_fits() {
        let fields = r#""a":{"type":"array","items":{"type":"object","properties":{"u":{"type":"string","format":"uri"}}}},
            "b":{"type":["boolean","null"]},"c":{"enum":["x","y"]},"d":{"anyOf":[{"type":"null"},{"type":"string"}]},
            "e":{"const":7},"f":{"type":"string","default":"g"},"h":{"description":"anything"}"#;
        let expected =
            r#"{"a":[{"u":"https://example.com/"}],"b":true,"c":"x","d":null,"e":7,"f":"g","h":"some text"}"#;
        assert_eq!(samples_text(fields, "")[0], expected);
    }

    #[test]
    fn where_nothing_fits_there_is_nothing() {
        assert_eq!(samples_text(r#""a":{"type":"string","pattern":"^[0-9]{5}$"}"#, r#""a""#), [""; 0]);
        assert_eq!(samples_text(r#""a":{"type":"string","pattern":"^[0-9]{5}$"}"#, ""), ["{}"]);
    }

    proptest::proptest! {
        #[test]
        fn no_schema_panics(text in r#"(\{|\}|\[|\]|"type"|"properties"|"items"|"minItems"|"array"|"object"|:|,|-1|9e99){0,30}"#) {
            if let Some(schema) = flowloom_core::json::read_lenient(&text) {
                let _ = sample_inputs(&schema);
            }
        }
    }
}
