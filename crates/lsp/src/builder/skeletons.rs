//! New parts and new definitions: complete, so that each compiles and runs as it is.

use flowloom_core::json::{Node, parse_value};
use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::{agent, flow, graph, markdown, pipeline, steps};

use super::edit::EditContext;
use super::kinds::{BLOCKS, NODES, STEPS, choose_key};
use super::names::TakenNames;
use crate::analysis::names::NameKind;

/// A kind of part that can be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartKind {
    /// The list that it belongs to.
    pub list: &'static str,
    /// Its name.
    pub name: String,
    /// A short description.
    pub meaning: String,
}

impl PartKind {
    pub(super) fn new(list: &'static str, name: impl Into<String>, meaning: impl Into<String>) -> PartKind {
        PartKind { list, name: name.into(), meaning: meaning.into() }
    }
}

const FLOW_KINDS: [(&str, &str); 4] = [
    ("llmInstruction", "Asks the model"),
    ("webScraping", "Reads a web page"),
    ("apiCall", "Sends a request to an address"),
    ("start", "Declares the variables that callers give"),
];

const STEPS_KINDS: [(&str, &str); 7] = [
    ("sequential", "Asks the model after the step before"),
    ("fanout", "Runs at the same time as the fan-out steps next to it"),
    ("collect", "Continues with the results of the fan-out steps before it"),
    ("conditional", "Runs only if the input contains a string"),
    ("loop", "Repeats until its output contains a string"),
    ("ask", "Asks a person and waits for the answer"),
    ("fetch", "Reads a web page"),
];

const NODE_KINDS: [(&str, &str); 3] = [
    ("AGENT", "An agent that answers or hands over"),
    ("TOOL_EXECUTOR", "Runs the tool calls of an agent"),
    ("HUMAN_HANDOFF", "Hands the conversation to a person"),
];

const BLOCK_KINDS: [(&str, &str); 2] =
    [("llm", "A new block that asks the model"), ("python", "A new block that runs Python code")];

/// The kinds of parts that a JSON format has, apart from the blocks that exist.
pub fn list_kinds(format: Format, has_own_blocks: bool) -> Vec<PartKind> {
    let kinds = |list: &'static str, kinds: &[(&str, &str)]| -> Vec<PartKind> {
        kinds.iter().map(|(name, meaning)| PartKind::new(list, *name, *meaning)).collect()
    };
    match format {
        flow::FORMAT => kinds(STEPS, &FLOW_KINDS),
        steps::FORMAT => kinds(STEPS, &STEPS_KINDS),
        pipeline::FORMAT if has_own_blocks => kinds(BLOCKS, &BLOCK_KINDS),
        graph::FORMAT => kinds(NODES, &NODE_KINDS),
        _ => Vec::new(),
    }
}

/// A value written as JSON here. Every caller gives valid JSON.
fn read(text: &str) -> Value {
    parse_value(text).unwrap_or_default()
}

fn text(value: &str) -> String {
    flowloom_core::json::write_json(&Value::from(value))
}

/// A new step of a flow.
pub(super) fn new_flow_step(kind: &str, context: &EditContext<'_>) -> Option<Value> {
    let taken = TakenNames::of_kind(&context.index, NameKind::Variable);
    let result = |name: &str| text(&taken.find_free(name, "_"));
    Some(read(&match kind {
        "llmInstruction" => format!(
            r#"{{"type": "llmInstruction", "config": {{"instruction": "Say hello in one sentence.", "resultVariable": {}}}}}"#,
            result("answer")
        ),
        "webScraping" => format!(
            r#"{{"type": "webScraping", "config": {{"url": "https://example.com", "captureAs": "text", "resultVariable": {}}}}}"#,
            result("page")
        ),
        "apiCall" => format!(
            r#"{{"type": "apiCall", "config": {{"url": "https://example.com", "method": "GET", "headers": [], "responseVariable": {}}}}}"#,
            result("response")
        ),
        "start" => {
            format!(r#"{{"type": "start", "config": {{"variables": [{{"name": {}, "value": ""}}]}}}}"#, result("topic"))
        }
        _ => return None,
    }))
}

/// A new step of a step list.
pub(super) fn new_list_step(kind: &str, list: Option<&Node>) -> Option<Value> {
    let taken = TakenNames::of_items(list, "name");
    let outputs = TakenNames::of_items(list, "outputVar");
    let (name, rest) = match kind {
        "sequential" => {
            ("answer", r#""functionId": "agent::chat", "promptTemplate": "{{input}}", "mode": "sequential""#)
        }
        "fanout" => ("part", r#""functionId": "agent::chat", "promptTemplate": "{{input}}", "mode": "fanout""#),
        "collect" => ("collect", r#""functionId": "agent::chat", "promptTemplate": "{{input}}", "mode": "collect""#),
        "conditional" => (
            "only_if",
            r#""functionId": "agent::chat", "promptTemplate": "{{input}}", "mode": "conditional", "condition": "yes""#,
        ),
        "loop" => (
            "repeat",
            r#""functionId": "agent::chat", "promptTemplate": "{{input}}", "mode": "loop", "maxIterations": 3, "until": "done""#,
        ),
        "ask" => ("ask", r#""functionId": "human::ask", "promptTemplate": "May this be sent?", "mode": "sequential""#),
        "fetch" => (
            "fetch",
            r#""functionId": "tool::web_fetch", "promptTemplate": "https://example.com", "mode": "sequential""#,
        ),
        _ => return None,
    };
    let (named, output) = (taken.find_free(name, "_"), outputs.find_free(name, "_"));
    Some(read(&format!(r#"{{"name": {}, {rest}, "errorMode": "fail", "outputVar": {}}}"#, text(&named), text(&output))))
}

/// A new node for a block of a pipeline. Inputs that it needs are there, and empty.
pub(super) fn new_pipeline_node(block_id: &str, block: Option<&Value>, list: Option<&Node>) -> Value {
    let id = TakenNames::of_items(list, "id").find_next("n");
    let schema = block.and_then(|block| block.get("input_schema"));
    let required = schema.and_then(|schema| schema.get("required")?.as_list()).unwrap_or_default();
    let default = |name: &str| {
        let field = schema.and_then(|schema| schema.get("properties")?.get(name));
        let value = field.and_then(|field| field.get("default").or_else(|| field.get("enum")?.as_list()?.first()));
        value.cloned().unwrap_or_else(|| "".into())
    };
    let inputs = required.iter().filter_map(Value::as_str).map(|name| (name, default(name)));
    Value::map([("id", Value::from(id)), ("block_id", block_id.into()), ("inputs", Value::map(inputs))])
}

/// A new block of a pipeline.
pub(super) fn new_block(kind: &str, list: Option<&Node>) -> Option<Value> {
    let taken = TakenNames::of_items(list, "id");
    Some(match kind {
        "llm" => read(&format!(
            r#"{{"id": {}, "name": "Ask the model", "description": "Answers a question.", "category": "process",
            "execution_type": "llm",
            "input_schema": {{"type": "object", "properties": {{"text": {{"type": "string"}}}}, "required": ["text"]}},
            "output_schema": {{"type": "object", "properties": {{"answer": {{"type": "string"}}}}, "required": ["answer"]}},
            "prompt_template": "Answer in one sentence: {{text}}"}}"#,
            text(&taken.find_free("ask_model", "_"))
        )),
        "python" => read(&format!(
            r#"{{"id": {}, "name": "Run code", "description": "Counts the words of a text.", "category": "process",
            "execution_type": "python",
            "input_schema": {{"type": "object", "properties": {{"text": {{"type": "string"}}}}, "required": ["text"]}},
            "output_schema": {{"type": "object", "properties": {{"words": {{"type": "integer"}}}}, "required": ["words"]}},
            "source_code": "def execute(inputs, context):\n    return {{\"words\": len(inputs[\"text\"].split())}}\n"}}"#,
            text(&taken.find_free("run_code", "_"))
        )),
        _ => return None,
    })
}

/// A new node of a graph.
pub(super) fn new_graph_node(kind: &str, list: Option<&Node>) -> Option<(Value, Option<Value>)> {
    let first = list.and_then(Node::items).and_then(<[Node]>::first);
    let key = |keys: [&'static str; 2]| choose_key(first, keys);
    let (ids, names) = (TakenNames::of_items(list, "id"), TakenNames::of_items(list, key(["nodeName", "node_name"])));
    let (stem, name) = match kind {
        "AGENT" => ("agent", "Assistant"),
        "TOOL_EXECUTOR" => ("tools", "tool_executor"),
        "HUMAN_HANDOFF" => ("person", "human_handoff"),
        _ => return None,
    };
    let id = ids.find_free(&format!("node-{stem}"), "-");
    let name = names.find_free(name, if kind == "AGENT" { " " } else { "_" });
    let agent = format!("{}-assistant", id.trim_start_matches("node-"));
    let is_agent = kind == "AGENT";
    let node = Value::map([
        ("id", Value::from(id)),
        (key(["nodeType", "node_type"]), kind.into()),
        (key(["nodeName", "node_name"]), name.as_str().into()),
        (key(["agentId", "agent_id"]), if is_agent { agent.as_str().into() } else { Value::Null }),
    ]);
    let record = is_agent.then(|| {
        Value::map([
            ("id", Value::from(agent.as_str())),
            ("name", name.as_str().into()),
            ("systemPrompt", "You are a helpful assistant. Answer in a few sentences.".into()),
            ("tools", Value::list(Vec::new())),
        ])
    });
    Some((node, record))
}

/// A new definition of a format: its text. `model` is the model of formats that name one in each step.
pub fn new_definition(format: Format, id: &str, model: &str) -> Option<String> {
    let name = text(id);
    Some(match format {
        markdown::FORMAT => {
            format!(
                "---\ntitle: {id}\n---\n\nSay hello in one sentence.\n\n<GenText as=\"answer\" model={} />\n",
                text(model)
            )
        }
        flow::FORMAT => lay_out(
            format,
            &format!(
                r#"{{"name": {name}, "description": "", "active": true, "steps": [
            {{"type": "llmInstruction", "config": {{"instruction": "Say hello in one sentence.", "resultVariable": "answer"}}}}]}}"#
            ),
        ),
        steps::FORMAT => lay_out(
            format,
            &format!(
                r#"{{"id": {name}, "name": {name}, "description": "", "steps": [{{"name": "answer", "functionId": "agent::chat",
            "promptTemplate": "{{{{input}}}}", "mode": "sequential", "errorMode": "fail", "outputVar": "answer"}}]}}"#
            ),
        ),
        pipeline::FORMAT => lay_out(
            format,
            &format!(
                r#"{{"pipeline": {{"id": {name}, "name": {name}, "user_prompt": "", "nodes": [
            {{"id": "n1", "block_id": "ask_model", "inputs": {{"text": "What is a workflow?"}}}}], "edges": []}},
            "blocks": [{}]}}"#,
                flowloom_core::json::write_json(&new_block("llm", None)?)
            ),
        ),
        graph::FORMAT => {
            let (node, agent) = new_graph_node("AGENT", None)?;
            let entry = node.get("id").cloned().unwrap_or_default();
            let write = |value: &Value| flowloom_core::json::write_json(value);
            lay_out(
                format,
                &format!(
                    r#"{{"workflow": {{"id": {name}, "name": {name}, "description": "", "isConversational": false,
                "entrypointNodeId": {}, "nodes": [{}], "edges": []}}, "agents": [{}]}}"#,
                    write(&entry),
                    write(&node),
                    write(&agent?)
                ),
            )
        }
        agent::FORMAT => lay_out(
            format,
            &format!(
                r#"{{"name": {name}, "description": "", "systemPrompt": "You are a helpful assistant.", "tools": []}}"#
            ),
        ),
        _ => return None,
    })
}

/// A text in the canonical layout of its format.
fn lay_out(format: Format, text: &str) -> String {
    flowloom_formats::format_source(format, "definition.json", text).unwrap_or_else(|_| text.to_owned())
}

/// The block of an id: of the document, of a file next to it, or built in.
pub(super) fn find_block(id: &str, context: &EditContext<'_>) -> Option<Value> {
    let is_meant = |block: &Value| block.get("id").and_then(Value::as_str) == Some(id);
    let own = context.tree.and_then(|tree| tree.get(BLOCKS)?.items()).unwrap_or_default();
    let own = own.iter().map(Node::to_value).find(is_meant);
    own.or_else(|| context.blocks.iter().find(|block| is_meant(block)).cloned())
        .or_else(|| pipeline::built_in_blocks().iter().find(|block| is_meant(block)).cloned())
}
