//! A pipeline as steps that other formats can express, in execution order.

use std::collections::BTreeSet;

use flowloom_core::expr::{Ref, Segment, TemplatePart as Found};
use flowloom_core::render::{self, TextStyle};
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline::{built_in_blocks, template};

/// A step.
pub(super) struct ExportStep {
    /// The name of its result.
    pub(super) id: String,
    pub(super) action: StepAction,
}

/// The action of a step.
pub(super) enum StepAction {
    /// Calls a model.
    Prompt(Vec<ExportPiece>),
    /// Reads the web page at a URL.
    Page(Vec<ExportPiece>),
}

/// A part of a text.
pub(super) enum ExportPiece {
    Text(String),
    /// The result of a step.
    Result(String),
}

/// The steps of a pipeline, or the unsupported parts.
pub(super) fn read_steps(pipeline: &Value, blocks: &[Value]) -> Result<Vec<ExportStep>, Vec<String>> {
    let reading = PipelineReader { nodes: sort_nodes(pipeline), blocks };
    let mut problems = Vec::new();
    let mut parts = Vec::new();
    for node in &reading.nodes {
        match reading.read_step(node) {
            Ok(part) => parts.push(part),
            Err(found) => problems.extend(found.into_iter().map(|why| format!("{}: {why}", get_text(node, "id")))),
        }
    }
    if problems.is_empty() { Ok(parts) } else { Err(problems) }
}

struct PipelineReader<'a> {
    nodes: Vec<&'a Value>,
    blocks: &'a [Value],
}

impl<'a> PipelineReader<'a> {
    fn find_block(&self, node: &Value) -> Option<&'a Value> {
        let is_meant = |block: &&Value| get_text(block, "id") == get_text(node, "block_id");
        self.blocks.iter().find(is_meant).or_else(|| built_in_blocks().iter().find(is_meant))
    }

    fn read_step(&self, node: &Value) -> Result<ExportStep, Vec<String>> {
        let block =
            self.find_block(node).ok_or_else(|| vec![format!("there is no block {}", get_text(node, "block_id"))])?;
        let none = Map::new();
        let inputs = node.get("inputs").and_then(Value::as_map).unwrap_or(&none);
        let id = get_text(block, "id");
        let does = match get_text(block, "execution_type") {
            "llm" => StepAction::Prompt(self.read_prompt(block, inputs)?),
            _ if id == "web_scrape" => StepAction::Page(self.read_pieces(inputs.get("url").unwrap_or(&Value::Null))?),
            "function" => {
                return Err(vec![format!("the function {} cannot be exported", get_text(block, "function_id"))]);
            }
            _ => return Err(vec![format!("the Python block {id} cannot be exported")]),
        };
        Ok(ExportStep { id: get_text(node, "id").to_owned(), action: does })
    }

    /// A prompt with its inputs inserted. Its output must be a single text, because other formats support nothing else.
    fn read_prompt(&self, block: &Value, inputs: &Map) -> Result<Vec<ExportPiece>, Vec<String>> {
        let fields = output_properties(block);
        if single_text_output(block).is_none() {
            let names: Vec<&str> = fields.iter().flat_map(|map| map.keys()).map(|name| &**name).collect();
            return Err(vec![format!("an exported prompt has one text output, and this one has {}", names.join(", "))]);
        }
        let mut pieces = Vec::new();
        for part in template::parse_prompt(get_text(block, "prompt_template")).parts {
            match part {
                Found::Ref(Ref { path, source, .. }) => match path.first() {
                    Some(Segment::Field(name)) if inputs.contains_key(&**name) => {
                        pieces.extend(self.read_pieces(&inputs[&**name])?);
                    }
                    _ => pieces.push(ExportPiece::Text(source.to_string())),
                },
                Found::Text(text) => pieces.push(ExportPiece::Text(text.to_string())),
                Found::Secret(_) | Found::Expr(_) => {}
            }
        }
        Ok(pieces)
    }

    fn read_pieces(&self, value: &Value) -> Result<Vec<ExportPiece>, Vec<String>> {
        let Some(written) = value.as_str() else {
            return Ok(vec![ExportPiece::Text(render::render_text(value, TextStyle::PythonJson))]);
        };
        let mut pieces = Vec::new();
        let mut problems = Vec::new();
        for part in template::parse(written).parts {
            match part {
                Found::Text(text) => pieces.push(ExportPiece::Text(text.to_string())),
                Found::Ref(found) if self.is_result(&found) => pieces.push(ExportPiece::Result(found.name.to_string())),
                Found::Ref(found) => problems.push(format!("{} cannot be exported", found.source)),
                Found::Secret(name) => problems.push(format!("the secret {name} cannot be exported")),
                Found::Expr(_) => {}
            }
        }
        if problems.is_empty() { Ok(pieces) } else { Err(problems) }
    }

    /// Whether a reference denotes the whole result of a step.
    fn is_result(&self, found: &Ref) -> bool {
        let Some(node) = self.nodes.iter().find(|node| get_text(node, "id") == &*found.name) else { return false };
        let result = self.find_block(node).and_then(|block| match get_text(block, "id") {
            "web_scrape" => Some("content"),
            _ => single_text_output(block),
        });
        matches!(&found.path[..], [Segment::Key(key)] if Some(&**key) == result)
    }
}

/// The nodes, each after those that it depends on.
fn sort_nodes(pipeline: &Value) -> Vec<&Value> {
    let nodes = get_list(pipeline, "nodes").iter();
    let mut left: Vec<(&Value, BTreeSet<String>)> =
        nodes.map(|node| (node, node_dependencies(pipeline, node))).collect();
    let mut placed: Vec<&Value> = Vec::new();
    while !left.is_empty() {
        let waits = |needed: &BTreeSet<String>| left.iter().any(|(other, _)| needed.contains(get_text(other, "id")));
        // A pipeline that passed its check has no cycles.
        let at = left.iter().position(|(_, needed)| !waits(needed)).unwrap_or(0);
        placed.push(left.remove(at).0);
    }
    placed
}

/// The ids of a node's dependencies.
fn node_dependencies(pipeline: &Value, node: &Value) -> BTreeSet<String> {
    let id = get_text(node, "id");
    let edges = get_list(pipeline, "edges").iter().filter(|edge| get_text(edge, "to") == id);
    let mut all: BTreeSet<String> = edges.map(|edge| get_text(edge, "from").to_owned()).collect();
    let inputs = node.get("inputs").and_then(Value::as_map);
    let texts = inputs.into_iter().flat_map(|map| map.values()).filter_map(Value::as_str);
    for part in texts.flat_map(|text| template::parse(text).parts) {
        if let Found::Ref(found) = part {
            all.insert(found.name.to_string());
        }
    }
    all.remove(id);
    all
}

/// The only output of a block, if it is a text.
fn single_text_output(block: &Value) -> Option<&str> {
    let fields = output_properties(block).filter(|fields| fields.len() == 1)?;
    let (name, field) = fields.first()?;
    (get_text(field, "type") == "string").then_some(&**name)
}

fn output_properties(block: &Value) -> Option<&Map> {
    block.get("output_schema")?.get("properties")?.as_map()
}

fn get_list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_list).unwrap_or_default()
}

fn get_text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
