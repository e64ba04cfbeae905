//! Reads a block from a model's answer, and lists everything that is wrong with it before it runs.

use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline::{check_block, template};
use flowloom_runtime::schema::validation_errors;

use crate::event::names_value;
use crate::object::{find_object, text_of, texts_of};
use crate::required::{BLOCK_CATEGORIES, EXECUTION_TYPES, RequiredBlock, read_word, required_names, schema_errors};

/// Maximum size of a source or a prompt, in bytes.
const MAX_SOURCE_BYTES: usize = 64 * 1024;
/// Maximum number of examples that are stored and tried.
const MAX_EXAMPLES: usize = 3;

/// The definition of the block `id` in an answer, or all of its errors. Only known fields are taken; what the answer
/// leaves out is filled in from the required block.
pub(crate) fn read(text: &str, wanted: &RequiredBlock, id: &str) -> Result<Value, Vec<String>> {
    let Some(answer) = find_object(text, &["source_code", "python_source", "prompt_template"]) else {
        return Err(vec!["the answer has no JSON object".to_owned()]);
    };
    let mut problems = Vec::new();
    let source = get_code(&answer, "source_code").or_else(|| get_code(&answer, "python_source"));
    let prompt = get_code(&answer, "prompt_template");
    let defaults = if prompt.is_some() && source.is_none() { "llm" } else { wanted.execution_type.as_str() };
    let execution = read_word(&answer, "execution_type", &EXECUTION_TYPES, defaults, id, &mut problems);
    let is_llm = execution == "llm";
    let (code_key, code) = if is_llm { ("prompt_template", prompt) } else { ("source_code", source) };
    if code.as_ref().is_some_and(|code| code.len() > MAX_SOURCE_BYTES) {
        problems.push(format!("{code_key} is longer than {MAX_SOURCE_BYTES} bytes"));
    }
    let inputs = read_schema(&answer, "input_schema", &wanted.input_schema, &mut problems);
    let outputs = require_outputs(read_schema(&answer, "output_schema", &wanted.output_schema, &mut problems));
    let text = |key: &str, defaults: &str| Value::from(text_of(&answer, key).unwrap_or_else(|| defaults.to_owned()));
    let mut block = Map::from_iter([
        ("id".into(), Value::from(id)),
        ("name".into(), text("name", &id_to_title(id))),
        ("description".into(), text("description", &wanted.description)),
        (
            "category".into(),
            read_word(&answer, "category", &BLOCK_CATEGORIES, &wanted.category, id, &mut problems).into(),
        ),
        ("execution_type".into(), execution.into()),
        ("input_schema".into(), inputs.clone()),
        ("output_schema".into(), outputs),
    ]);
    if let Some(code) = code {
        block.insert(code_key.into(), code.into());
    }
    let created_by = [("created_by", Value::from("thinker")), ("tier", 2i64.into())];
    block.extend([
        ("use_when".into(), text_of(&answer, "use_when").map_or(Value::Null, Value::from)),
        ("tags".into(), names_value(texts_of(&answer, "tags").iter().map(String::as_str))),
        ("examples".into(), Value::list(read_examples(&answer, &inputs, &mut problems))),
        ("metadata".into(), Value::map(created_by)),
    ]);
    if is_llm {
        problems.extend(check_placeholders(&block, &inputs));
    }
    let block = Value::from(block);
    problems.extend(check_block(&block).into_iter().map(|found| found.message));
    if problems.is_empty() { Ok(block) } else { Err(problems) }
}

/// The reason that a model gives instead of a block.
pub(crate) fn read_refusal(text: &str) -> Option<String> {
    let answer = find_object(text, &["error", "source_code", "python_source", "prompt_template"])?;
    let has_block = ["source_code", "python_source", "prompt_template"].iter().any(|key| answer.contains_key(*key));
    text_of(&answer, "error").filter(|_| !has_block)
}

/// A text with its white space, which is significant; `None` if it is blank.
fn get_code(answer: &Map, key: &str) -> Option<String> {
    answer.get(key).and_then(Value::as_str).filter(|code| !code.trim().is_empty()).map(str::to_owned)
}

/// The id as a title: `count_words` becomes `Count Words`.
fn id_to_title(id: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>())
    };
    id.split(['_', '-']).filter_map(capital).collect::<Vec<_>>().join(" ")
}

/// The schema in the answer, or the required one. Fields that other blocks rely on must be present.
fn read_schema(answer: &Map, key: &str, wanted: &Option<Value>, problems: &mut Vec<String>) -> Value {
    let given = answer.get(key).filter(|schema| schema.as_map().is_some_and(|map| !map.is_empty()));
    let Some(schema) = given.or(wanted.as_ref()) else {
        problems.push(format!("it has no {key}"));
        return Value::Null;
    };
    let faults = schema_errors(schema, key);
    if let (Some(given), Some(wanted), []) = (given, wanted, faults.as_slice()) {
        problems.extend(schema_mismatches(given, wanted, key));
    }
    problems.extend(faults);
    schema.clone()
}

/// The differences from the required schema that other blocks would notice: an unknown required input, a missing
/// output, another type.
fn schema_mismatches(given: &Value, wanted: &Value, key: &str) -> Vec<String> {
    let none = Map::new();
    let fields = |schema: &'_ Value| schema.get("properties").and_then(Value::as_map).cloned();
    let (has, wanted_kinds) = (fields(given).unwrap_or_default(), fields(wanted).unwrap_or(none));
    let mut problems = Vec::new();
    if key == "input_schema" {
        let unknown = required_names(given).filter(|name| !wanted_kinds.contains_key(*name));
        problems.extend(unknown.map(|name| format!("{key} requires {name:?}, which was not asked for")));
    } else {
        let lost = wanted_kinds.keys().filter(|name| !has.contains_key(*name));
        problems.extend(lost.map(|name| format!("{key} has no {name:?}, which was asked for")));
    }
    for (name, kind) in &wanted_kinds {
        let other = has.get(name).and_then(|other| other.get("type"));
        if let (Some(wanted_kinds), Some(other)) = (kind.get("type"), other)
            && wanted_kinds != other
        {
            let (wanted_kinds, other) =
                (flowloom_core::render::to_json(wanted_kinds), flowloom_core::render::to_json(other));
            problems.push(format!("{key}: {name:?} has the type {other}; {wanted_kinds} was asked for"));
        }
    }
    problems
}

/// Makes an output schema require all its fields if it requires none. Otherwise a block without output would pass.
fn require_outputs(schema: Value) -> Value {
    let Some(map) = schema.as_map().filter(|_| required_names(&schema).next().is_none()) else { return schema };
    let fields = map.get("properties").and_then(Value::as_map).cloned().unwrap_or_default();
    let mut map = map.clone();
    map.insert("required".into(), names_value(fields.keys().map(|name| &**name)));
    map.into()
}

/// The examples of an answer; their inputs must match the input schema.
fn read_examples(answer: &Map, inputs: &Value, problems: &mut Vec<String>) -> Vec<Value> {
    let list = answer.get("examples").and_then(Value::as_list).unwrap_or_default();
    let mut accepted_fields = Vec::new();
    for (index, example) in list.iter().take(MAX_EXAMPLES).enumerate() {
        match example.get("inputs").filter(|inputs| inputs.as_map().is_some()) {
            None => problems.push(format!("example {} has no object \"inputs\"", index + 1)),
            Some(given) => {
                let wrong = validation_errors(inputs, given);
                problems.extend(wrong.map(|wrong| format!("the inputs of example {} do not fit: {wrong}", index + 1)));
                accepted_fields.push(example.clone());
            }
        }
    }
    accepted_fields
}

/// A prompt must use all required inputs, and only known ones.
fn check_placeholders(block: &Map, inputs: &Value) -> Vec<String> {
    let text = block.get("prompt_template").and_then(Value::as_str).unwrap_or_default();
    if text.is_empty() {
        return Vec::new();
    }
    let template = template::parse_prompt(text);
    let used: Vec<&str> = template.iter_refs().map(|found| found.source.trim_matches(['{', '}'])).collect();
    let known = |name: &str| inputs.get("properties").is_some_and(|fields| fields.get(name).is_some());
    let unknown =
        used.iter().filter(|name| !known(name)).map(|name| format!("{{{name}}} is not an input of the block"));
    let unused = required_names(inputs).filter(|name| !used.contains(name));
    unknown.chain(unused.map(|name| format!("the prompt does not use the input {{{name}}}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    const TEXT_SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
    const COUNT_SCHEMA: &str = r#"{"type":"object","properties":{"count":{"type":"integer"}}}"#;

    fn required_block() -> RequiredBlock {
        RequiredBlock {
            suggested_id: "count_words".into(),
            description: "Count words".into(),
            category: "process".into(),
            execution_type: "python".into(),
            input_schema: parse_value(TEXT_SCHEMA).ok(),
            output_schema: parse_value(COUNT_SCHEMA).ok(),
            ..RequiredBlock::default()
        }
    }

    fn read_errors(text: &str) -> String {
        read(text, &required_block(), "count_words").expect_err(text).join("; ")
    }

    #[test]
    fn what_the_answer_leaves_out_comes_from_what_is_wanted() {
        let text = r#"{"id":"other","python_source":"x","metadata":{"tier":0},"function_id":"shell::run"}"#;
        let block = read(text, &required_block(), "count_words").expect("valid");
        let field = |key: &str| block.get(key).cloned().unwrap_or_default();
        assert_eq!(field("id"), "count_words".into(), "nodes know it by the id that it was given");
        assert_eq!(field("name"), "Count Words".into());
        assert_eq!(field("description"), "Count words".into());
        assert_eq!(field("execution_type"), "python".into());
        assert_eq!(field("source_code"), "x".into());
        assert_eq!(field("function_id"), Value::Null, "only what can be tried");
        assert_eq!(field("metadata"), parse_value(r#"{"created_by":"thinker","tier":2}"#).unwrap());
        assert_eq!(block.get("output_schema").and_then(|schema| schema.get("required")), Some(&names_value(["count"])));
    }

    #[test]
    fn a_prompt_alone_is_an_llm_block() {
        let block = read(r#"{"prompt_template":"Count {text} as {\"json\"}"}"#, &required_block(), "b").expect("valid");
        assert_eq!(block.get("execution_type"), Some(&"llm".into()));
        assert!(read_errors(r#"{"prompt_template":"Count {txt}"}"#).contains("{txt} is not an input"));
        assert!(read_errors(r#"{"prompt_template":"Count"}"#).contains("does not use the input {text}"));
    }

    #[test]
    fn every_fault_is_reported() {
        assert!(read_errors("sorry").contains("no JSON object"));
        assert!(read_errors("{}").contains("source_code"));
        assert!(read_errors(r#"{"execution_type":"llm","source_code":"x"}"#).contains("prompt_template"));
        assert!(read_errors(r#"{"source_code":"x","execution_type":"function"}"#).contains("python, llm"));
        assert!(
            read_errors(r#"{"source_code":"x","category":"trigger"}"#).contains("trigger"),
            "it would never be tried"
        );
        assert!(read_errors(r#"{"source_code":"x","examples":[{}]}"#).contains("example 1"));
        assert!(
            read_errors(r#"{"source_code":"x","examples":[{"inputs":{"text":1}}]}"#).contains("example 1 do not fit")
        );
        assert!(
            read_errors(&format!(r#"{{"source_code":"{}"}}"#, "x".repeat(MAX_SOURCE_BYTES + 1))).contains("longer")
        );
        let nothing_wanted = RequiredBlock { input_schema: None, output_schema: None, ..required_block() };
        let why = read(r#"{"source_code":"x"}"#, &nothing_wanted, "b").expect_err("no schemas").join("; ");
        assert!(why.contains("no input_schema") && why.contains("no output_schema"), "{why}");
    }

    #[test]
    fn the_schemas_that_others_count_on_stay() {
        let inputs =
            r#"{"type":"object","properties":{"text":{"type":"array"},"n":{"type":"integer"}},"required":["n"]}"#;
        let why = read_errors(&format!(r#"{{"source_code":"x","input_schema":{inputs}}}"#));
        assert!(why.contains("requires \"n\"") && why.contains("\"array\""), "{why}");
        let why = read_errors(&format!(r#"{{"source_code":"x","output_schema":{TEXT_SCHEMA}}}"#));
        assert!(why.contains("has no \"count\""), "{why}");
        assert!(read_errors(r#"{"source_code":"x","output_schema":{"type":"objekt"}}"#).contains("not a JSON Schema"));
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(
            text in r#"(\{|\}|\[|\]|"source_code"|"prompt_template"|"examples"|"inputs"|"output_schema"|"\{text\}"|:|,|1| ){0,30}"#
        ) {
            let _ = read(&text, &required_block(), "b");
        }
    }
}
