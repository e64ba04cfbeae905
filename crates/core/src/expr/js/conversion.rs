//! Conversions of answers that a schema asks for, as `z.coerce.number()` and `z.string().trim()` do.

use super::convert::{Datum, to_number, to_text};
use crate::value::{Map, Value};

/// The keyword of a JSON Schema that lists the conversions of a value. They are applied in their order, before the value
/// is validated. Models do not see the keyword.
pub const CONVERSIONS_KEY: &str = "x-conversions";

/// Listed for an object that refuses fields which its schema does not have, instead of leaving them out.
pub const STRICT_CONVERSION: &str = "strict";

type Convert = fn(Value) -> Value;

/// The conversions by name.
const CONVERSIONS: [(&str, Convert); 6] = [
    ("trim", |value| convert_text(value, |text| text.trim().to_owned())),
    ("toLowerCase", |value| convert_text(value, str::to_lowercase)),
    ("toUpperCase", |value| convert_text(value, str::to_uppercase)),
    ("string", |value| to_text(&Datum::from_value(value)).into()),
    ("boolean", |value| value.is_truthy().into()),
    ("number", convert_to_number),
];

/// Whether there is a conversion of this name.
pub fn is_conversion(name: &str) -> bool {
    CONVERSIONS.iter().any(|(known, _)| *known == name)
}

/// The value after the conversions that its schema lists. Unknown ones are skipped.
pub fn apply_conversions(value: Value, schema: &Value) -> Value {
    let names = schema.as_map().map(list_conversions).unwrap_or_default();
    let find = |name: &Value| CONVERSIONS.iter().find(|(known, _)| name.as_str() == Some(known));
    names.iter().filter_map(find).fold(value, |value, (_, convert)| convert(value))
}

/// The conversions and checks that a schema lists.
fn list_conversions(schema: &Map) -> &[Value] {
    schema.get(CONVERSIONS_KEY).and_then(Value::as_list).unwrap_or_default()
}

/// Adds a conversion, by its name, or a check to those that a schema lists.
pub fn add_conversion(schema: &mut Map, added: Value) {
    let mut listed = list_conversions(schema).to_vec();
    listed.push(added);
    schema.insert(CONVERSIONS_KEY.into(), Value::list(listed));
}

/// Adds a pattern that only answers are checked against: models do not see it. It may replace one that they see.
pub fn add_check(schema: &mut Map, pattern: String, replaces: Option<&str>) {
    let replaced = replaces.map_or(Value::Null, Value::from);
    add_conversion(schema, Value::map([("pattern", Value::from(pattern)), ("replaces", replaced)]));
}

/// Adds the value that replaces one which does not match the schema. Models do not see it.
pub fn add_catch(schema: &mut Map, value: Value) {
    add_conversion(schema, Value::map([("catch", value)]));
}

/// Removes the value that replaces one which does not match the schema, and returns it.
pub fn remove_catch(schema: &mut Map) -> Option<Value> {
    let (caught, rest): (Vec<Value>, Vec<Value>) =
        list_conversions(schema).iter().cloned().partition(|listed| listed.get("catch").is_some());
    let caught = caught.first()?.get("catch").cloned();
    match rest.is_empty() {
        true => drop(schema.shift_remove(CONVERSIONS_KEY)),
        false => drop(schema.insert(CONVERSIONS_KEY.into(), Value::list(rest))),
    }
    caught
}

/// The value that replaces one which does not match the schema.
pub fn find_catch(schema: &Value) -> Option<&Value> {
    list_conversions(schema.as_map()?).iter().find_map(|listed| listed.get("catch"))
}

/// The schema that answers are checked against.
pub fn reveal_checks(schema: &Value) -> Value {
    let map = match schema {
        Value::List(items) => return Value::list(items.iter().map(reveal_checks).collect()),
        Value::Map(map) => map,
        other => return other.clone(),
    };
    let mut revealed: Map = map.iter().map(|(key, value)| (key.clone(), reveal_checks(value))).collect();
    for check in list_conversions(map).iter().filter(|listed| listed.get("pattern").is_some()) {
        let replaced = check.get("replaces").filter(|replaced| **replaced != Value::Null);
        let is_replaced = |schema: &Value| replaced.is_some() && schema.get("pattern") == replaced;
        let mut all = revealed.get("allOf").and_then(Value::as_list).unwrap_or_default().to_vec();
        all.retain(|schema| !is_replaced(schema));
        if replaced.is_some() && revealed.get("pattern") == replaced {
            revealed.shift_remove("pattern");
        }
        let pattern = check.get("pattern").cloned().unwrap_or_default();
        all.push(Value::map([("pattern", pattern)]));
        revealed.insert("allOf".into(), Value::list(all));
    }
    revealed.into()
}

/// The schema as models see it, without the conversions.
pub fn hide_conversions(schema: &Value) -> Value {
    match schema {
        Value::List(items) => Value::list(items.iter().map(hide_conversions).collect()),
        Value::Map(map) => {
            // A property may have the name of the keyword; its value is a schema, not a list.
            let is_shown = |key: &str, value: &Value| key != CONVERSIONS_KEY || value.as_list().is_none();
            let shown = map.iter().filter(|(key, value)| is_shown(key, value));
            shown.map(|(key, value)| (key.clone(), hide_conversions(value))).collect::<Map>().into()
        }
        other => other.clone(),
    }
}

fn convert_text(value: Value, convert: impl Fn(&str) -> String) -> Value {
    match &value {
        Value::String(text) => convert(text).into(),
        _ => value,
    }
}

/// The number of a value as `Number()` reads it. A value that is none stays, so that validation names it.
fn convert_to_number(value: Value) -> Value {
    if matches!(value, Value::Number(_)) {
        return value;
    }
    let number = to_number(&Datum::from_value(value.clone()));
    crate::value::Number::from_f64(number).map_or(value, Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{parse_value, write_json};

    #[test]
    fn models_do_not_see_conversions() {
        let schema = r#"{"properties":{"x-conversions":{"type":"string","x-conversions":["trim"]}}}"#;
        let shown = hide_conversions(&parse_value(schema).expect("a schema"));
        assert_eq!(write_json(&shown), r#"{"properties":{"x-conversions":{"type":"string"}}}"#);
    }

    #[test]
    fn values_are_converted_as_javascript_does() {
        let cases = [
            (r#"["trim","toLowerCase"]"#, r#""  Ab ""#, r#""ab""#),
            (r#"["toUpperCase"]"#, "7", "7"),
            (r#"["number"]"#, r#"" 12.50 ""#, "12.5"),
            (r#"["number"]"#, r#""twelve""#, r#""twelve""#),
            (r#"["number"]"#, "12345678901234567890", "12345678901234567890"),
            (r#"["number"]"#, "true", "1"),
            (r#"["boolean"]"#, r#""false""#, "true"),
            (r#"["boolean"]"#, r#""""#, "false"),
            (r#"["string","trim"]"#, "1.50", r#""1.5""#),
            ("[]", "1", "1"),
        ];
        for (names, value, converted) in cases {
            let schema = Value::map([(CONVERSIONS_KEY, parse_value(names).expect("a list"))]);
            let value = parse_value(value).expect("a value");
            assert_eq!(write_json(&apply_conversions(value, &schema)), converted, "{names}");
        }
    }
}
