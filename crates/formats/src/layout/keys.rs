//! The order of keys in each format, as its schema and its page list them.
//!
//! Only the keys of the format are sorted. Free data (inputs, bodies, JSON Schemas, examples) keeps the order in which it
//! is written, because that order can reach a model or a server.

use flowloom_core::json::{Node, parse_node};
use flowloom_core::plan::Format;

use super::tree::{Item, Items, Value};
use crate::{agent, flow, graph, pipeline, steps};

/// The role of a value in its format.
pub(super) enum ValueShape {
    /// Data of the author.
    Free,
    /// An object with these keys, in this order. Others follow, in the order in which they are written.
    Record(&'static [(&'static str, &'static ValueShape)]),
    /// A list that is the body of a definition: each item starts on a line of its own.
    Rows(&'static ValueShape),
    /// Another list.
    List(&'static ValueShape),
}

use ValueShape::{Free, List, Record, Rows};

/// The shape of a definition in a format.
pub(super) fn shape_of(format: Format) -> &'static ValueShape {
    match format {
        flow::FORMAT => &FLOW_FILE,
        steps::FORMAT => &STEPS_FILE,
        pipeline::FORMAT => &PIPELINE_FILE,
        graph::FORMAT => &GRAPH_FILE,
        agent::FORMAT => &AGENT,
        _ => &Free,
    }
}

/// The shape of a file that is a part of definitions: a block in `blocks/`, or the record of an agent in `agents/NAME/`.
/// `None` if the file is neither, by its path or by its keys.
pub(super) fn shape_of_part(file: &str, tree: &Node) -> Option<&'static ValueShape> {
    let names: Vec<&str> = file.rsplit('/').take(3).collect();
    let (shape, keys): (_, &[&str]) = match names.as_slice() {
        [_, "blocks", ..] => (&BLOCK, &["execution_type"]),
        ["jsonSchema.json", _, "agents"] => (&AGENT, &["agentId", "id", "tools"]),
        _ => return None,
    };
    keys.iter().any(|key| tree.get(key).is_some()).then_some(shape)
}

impl ValueShape {
    /// The shape of the entry `key` of an object.
    pub(super) fn entry(&self, key: &str) -> &'static ValueShape {
        match self {
            Record(keys) => keys.iter().find(|(name, _)| *name == key).map_or(&Free, |(_, shape)| shape),
            Free | Rows(_) | List(_) => &Free,
        }
    }

    /// The shape of the items of a list.
    pub(super) fn item(&self) -> &'static ValueShape {
        match self {
            Rows(shape) | List(shape) => shape,
            Free | Record(_) => &Free,
        }
    }
}

/// Puts the keys of a value, and of everything in it, into the order of its shape.
pub(super) fn sort_keys(value: &mut Value<'_>, shape: &ValueShape) {
    match value {
        Value::Scalar(_) => {}
        Value::List(Items { items, .. }) => {
            items.iter_mut().for_each(|item| sort_keys(&mut item.value, shape.item()));
        }
        Value::Map(Items { items, .. }) => {
            if let Record(keys) = shape {
                let place = |item: &Item<'_>| {
                    let key = key_text(item);
                    keys.iter().position(|(name, _)| *name == key).unwrap_or(keys.len())
                };
                items.sort_by_cached_key(place);
            }
            for item in items {
                let shape = shape.entry(&key_text(item));
                sort_keys(&mut item.value, shape);
            }
        }
    }
}

/// The key of an entry, without quotes and escapes.
pub(super) fn key_text(item: &Item<'_>) -> String {
    let written = item.key.unwrap_or_default();
    let parsed = parse_node(written).ok();
    parsed.and_then(|(node, _)| node.as_str().map(str::to_owned)).unwrap_or_default()
}

static FLOW_FILE: ValueShape = Record(&[
    ("success", &Free),
    ("uuid", &Free),
    ("name", &Free),
    ("description", &Free),
    ("active", &Free),
    ("flow", &FLOW_REPLY),
    ("config", &FLOW),
    ("steps", &FLOW_STEPS),
]);
static FLOW_REPLY: ValueShape = Record(&[("uuid", &Free), ("name", &Free), ("config", &FLOW), ("steps", &FLOW_STEPS)]);
static FLOW: ValueShape =
    Record(&[("uuid", &Free), ("name", &Free), ("description", &Free), ("active", &Free), ("steps", &FLOW_STEPS)]);
static FLOW_STEPS: ValueShape =
    Rows(&Record(&[("id", &Free), ("type", &Free), ("name", &Free), ("config", &FLOW_CONFIG)]));
static FLOW_CONFIG: ValueShape = Record(&[
    ("variables", &Rows(&Record(&[("name", &Free), ("value", &Free), ("description", &Free)]))),
    ("url", &Free),
    ("method", &Free),
    ("headers", &List(&Record(&[("key", &Free), ("value", &Free)]))),
    ("bodyType", &Free),
    ("body", &Free),
    ("formData", &List(&Record(&[("key", &Free), ("value", &Free)]))),
    ("instruction", &Free),
    ("captureAs", &Free),
    ("querySelector", &Free),
    ("enableSummarization", &Free),
    ("resultVariable", &Free),
    ("responseVariable", &Free),
    ("directOutput", &Free),
]);

static STEPS_FILE: ValueShape = Record(&[
    ("workflow", &STEPS),
    ("definition", &STEPS),
    ("id", &Free),
    ("name", &Free),
    ("description", &Free),
    ("version", &Free),
    ("createdAt", &Free),
    ("agents", &Free),
    ("steps", &STEPS_ROWS),
]);
static STEPS: ValueShape = Record(&[
    ("id", &Free),
    ("name", &Free),
    ("description", &Free),
    ("version", &Free),
    ("createdAt", &Free),
    ("agents", &Free),
    ("steps", &STEPS_ROWS),
]);
static STEPS_ROWS: ValueShape = Rows(&Record(&[
    ("name", &Free),
    ("functionId", &Free),
    ("promptTemplate", &Free),
    ("mode", &Free),
    ("condition", &Free),
    ("maxIterations", &Free),
    ("until", &Free),
    ("timeoutMs", &Free),
    ("errorMode", &Free),
    ("maxRetries", &Free),
    ("outputVar", &Free),
]));

static PIPELINE_FILE: ValueShape = Record(&[
    ("pipeline", &PIPELINE),
    ("id", &Free),
    ("name", &Free),
    ("description", &Free),
    ("user_intent", &Free),
    ("user_prompt", &Free),
    ("trigger", &Free),
    ("trigger_type", &Free),
    ("nodes", &PIPELINE_NODES),
    ("edges", &PIPELINE_EDGES),
    ("memory_keys", &Free),
    ("status", &Free),
    ("created_at", &Free),
    ("metadata", &Free),
    ("blocks", &Rows(&BLOCK)),
]);
static PIPELINE: ValueShape = Record(&[
    ("id", &Free),
    ("name", &Free),
    ("description", &Free),
    ("user_intent", &Free),
    ("user_prompt", &Free),
    ("trigger", &Free),
    ("trigger_type", &Free),
    ("nodes", &PIPELINE_NODES),
    ("edges", &PIPELINE_EDGES),
    ("memory_keys", &Free),
    ("status", &Free),
    ("created_at", &Free),
    ("metadata", &Free),
]);
static PIPELINE_NODES: ValueShape = Rows(&Record(&[
    ("id", &Free),
    ("block_id", &Free),
    ("name", &Free),
    ("description", &Free),
    ("inputs", &Free),
    ("position", &Free),
]));
static PIPELINE_EDGES: ValueShape = Rows(&Record(&[("id", &Free), ("from", &Free), ("to", &Free)]));
static BLOCK: ValueShape = Record(&[
    ("id", &Free),
    ("name", &Free),
    ("description", &Free),
    ("category", &Free),
    ("execution_type", &Free),
    ("input_schema", &Free),
    ("output_schema", &Free),
    ("prompt_template", &Free),
    ("function_id", &Free),
    ("source_code", &Free),
    ("use_when", &Free),
    ("tags", &Free),
    ("examples", &Free),
    ("metadata", &Free),
]);

static GRAPH_FILE: ValueShape = Record(&[
    ("workflow", &GRAPH),
    ("definition", &GRAPH),
    ("id", &Free),
    ("name", &Free),
    ("description", &Free),
    ("isConversational", &Free),
    ("is_conversational", &Free),
    ("entrypointNodeId", &Free),
    ("entrypoint_node_id", &Free),
    ("scope", &Free),
    ("nodes", &GRAPH_NODES),
    ("edges", &GRAPH_EDGES),
    ("agents", &Rows(&AGENT)),
]);
static GRAPH: ValueShape = Record(&[
    ("id", &Free),
    ("name", &Free),
    ("description", &Free),
    ("isConversational", &Free),
    ("is_conversational", &Free),
    ("entrypointNodeId", &Free),
    ("entrypoint_node_id", &Free),
    ("scope", &Free),
    ("nodes", &GRAPH_NODES),
    ("edges", &GRAPH_EDGES),
]);
static GRAPH_NODES: ValueShape = Rows(&Record(&[
    ("id", &Free),
    ("workflowId", &Free),
    ("workflow_id", &Free),
    ("nodeType", &Free),
    ("node_type", &Free),
    ("nodeName", &Free),
    ("node_name", &Free),
    ("agentId", &Free),
    ("agent_id", &Free),
]));
static GRAPH_EDGES: ValueShape = Rows(&Record(&[
    ("id", &Free),
    ("workflowId", &Free),
    ("workflow_id", &Free),
    ("sourceNodeId", &Free),
    ("source_node_id", &Free),
    ("targetNodeId", &Free),
    ("target_node_id", &Free),
    ("conditionType", &Free),
    ("condition_type", &Free),
    ("conditionValue", &Free),
    ("condition_value", &Free),
]));
static AGENT: ValueShape = Record(&[
    ("id", &Free),
    ("agentId", &Free),
    ("agent_id", &Free),
    ("name", &Free),
    ("description", &Free),
    ("systemPrompt", &Free),
    ("system_prompt", &Free),
    ("model", &Free),
    ("llmModelId", &Free),
    ("llm_model_id", &Free),
    ("messages", &Free),
    ("tools", &List(&TOOL)),
    ("needsApproval", &Free),
    ("toolChoice", &Free),
    ("maxToolCalls", &Free),
]);
static TOOL: ValueShape = Record(&[
    ("toolId", &Free),
    ("type", &Free),
    ("name", &Free),
    ("description", &Free),
    ("function", &Record(&[("name", &Free), ("description", &Free), ("parameters", &Free)])),
    ("parameters", &Free),
    ("internalApiPath", &Free),
    ("execution_location", &Free),
]);
