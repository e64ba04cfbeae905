//! Fits an answer to its schema before it is validated, as the libraries do with which schemas are written: a missing
//! field gets its default, fields that a closed object does not have are left out, and values are converted.

use std::collections::HashMap;

use flowloom_core::expr::js::{CONVERSIONS_KEY, STRICT_CONVERSION, apply_conversions, find_catch, reveal_checks};
use flowloom_core::value::{Map, Value};
use flowloom_runtime::schema::CompiledSchema;

/// The answer, fitted to its schema.
pub(crate) fn fit_answer(value: Value, schema: &Value) -> Value {
    AnswerFitter::default().fit_value(value, schema)
}

/// Fits the values of one answer.
#[derive(Default)]
struct AnswerFitter {
    /// The compiled alternatives, by the address of their schema, which does not move; `None` if it is not valid.
    compiled: HashMap<*const Value, Option<CompiledSchema>>,
}

impl AnswerFitter {
    fn fit_value(&mut self, value: Value, schema: &Value) -> Value {
        let fitted = self.fit_parts(value, schema);
        match find_catch(schema) {
            Some(caught) if !self.is_accepted(&fitted, schema) => caught.clone(),
            _ => fitted,
        }
    }

    /// The value with its parts fitted to their schemas.
    fn fit_parts(&mut self, value: Value, schema: &Value) -> Value {
        if let Some(fitted) = self.fit_alternative(&value, schema) {
            return fitted;
        }
        match value {
            Value::Map(map) => self.fit_object(&map, schema),
            Value::List(items) => {
                let positions = schema.get("prefixItems").and_then(Value::as_list).unwrap_or_default();
                let rest = schema.get("items");
                let fit = |(index, item): (usize, &Value)| match positions.get(index).or(rest) {
                    Some(schema) => self.fit_value(item.clone(), schema),
                    None => item.clone(),
                };
                Value::list(items.iter().enumerate().map(fit).collect())
            }
            other => apply_conversions(other, schema),
        }
    }

    /// The value, fitted to the first alternative that then accepts it. If none does, but there is only one other than
    /// `null`, it is fitted to that one, so that the validation reports the errors there.
    fn fit_alternative(&mut self, value: &Value, schema: &Value) -> Option<Value> {
        let alternatives = schema.get("anyOf").and_then(Value::as_list)?;
        let is_null = |schema: &&Value| schema.get("type").and_then(Value::as_str) == Some("null");
        if *value == Value::Null && alternatives.iter().any(|schema| is_null(&schema)) {
            return Some(Value::Null);
        }
        // Each alternative is tried once: they may be nested.
        let mut refused = Vec::new();
        for alternative in alternatives.iter().filter(|schema| !is_null(schema)) {
            let fitted = self.fit_value(value.clone(), alternative);
            if self.is_accepted(&fitted, alternative) {
                return Some(fitted);
            }
            refused.push(fitted);
        }
        refused.pop().filter(|_| refused.is_empty())
    }

    fn is_accepted(&mut self, value: &Value, schema: &Value) -> bool {
        let compile = || CompiledSchema::compile_schema(to_json(&reveal_checks(schema))).ok();
        let compiled = self.compiled.entry(std::ptr::from_ref(schema)).or_insert_with(compile);
        compiled.as_ref().is_some_and(|compiled| compiled.is_match(&to_json(value)))
    }

    fn fit_object(&mut self, given: &Map, schema: &Value) -> Value {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Value::as_map).unwrap_or(&none);
        let rest = schema.get("additionalProperties");
        let has_patterns = schema.get("patternProperties").is_some();
        let is_closed = rest.and_then(Value::as_bool) == Some(false) && !has_patterns && !is_strict(schema);
        let mut fitted = Map::new();
        for (name, value) in given {
            match properties.get(name).or(rest.filter(|rest| rest.as_map().is_some() && !has_patterns)) {
                Some(schema) => drop(fitted.insert(name.clone(), self.fit_value(value.clone(), schema))),
                None if is_closed => {}
                None => drop(fitted.insert(name.clone(), value.clone())),
            }
        }
        for (name, property) in properties.iter().filter(|(name, _)| !given.contains_key(&**name)) {
            if let Some(default) = property.get("default").or_else(|| find_catch(property)) {
                // A default has defaults, too.
                fitted.insert(name.clone(), self.fit_value(default.clone(), property));
            }
        }
        fitted.into()
    }
}

/// Whether an object refuses fields that its schema does not have.
fn is_strict(schema: &Value) -> bool {
    let listed = schema.get(CONVERSIONS_KEY).and_then(Value::as_list).unwrap_or_default();
    listed.iter().any(|name| name.as_str() == Some(STRICT_CONVERSION))
}

fn to_json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::{parse_value, write_json};

    use super::*;

    #[test]
    fn defaults_are_added_and_unknown_fields_left_out() {
        let person = r#"{"type":"object","properties":{"n":{"type":"number"},"d":{"type":"number","default":7}},"additionalProperties":false}"#;
        let open = r#"{"type":"object","properties":{"n":{"type":"number"}}}"#;
        let b =
            r#"{"type":"object","properties":{"b":{"type":"number"}},"required":["b"],"additionalProperties":false}"#;
        let c = r#"{"type":"object","properties":{"c":{"type":"string","x-conversions":["trim"]}},"required":["c"],"additionalProperties":false}"#;
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
            (
                &format!(r#"{{"anyOf":[{{"type":"string"}},{{"type":"array","items":{person}}}]}}"#),
                r#"[{"n":1,"x":2}]"#,
                r#"[{"n":1,"d":7}]"#,
            ),
            (&format!(r#"{{"anyOf":[{b},{c}]}}"#), r#"{"b":1,"z":2}"#, r#"{"b":1}"#),
            (&format!(r#"{{"anyOf":[{b},{c}]}}"#), r#"{"c":" x ","b":"no"}"#, r#"{"c":"x"}"#),
            (&format!(r#"{{"anyOf":[{c},{{"type":"null"}}]}}"#), r#"{"c":5,"z":1}"#, r#"{"c":5}"#),
            (
                r#"{"anyOf":[{"type":"array","items":{"type":"string","x-conversions":["trim"]}},{"type":"null"}]}"#,
                r#"[" x "]"#,
                r#"["x"]"#,
            ),
            (
                r#"{"properties":{},"additionalProperties":false,"x-conversions":["strict"]}"#,
                r#"{"z":1}"#,
                r#"{"z":1}"#,
            ),
            (
                r#"{"items":{"type":"number","x-conversions":["number",{"catch":0}]}}"#,
                r#"["1","none",2,null]"#,
                "[1,0,2,0]",
            ),
            (
                r#"{"properties":{"a":{"enum":["x","y"],"x-conversions":[{"catch":"x"}]}}}"#,
                r#"{"a":"z"}"#,
                r#"{"a":"x"}"#,
            ),
            (r#"{"properties":{"a":{"type":"string","x-conversions":[{"catch":"?"}]}}}"#, "{}", r#"{"a":"?"}"#),
            (r#"{"items":{"anyOf":[{"x-conversions":["number"]},{"type":"null"}]}}"#, r#"["1",2,null]"#, "[1,2,null]"),
        ];
        for (schema, given, fitted) in cases {
            let (schema, given) = (parse_value(schema).expect("a schema"), parse_value(given).expect("a value"));
            assert_eq!(write_json(&fit_answer(given, &schema)), fitted);
        }
    }
}
