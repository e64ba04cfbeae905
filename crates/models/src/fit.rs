//! Fits an answer to its schema before it is validated, as the libraries do with which schemas are written: a missing
//! field gets its default, fields that a closed object does not have are left out, and values are converted.

use flowloom_core::expr::js::{CONVERSIONS_KEY, apply_conversions};
use flowloom_core::value::{Map, Value};

/// The answer, fitted to its schema.
pub(crate) fn fit_answer(value: Value, schema: &Value) -> Value {
    match value {
        Value::Map(map) => fit_object(&map, find_object_schema(schema)),
        Value::List(items) => {
            let positions = schema.get("prefixItems").and_then(Value::as_list).unwrap_or_default();
            let rest = schema.get("items");
            let fit = |(index, item): (usize, &Value)| match positions.get(index).or(rest) {
                Some(schema) => fit_answer(item.clone(), schema),
                None => item.clone(),
            };
            Value::list(items.iter().enumerate().map(fit).collect())
        }
        other => apply_conversions(other, find_conversions(schema)),
    }
}

/// The schema that lists the conversions of a value: the schema itself, or the alternative beside `null`.
fn find_conversions(schema: &Value) -> &Value {
    let alternatives = schema.get("anyOf").and_then(Value::as_list).unwrap_or_default();
    alternatives.iter().find(|schema| schema.get(CONVERSIONS_KEY).is_some()).unwrap_or(schema)
}

/// The schema of an object: the schema itself, or the only alternative that describes an object.
fn find_object_schema(schema: &Value) -> &Value {
    let alternatives = schema.get("anyOf").and_then(Value::as_list).unwrap_or_default();
    let mut objects = alternatives.iter().filter(|schema| schema.get("properties").is_some());
    match (objects.next(), objects.next()) {
        (Some(only), None) if schema.get("properties").is_none() => only,
        _ => schema,
    }
}

fn fit_object(given: &Map, schema: &Value) -> Value {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_map).unwrap_or(&none);
    let rest = schema.get("additionalProperties");
    let has_patterns = schema.get("patternProperties").is_some();
    let is_closed = rest.and_then(Value::as_bool) == Some(false) && !has_patterns;
    let mut fitted = Map::new();
    for (name, value) in given {
        match properties.get(name).or(rest.filter(|rest| rest.as_map().is_some() && !has_patterns)) {
            Some(schema) => drop(fitted.insert(name.clone(), fit_answer(value.clone(), schema))),
            None if is_closed => {}
            None => drop(fitted.insert(name.clone(), value.clone())),
        }
    }
    for (name, property) in properties {
        if let Some(default) = property.get("default").filter(|_| !fitted.contains_key(name)) {
            // A default has defaults, too.
            fitted.insert(name.clone(), fit_answer(default.clone(), property));
        }
    }
    fitted.into()
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::{parse_value, write_json};

    use super::*;

    #[test]
    fn defaults_are_added_and_unknown_fields_left_out() {
        let person = r#"{"type":"object","properties":{"n":{"type":"number"},"d":{"type":"number","default":7}},"additionalProperties":false}"#;
        let open = r#"{"type":"object","properties":{"n":{"type":"number"}}}"#;
        let map = format!(r#"{{"type":"object","additionalProperties":{person}}}"#);
        let cases = [
            (person, r#"{"n":1,"x":2}"#, r#"{"n":1,"d":7}"#),
            (person, r#"{"d":12345678901234567890}"#, r#"{"d":12345678901234567890}"#),
            (open, r#"{"n":1,"x":2}"#, r#"{"n":1,"x":2}"#),
            (&format!(r#"{{"type":"array","items":{person}}}"#), r#"[{"n":1}]"#, r#"[{"n":1,"d":7}]"#),
            (&format!(r#"{{"anyOf":[{person},{{"type":"null"}}]}}"#), "{}", r#"{"d":7}"#),
            (&map, r#"{"a":{"x":1}}"#, r#"{"a":{"d":7}}"#),
            ("{}", r#"{"a":1}"#, r#"{"a":1}"#),
            (r#"{"properties":{"o":{"properties":{"k":{"default":"q"}},"default":{}}}}"#, "{}", r#"{"o":{"k":"q"}}"#),
            (r#"{"properties":{"a":{"x-conversions":["trim"]}}}"#, r#"{"a":" b "}"#, r#"{"a":"b"}"#),
            (r#"{"items":{"anyOf":[{"x-conversions":["number"]},{"type":"null"}]}}"#, r#"["1",2]"#, "[1,2]"),
        ];
        for (schema, given, fitted) in cases {
            let (schema, given) = (parse_value(schema).expect("a schema"), parse_value(given).expect("a value"));
            assert_eq!(write_json(&fit_answer(given, &schema)), fitted);
        }
    }
}
