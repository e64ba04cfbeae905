//! Validation of values against JSON Schemas.

use flowloom_core::schema_work::{check_schema_depth, check_schema_work};
use flowloom_core::value::Value;

/// Maximum number of validation errors reported for one value.
const MAX_VALIDATION_ERRORS: usize = 5;

/// The reasons why `value` does not match `schema`; `None` if it does. A missing or empty schema, or `true`, accepts
/// everything. A schema that is not valid accepts nothing: validation is never switched off in silence.
pub fn validation_errors(schema: &Value, value: &Value) -> Option<String> {
    if accepts_everything(schema) {
        return None;
    }
    match build_validator(schema) {
        Ok(validator) => validator.list_errors(value),
        Err(why) => Some(format!("the schema is not valid: {why}")),
    }
}

/// The same for the arguments of a tool. The schema may come from a server, which checks the arguments itself, so a schema
/// that is not valid accepts everything.
pub(crate) fn find_mismatches(schema: &Value, value: &Value) -> Option<String> {
    if accepts_everything(schema) {
        return None;
    }
    build_validator(schema).ok()?.list_errors(value)
}

fn accepts_everything(schema: &Value) -> bool {
    match schema {
        Value::Null | Value::Bool(true) => true,
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

/// A compiled schema.
struct Validator {
    schema: serde_json::Value,
    compiled: jsonschema::Validator,
}

impl Validator {
    fn list_errors(&self, value: &Value) -> Option<String> {
        let value = match serde_json::to_value(value) {
            Ok(value) => value,
            Err(error) => return Some(format!("the value cannot be compared with the schema: {error}")),
        };
        if let Err(too_complex) = check_schema_work(&self.schema, &value) {
            return Some(too_complex.to_string());
        }
        let errors = self.compiled.iter_errors(&value).take(MAX_VALIDATION_ERRORS);
        let problems: Vec<_> = errors
            .map(|error| match error.instance_path().to_string() {
                path if path.is_empty() => error.to_string(),
                path => format!("{path}: {error}"),
            })
            .collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

fn build_validator(schema: &Value) -> Result<Validator, String> {
    let schema = match serde_json::to_value(schema) {
        Ok(read @ (serde_json::Value::Object(_) | serde_json::Value::Bool(_))) => read,
        _ => return Err(format!("it is {}, not an object", schema.kind_name())),
    };
    check_schema_depth(&schema).map_err(|too_deep| too_deep.to_string())?;
    let compiled = jsonschema::validator_for(&schema).map_err(|error| error.to_string())?;
    Ok(Validator { schema, compiled })
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::parse_value;

    use super::*;

    /// Each link has two subschemas.
    const MAX_CHAIN: usize = 490;

    #[test]
    fn validation_is_never_switched_off() {
        let value = parse_value(r#"{"v":"a"}"#).expect("a value");
        let is_refused = |schema: &str| validation_errors(&parse_value(schema).expect("JSON"), &value).is_some();
        for schema in [
            "false",
            r##"{"properties":{"v":{"$ref":"#/$defs/none"}}}"##,
            r#"{"properties":{"v":{"type":"integr"}}}"#,
            r#"{"$ref":"http://localhost:1234/schema.json"}"#,
            r#""text""#,
        ] {
            assert!(is_refused(schema), "{schema}");
        }
        for schema in ["null", "true", "{}", r#"{"properties":{"v":{"type":"string"}}}"#] {
            assert!(!is_refused(schema), "{schema}");
        }
        let huge = parse_value("1e400").expect("a number");
        assert!(validation_errors(&parse_value(r#"{"type":"number"}"#).expect("JSON"), &huge).is_some());
    }
    #[test]
    fn a_schema_whose_references_branch_is_refused_at_once() {
        let definitions: Vec<String> = (0..60)
            .map(|at| format!(r##""d{at}":{{"anyOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, at + 1))
            .collect();
        let text =
            format!(r##"{{"$defs":{{{},"d60":{{"type":"number"}}}},"$ref":"#/$defs/d0"}}"##, definitions.join(","));
        let schema = parse_value(&text).expect("JSON");
        let problem = validation_errors(&schema, &"x".into()).expect("refused");
        assert!(problem.contains("too complex"), "{problem}");
        assert!(find_mismatches(&schema, &"x".into()).is_some());
        let itself = parse_value(r##"{"$ref":"#"}"##).expect("JSON");
        assert!(validation_errors(&itself, &"x".into()).is_some());
    }
    #[test]
    fn the_longest_chain_that_is_followed_fits_the_stack() {
        let chain: Vec<String> =
            (0..MAX_CHAIN).map(|at| format!(r##""d{at}":{{"allOf":[{{"$ref":"#/$defs/d{}"}}]}}"##, at + 1)).collect();
        let end = format!(r#""d{MAX_CHAIN}":{{"type":"number"}}"#);
        let text = format!(r##"{{"$defs":{{{},{end}}},"$ref":"#/$defs/d0"}}"##, chain.join(","));
        let problem = validation_errors(&parse_value(&text).expect("JSON"), &"x".into()).expect("refused");
        assert!(problem.contains("number"), "{problem}");
    }
}
