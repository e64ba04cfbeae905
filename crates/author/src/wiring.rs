//! Reads a pipeline from a model's answer, and lists everything that is wrong with it: the errors of `check`, and more.

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Diagnostic;
use flowloom_core::expr::{Segment, TemplatePart};
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline::{PIPELINE_FILE, template};
use flowloom_formats::{Compiled, Sources, compile};

use crate::object::{find_object, text_of};
use crate::required::check_id;

/// Maximum size of a pipeline with its blocks, in bytes.
const MAX_DEFINITION_BYTES: u64 = 8 << 20;

/// Warnings of the check that a generated pipeline must not cause.
const REJECTED_WARNINGS: [Code; 3] = [Code::UnknownField, Code::UnknownNode, Code::MemoryKey];

/// A pipeline and the blocks that it uses as one self-contained definition.
pub(crate) fn build_definition(pipeline: &Value, blocks: &[Value]) -> Value {
    let used: Vec<&str> = pipeline_nodes(pipeline).filter_map(|node| get_text(node, "block_id")).collect();
    let is_used = |block: &&Value| get_text(block, "id").is_some_and(|id| used.contains(&id));
    let blocks = blocks.iter().filter(is_used).cloned().collect();
    Value::map([("pipeline", pipeline.clone()), ("blocks", Value::list(blocks))])
}

/// The pipeline in an answer, or all of its errors. It may use only `blocks`.
pub(crate) fn read(reply: &str, intent: &str, blocks: &[Value], sources: &Sources) -> Result<Value, Vec<String>> {
    let Some(answer) = find_object(reply, &["nodes"]) else {
        return Err(vec!["the answer has no JSON object".to_owned()]);
    };
    let pipeline = normalize_pipeline(&answer, intent);
    if pipeline_nodes(&pipeline).next().is_none() {
        return Err(vec!["the pipeline has no \"nodes\"; it needs at least one".to_owned()]);
    }
    let mut problems: Vec<String> = get_text(&pipeline, "id").and_then(check_id).into_iter().collect();
    problems.extend(unknown_blocks(&pipeline, blocks));
    problems.extend(check_references(&pipeline, intent, blocks));
    let found = compile_definition(&build_definition(&pipeline, blocks), sources).diagnostics;
    let is_refused = found.iter().any(|found| found.is_error() || REJECTED_WARNINGS.contains(&found.code));
    if problems.is_empty() && !is_refused {
        return Ok(pipeline);
    }
    problems.extend(found.into_iter().map(diagnostic_text));
    Err(problems)
}

/// The known fields of a pipeline, with defaults for missing ones.
fn normalize_pipeline(answer: &Map, intent: &str) -> Value {
    let text = |key: &str, defaults: &str| Value::from(text_of(answer, key).unwrap_or_else(|| defaults.to_owned()));
    let list = |key: &str| answer.get(key).filter(|list| !matches!(list, Value::Null)).cloned();
    let nodes = match list("nodes") {
        Some(Value::List(nodes)) => Value::list(nodes.iter().map(normalize_node).collect()),
        other => other.unwrap_or_default(),
    };
    let empty = || Value::list(Vec::new());
    Value::map([
        ("id", text("id", "pipeline_generated")),
        ("name", text("name", "Generated Pipeline")),
        ("user_prompt", text("user_prompt", intent)),
        ("nodes", nodes),
        ("edges", list("edges").unwrap_or_else(empty)),
        ("memory_keys", list("memory_keys").unwrap_or_else(empty)),
    ])
}

/// A node always has an inputs object, possibly empty.
fn normalize_node(node: &Value) -> Value {
    let Some(map) = node.as_map() else { return node.clone() };
    let known_fields = ["id", "block_id", "inputs"].into_iter().filter_map(|key| Some((key, map.get(key)?.clone())));
    let mut node: Map = known_fields.map(|(key, value)| (key.into(), value)).collect();
    node.entry("inputs".into()).or_insert_with(|| Map::new().into());
    node.into()
}

/// Compiles a definition as the engine does.
pub(crate) fn compile_definition(definition: &Value, sources: &Sources) -> Compiled {
    let files = [(PIPELINE_FILE.to_owned(), render::to_json(definition).into_bytes())].into();
    let sources = Sources { files, source_bytes: MAX_DEFINITION_BYTES, ..sources.clone() };
    compile(PIPELINE_FILE, &sources, Some(flowloom_formats::pipeline::FORMAT))
}

fn diagnostic_text(found: Diagnostic) -> String {
    match found.help {
        Some(help) => format!("{} ({help})", found.message),
        None => found.message,
    }
}

/// Reports nodes whose block is not available. Built-in blocks that the search did not consider do not count as
/// available.
fn unknown_blocks(pipeline: &Value, blocks: &[Value]) -> Vec<String> {
    let is_known = |id: &str| blocks.iter().any(|block| get_text(block, "id") == Some(id));
    let used = pipeline_nodes(pipeline).filter_map(|node| get_text(node, "block_id"));
    let unknown = used.filter(|id| !is_known(id));
    let known: Vec<&str> = blocks.iter().filter_map(|block| get_text(block, "id")).collect();
    unknown.map(|id| format!("{id:?} is not one of the blocks; they are {}", known.join(", "))).collect()
}

/// Reports references that go beyond a block's output schema, and secrets that the goal does not name.
fn check_references(pipeline: &Value, intent: &str, blocks: &[Value]) -> Vec<String> {
    let mut problems = Vec::new();
    for node in pipeline_nodes(pipeline) {
        let mut texts = Vec::new();
        collect_strings(node.get("inputs").unwrap_or(&Value::Null), &mut texts);
        for part in texts.iter().flat_map(|text| template::parse(text).parts) {
            match part {
                TemplatePart::Secret(name) if !intent.contains(&format!("{{{{secret.{name}}}}}")) => {
                    problems.push(format!("the secret {name} is used, which the goal does not name"));
                }
                TemplatePart::Ref(found) => {
                    let path: Vec<&str> = found.path.iter().filter_map(segment_key).collect();
                    let schema = output_schema(&found.name, pipeline, blocks);
                    if let Some(why) = schema.and_then(|schema| find_dead_end(schema, &path)) {
                        problems.push(format!("{}: {why}", found.source));
                    }
                }
                TemplatePart::Secret(_) | TemplatePart::Text(_) | TemplatePart::Expr(_) => {}
            }
        }
    }
    problems
}

fn segment_key(segment: &Segment) -> Option<&str> {
    match segment {
        Segment::Key(key) | Segment::Field(key) => Some(key),
        Segment::Index(_) => None,
    }
}

fn collect_strings<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::List(items) => items.iter().for_each(|item| collect_strings(item, out)),
        Value::Map(map) => map.values().for_each(|item| collect_strings(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Blob(_) => {}
    }
}

/// The output schema of a node's block.
fn output_schema<'a>(id: &str, pipeline: &Value, blocks: &'a [Value]) -> Option<&'a Value> {
    let node = pipeline_nodes(pipeline).find(|node| get_text(node, "id") == Some(id))?;
    let block = blocks.iter().find(|block| get_text(block, "id") == get_text(node, "block_id"))?;
    block.get("output_schema")
}

/// The reason why a path below the first field (which `check` covers) does not exist in the schema.
fn find_dead_end(schema: &Value, path: &[&str]) -> Option<String> {
    let mut schema = schema.get("properties")?.get(path.first()?)?;
    for (at, key) in path.iter().enumerate().skip(1) {
        let place = path[..at].join(".");
        let kind = get_text(schema, "type").unwrap_or_default();
        schema = match kind {
            "array" if key.parse::<usize>().is_err() => {
                return Some(format!("{place} is a list; expected a position in it, not {key:?}"));
            }
            "array" => schema.get("items")?,
            "string" | "number" | "integer" | "boolean" => {
                return Some(format!("{place} is of the type {kind} and has no {key:?}"));
            }
            _ => {
                let fields = schema.get("properties").and_then(Value::as_map).filter(|fields| !fields.is_empty())?;
                match fields.get(*key) {
                    Some(field) => field,
                    None if schema.get("additionalProperties").is_some_and(Value::is_truthy) => return None,
                    None => return Some(format!("{place} has no {key:?}")),
                }
            }
        };
    }
    None
}

fn pipeline_nodes(pipeline: &Value) -> impl Iterator<Item = &Value> {
    pipeline.get("nodes").and_then(Value::as_list).unwrap_or_default().iter()
}

fn get_text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::json::parse_value;

    fn make_block(id: &str, output: &str) -> Value {
        let input = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
        let output = format!(r#"{{"type":"object","properties":{output}}}"#);
        let text = format!(
            r#"{{"id":"{id}","source_code":"async def execute(inputs, context): ...","input_schema":{input},"output_schema":{output}}}"#
        );
        parse_value(&text).expect("JSON")
    }

    fn make_blocks() -> Vec<Value> {
        let rich = r#"{"list":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"}}}},
            "open":{"type":"object"},"free":{"type":"object","properties":{"a":{}},"additionalProperties":true}}"#;
        vec![make_block("plain", r#"{"text":{"type":"string"}}"#), make_block("rich", rich)]
    }

    fn read(nodes: &str) -> Result<Value, Vec<String>> {
        super::read(&format!(r#"{{"nodes":[{nodes}]}}"#), "do {{secret.OWN}}", &make_blocks(), &Sources::default())
    }

    fn read_errors(nodes: &str) -> String {
        read(nodes).expect_err(nodes).join("; ")
    }

    /// Two nodes; the second one refers to the first.
    fn pipeline_with_reference(reference: &str) -> String {
        let first = r#"{"id":"n1","block_id":"rich","inputs":{"text":"x"}}"#;
        format!(r#"{first},{{"id":"n2","block_id":"plain","inputs":{{"text":"{reference}"}}}}"#)
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let pipeline = read(r#"{"id":"n1","block_id":"plain","inputs":{"text":"x"},"why":"y"}"#).expect("valid");
        let expected = r#"{"id":"pipeline_generated","name":"Generated Pipeline","user_prompt":"do {{secret.OWN}}",
            "nodes":[{"id":"n1","block_id":"plain","inputs":{"text":"x"}}],"edges":[],"memory_keys":[]}"#;
        assert_eq!(pipeline, parse_value(expected).expect("JSON"));
        let used = build_definition(&pipeline, &make_blocks());
        assert_eq!(used.get("blocks"), Some(&Value::list(vec![make_blocks()[0].clone()])));
    }

    #[test]
    fn what_check_says_is_reported() {
        assert!(super::read("no", "", &make_blocks(), &Sources::default()).is_err());
        assert!(read_errors("").contains("at least one"));
        assert!(read_errors("3").contains("node"));
        assert!(read_errors(r#"{"id":"n1","block_id":"plain"}"#).contains("does not set \"text\""));
        assert!(read_errors(&pipeline_with_reference("{{n3.list}}")).contains("n3"));
        assert!(
            read_errors(&pipeline_with_reference("{{n1.lost}}")).contains("lost"),
            "a warning of check is enough to refuse"
        );
        assert!(read_errors(&pipeline_with_reference("{{n2.text}}")).contains("waits for itself"));
        let other_key =
            r#"{"memory_keys":["a"],"nodes":[{"id":"n1","block_id":"plain","inputs":{"text":"{{memory.b}}"}}]}"#;
        assert!(
            super::read(other_key, "", &make_blocks(), &Sources::default()).expect_err("no key")[0].contains("\"b\"")
        );
        let odd = r#"{"id":"../p","nodes":[{"id":"n1","block_id":"plain","inputs":{"text":"x"}}]}"#;
        assert!(super::read(odd, "", &make_blocks(), &Sources::default()).expect_err("a path")[0].contains("../p"));
    }

    #[test]
    fn only_blocks_that_were_candidates() {
        let other = r#"{"id":"n1","block_id":"memory_read","inputs":{"key":"x"}}"#;
        assert!(read_errors(other).contains("\"memory_read\" is not one of the blocks; they are plain, rich"));
        assert!(read_errors(r#"{"id":"n1","block_id":"nowhere","inputs":{}}"#).contains("nowhere"));
    }

    #[test]
    fn references_go_no_deeper_than_the_schema() {
        for good in ["list", "list.0.name", "open.any.thing", "free.b", "free.a.b"] {
            assert!(read(&pipeline_with_reference(&format!("{{{{n1.{good}}}}}"))).is_ok(), "{good}");
        }
        for (bad, why) in [("list.name", "position"), ("list.0.title", "has no \"title\""), ("list.0.name.x", "string")]
        {
            assert!(read_errors(&pipeline_with_reference(&format!("see {{{{n1.{bad}}}}}"))).contains(why), "{bad}");
        }
        assert!(read(&pipeline_with_reference("{{memory.topic}} {{user.name}}")).is_ok());
    }

    #[test]
    fn secrets_are_used_only_if_the_goal_names_them() {
        assert!(read_errors(&pipeline_with_reference("{{secret.OTHER}}")).contains("OTHER"));
        let own = read(&pipeline_with_reference("{{secret.OWN}}"));
        assert!(own.as_ref().err().is_none_or(|why| !why.join("").contains("goal")), "{own:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_answer_panics(
            text in r#"(\{|\}|\[|\]|"nodes"|"id"|"block_id"|"plain"|"rich"|"inputs"|"edges"|"text"|"\{\{n1\.list\.0\}\}"|"n1"|:|,){0,40}"#
        ) {
            let _ = super::read(&text, "", &make_blocks(), &Sources::default());
        }
    }
}
