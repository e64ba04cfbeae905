//! Validation of values against JSON Schemas.

use std::borrow::Cow;

use flowloom_core::schema_work::{PatternLimits, SchemaTooComplex, SchemaWork, measure_schema};
use flowloom_core::value::Value;
use jsonschema::{PatternOptions, Validator};

use crate::blocking::run_blocking;

/// Maximum number of validation errors reported for one value.
const MAX_VALIDATION_ERRORS: usize = 5;

/// The reasons why `value` does not match `schema`; `None` if it does. A missing or empty schema, or `true`, accepts
/// everything. A schema that is not valid accepts nothing: validation is never switched off in silence.
pub fn validation_errors(schema: &Value, value: &Value) -> Option<String> {
    if accepts_everything(schema) {
        return None;
    }
    match compile_value(schema) {
        Ok(schema) => list_value_errors(&schema, value),
        Err(why) => Some(format!("the schema is not valid: {why}")),
    }
}

/// Validates the arguments of a tool. The schema may come from a server, which checks the arguments itself, so a schema
/// that is not valid accepts everything.
pub(crate) fn find_mismatches(schema: &Value, value: &Value) -> Option<String> {
    if accepts_everything(schema) {
        return None;
    }
    list_value_errors(&compile_value(schema).ok()?, value)
}

fn accepts_everything(schema: &Value) -> bool {
    match schema {
        Value::Null | Value::Bool(true) => true,
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

/// A schema that values are held to. A value is refused if validating it would take too long.
pub struct CompiledSchema {
    schema: serde_json::Value,
    work: SchemaWork,
    validator: Validator,
}

/// Why a schema cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileSchemaError {
    /// Holding values to it could exhaust the stack.
    #[error(transparent)]
    TooComplex(#[from] SchemaTooComplex),
    /// A keyword is wrong, or refers to another document.
    #[error("{0}")]
    Invalid(#[source] Box<jsonschema::ValidationError<'static>>),
}

impl CompiledSchema {
    /// Compiles a schema. External references are not fetched. Fails if a keyword is invalid or refers to another
    /// document, or if the schema is too complex.
    pub fn compile_schema(schema: serde_json::Value) -> Result<CompiledSchema, CompileSchemaError> {
        let work = measure_schema(&schema)?;
        let validator = run_work(work.is_heavy(), || build_validator(&schema, work.pattern_limits()))?;
        Ok(CompiledSchema { schema, work, validator })
    }

    /// The first reasons why a value does not match; `None` if it does.
    pub fn list_errors(&self, value: &serde_json::Value) -> Option<String> {
        run_work(self.work.is_heavy(), || match self.choose_validator(value) {
            Ok(validator) => list_problems(&validator, value),
            Err(too_complex) => Some(too_complex.to_string()),
        })
    }

    /// Whether a value matches.
    pub fn is_match(&self, value: &serde_json::Value) -> bool {
        run_work(self.work.is_heavy(), || self.choose_validator(value).is_ok_and(|validator| validator.is_valid(value)))
    }

    /// The validator for a value: the fewer texts it holds to regular expressions, the longer each search may take. Fails if
    /// validating would take too long.
    fn choose_validator(&self, value: &serde_json::Value) -> Result<Cow<'_, Validator>, CompileSchemaError> {
        match self.work.check_value(&self.schema, value)? {
            None => Ok(Cow::Borrowed(&self.validator)),
            Some(limits) => build_validator(&self.schema, limits).map(Cow::Owned),
        }
    }
}

fn build_validator(schema: &serde_json::Value, limits: PatternLimits) -> Result<Validator, CompileSchemaError> {
    let patterns = PatternOptions::fancy_regex().size_limit(limits.compiled_bytes).backtrack_limit(limits.backtracks);
    let built = jsonschema::options().with_pattern_options(patterns).build(schema);
    built.map_err(|error| CompileSchemaError::Invalid(Box::new(error)))
}

fn list_problems(validator: &Validator, value: &serde_json::Value) -> Option<String> {
    let errors = validator.iter_errors(value).take(MAX_VALIDATION_ERRORS);
    let problems: Vec<_> = errors
        .map(|error| match error.instance_path().to_string() {
            path if path.is_empty() => error.to_string(),
            path => format!("{path}: {error}"),
        })
        .collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

/// Does work on this thread, but if it is heavy, not in the way of other tasks.
fn run_work<T: Send>(is_heavy: bool, work: impl FnOnce() -> T + Send) -> T {
    if is_heavy { run_blocking(work) } else { work() }
}

fn compile_value(schema: &Value) -> Result<CompiledSchema, String> {
    let schema = match serde_json::to_value(schema) {
        Ok(read @ (serde_json::Value::Object(_) | serde_json::Value::Bool(_))) => read,
        _ => return Err(format!("it is {}, not an object", schema.kind_name())),
    };
    CompiledSchema::compile_schema(schema).map_err(|error| error.to_string())
}

fn list_value_errors(schema: &CompiledSchema, value: &Value) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(value) => schema.list_errors(&value),
        Err(error) => Some(format!("the value cannot be compared with the schema: {error}")),
    }
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

    #[test]
    fn searches_that_backtrack_are_limited_together() {
        let texts = |count: usize, text: &str| Value::list(vec![Value::from(text); count]);
        let plain = parse_value(r#"{"items":{"pattern":"^[a-z]+$"}}"#).expect("JSON");
        assert_eq!(validation_errors(&plain, &texts(5_000, "word")), None);
        let ahead = parse_value(r#"{"items":{"pattern":"^(?!_)[a-z]+$"}}"#).expect("JSON");
        assert_eq!(validation_errors(&ahead, &texts(1_000, "word")), None);
        assert!(validation_errors(&ahead, &texts(3, "_word")).is_some());
        let problem = validation_errors(&ahead, &texts(1_001, "word")).expect("refused");
        assert!(problem.contains("more than 1000 texts"), "{problem}");
        // Each search alone would take until the limit of the library.
        let endless = r#"{"pattern":"^((a|a)+)(?!b)\\1$|0"}"#;
        let many = format!(r#"{{"anyOf":[{}]}}"#, vec![endless; 200].join(","));
        assert!(validation_errors(&parse_value(&many).expect("JSON"), &"a".repeat(40).as_str().into()).is_some());
    }

    #[test]
    fn expressions_are_limited_in_number_and_size() {
        let list = |pattern: &str, count: usize| {
            let all = vec![format!(r#"{{"pattern":"{pattern}"}}"#); count].join(",");
            validation_errors(&parse_value(&format!(r#"{{"anyOf":[{all}]}}"#)).expect("JSON"), &"x".into())
        };
        assert_eq!(list("x", 1_000), None);
        assert!(list("x", 1_001).expect("refused").contains("more than 1000 regular expressions"));
        assert!(list("(?:x{500}){500}", 1).is_some());
    }
}
