//! Validates a block before it is stored: reports every problem, in the words of AgentFlow's schema of blocks.

use flowloom_core::value::Value;
use flowloom_formats::json_schema::{SchemaProblem, list_schema_problems};
use flowloom_formats::pipeline::check_block;

use crate::definitions::stored::is_definition_id;

const BLOCK_CATEGORIES: [&str; 5] = ["input", "process", "action", "memory", "trigger"];
const EXECUTION_TYPES: [&str; 3] = ["llm", "python", "function"];

/// Every problem of a block's definition, one sentence each; empty if the block can be stored.
pub(super) fn validate_block(block: &Value) -> Vec<String> {
    if block.as_map().is_none() {
        return vec![format!("a block is an object, not {}", block.kind_name())];
    }
    // The code or prompt of the block is checked with every pipeline that uses it.
    let mut problems: Vec<String> = check_block(block).into_iter().map(|problem| problem.message).collect();
    let id = block.get("id").and_then(Value::as_str).unwrap_or_default();
    if !id.is_empty() && !is_definition_id(id) {
        problems.push(format!("{id:?} is not a valid id; ids have up to 256 letters, digits and -_.:"));
    }
    let given = |key: &str| block.get(key).filter(|value| **value != Value::Null);
    let is_trigger = given("category").and_then(Value::as_str) == Some("trigger");
    for key in ["name", "description"] {
        match given(key) {
            None => problems.push(format!("{key:?} is missing")),
            Some(text) if text.as_str().is_none_or(|text| text.trim().is_empty()) => {
                problems.push(format!("{key:?} must be a string"));
            }
            Some(_) => {}
        }
    }
    problems.extend(check_one_of("category", given("category"), &BLOCK_CATEGORIES));
    // A trigger runs nothing, so its execution type is optional; an unknown text was reported above.
    let runs = given("execution_type").filter(|kind| kind.as_str().is_none());
    if runs.is_some() || given("execution_type").is_none() && !is_trigger {
        problems.extend(check_one_of("execution_type", runs, &EXECUTION_TYPES));
    }
    for key in ["input_schema", "output_schema"] {
        problems.extend(check_schema(key, given(key)));
    }
    if given("use_when").is_some_and(|value| value.as_str().is_none()) {
        problems.push("\"use_when\" must be a string".to_owned());
    }
    let texts = |value: &Value| value.as_list().is_some_and(|list| list.iter().all(|one| one.as_str().is_some()));
    if given("tags").is_some_and(|tags| !texts(tags)) {
        problems.push("\"tags\" must be a list of strings".to_owned());
    }
    problems.extend(check_examples(given("examples")));
    if given("metadata").is_some_and(|value| value.as_map().is_none()) {
        problems.push("\"metadata\" must be an object".to_owned());
    }
    problems
}

fn check_one_of(key: &str, given: Option<&Value>, known: &[&str]) -> Option<String> {
    let is_known = given.and_then(Value::as_str).is_some_and(|text| known.contains(&text));
    let known = known.join(", ");
    (!is_known).then(|| match given {
        None => format!("{key:?} is missing; it is one of {known}"),
        Some(_) => format!("{key:?} must be one of {known}"),
    })
}

/// Checks a schema of inputs or outputs. Both are objects, so the schema must describe one.
fn check_schema(key: &str, given: Option<&Value>) -> Vec<String> {
    let Some(schema) = given else {
        return vec![format!("{key:?} is missing; it is a JSON Schema with the type \"object\"")];
    };
    if schema.as_map().is_none() {
        return vec![format!("{key:?} must be a JSON Schema: an object")];
    }
    if schema.get("type").is_some_and(|kind| kind.as_str() != Some("object")) {
        return vec![format!("{key:?} must have the type \"object\"")];
    }
    let describe = |why: SchemaProblem| format!("{key:?} is not a valid JSON Schema: {why}");
    list_schema_problems(schema).into_iter().map(describe).collect()
}

fn check_examples(given: Option<&Value>) -> Vec<String> {
    let Some(given) = given else { return Vec::new() };
    let Some(list) = given.as_list() else { return vec!["\"examples\" must be a list".to_owned()] };
    let is_object = |example: &Value, key: &str| example.get(key).is_some_and(|value| value.as_map().is_some());
    let wrong = list.iter().enumerate().filter(|(_, one)| !(is_object(one, "inputs") && is_object(one, "outputs")));
    wrong.map(|(index, _)| format!("example {} must have the objects \"inputs\" and \"outputs\"", index + 1)).collect()
}

#[cfg(test)]
mod tests {
    use flowloom_core::json::parse_value;

    use super::*;

    #[test]
    fn everything_is_reported_at_once() {
        let wrong = r#"{"id": "a b", "name": " ", "description": 1, "category": "other", "execution_type": 7,
            "input_schema": {"type": "array"}, "output_schema": {"type": "object", "properties": {"a": {"type": "text"}}},
            "use_when": [], "tags": [1], "examples": [{"inputs": {}}], "metadata": "x"}"#;
        let problems = validate_block(&parse_value(wrong).unwrap());
        let parts = [
            "source_code",
            "is not a valid id",
            "\"name\"",
            "\"description\"",
            "\"category\"",
            "\"execution_type\"",
            "\"input_schema\" must have the type",
            "\"output_schema\" is not a valid JSON Schema",
            "\"use_when\"",
            "\"tags\"",
            "example 1",
            "\"metadata\"",
        ];
        assert_eq!(problems.len(), parts.len(), "{problems:#?}");
        for (problems, part) in problems.iter().zip(parts) {
            assert!(problems.contains(part), "{problems} has no {part}");
        }
        assert_eq!(validate_block(&Value::from("x")), ["a block is an object, not text"]);
    }

    #[test]
    fn what_is_built_in_and_a_trigger_can_be_kept() {
        for block in flowloom_formats::pipeline::built_in_blocks() {
            assert_eq!(validate_block(block), Vec::<String>::new());
            assert!(block.get("examples").and_then(Value::as_list).is_some_and(|list| !list.is_empty()));
        }
        let trigger = r#"{"id": "daily", "name": "Daily", "description": "d", "category": "trigger",
            "input_schema": {}, "output_schema": {}}"#;
        assert_eq!(validate_block(&parse_value(trigger).unwrap()), Vec::<String>::new());
    }
}
