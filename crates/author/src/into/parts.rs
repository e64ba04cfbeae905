//! A pipeline as steps that other formats can express, in execution order.

use std::collections::BTreeSet;

use flowloom_core::expr::{Part as Found, Ref, Segment};
use flowloom_core::render::{self, Style};
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline::{built_in, template};

/// A step.
pub(super) struct Part {
    /// The name of its result.
    pub(super) id: String,
    pub(super) does: Does,
}

/// The action of a step.
pub(super) enum Does {
    /// Calls a model.
    Prompt(Vec<Piece>),
    /// Reads the web page at a URL.
    Page(Vec<Piece>),
}

/// A part of a text.
pub(super) enum Piece {
    Text(String),
    /// The result of a step.
    Result(String),
}

/// The steps of a pipeline, or the unsupported parts.
pub(super) fn parts(pipeline: &Value, blocks: &[Value]) -> Result<Vec<Part>, Vec<String>> {
    let reading = Reading { nodes: ordered(pipeline), blocks };
    let mut problems = Vec::new();
    let mut parts = Vec::new();
    for node in &reading.nodes {
        match reading.part(node) {
            Ok(part) => parts.push(part),
            Err(found) => problems.extend(found.into_iter().map(|why| format!("{}: {why}", text(node, "id")))),
        }
    }
    if problems.is_empty() { Ok(parts) } else { Err(problems) }
}

struct Reading<'a> {
    nodes: Vec<&'a Value>,
    blocks: &'a [Value],
}

impl<'a> Reading<'a> {
    fn block(&self, node: &Value) -> Option<&'a Value> {
        let is_meant = |block: &&Value| text(block, "id") == text(node, "block_id");
        self.blocks.iter().find(is_meant).or_else(|| built_in().iter().find(is_meant))
    }

    fn part(&self, node: &Value) -> Result<Part, Vec<String>> {
        let block = self.block(node).ok_or_else(|| vec![format!("there is no block {}", text(node, "block_id"))])?;
        let none = Map::new();
        let inputs = node.get("inputs").and_then(Value::as_map).unwrap_or(&none);
        let id = text(block, "id");
        let does = match text(block, "execution_type") {
            "llm" => Does::Prompt(self.prompt(block, inputs)?),
            _ if id == "web_scrape" => Does::Page(self.pieces(inputs.get("url").unwrap_or(&Value::Null))?),
            "function" => return Err(vec![format!("the function {} cannot be exported", text(block, "function_id"))]),
            _ => return Err(vec![format!("the Python block {id} cannot be exported")]),
        };
        Ok(Part { id: text(node, "id").to_owned(), does })
    }

    /// A prompt with its inputs inserted. Its output must be a single text, because other formats support nothing else.
    fn prompt(&self, block: &Value, inputs: &Map) -> Result<Vec<Piece>, Vec<String>> {
        let fields = properties(block);
        if only_text(block).is_none() {
            let names: Vec<&str> = fields.iter().flat_map(|map| map.keys()).map(|name| &**name).collect();
            return Err(vec![format!("an exported prompt has one text output, and this one has {}", names.join(", "))]);
        }
        let mut pieces = Vec::new();
        for part in template::prompt(text(block, "prompt_template")).parts {
            match part {
                Found::Ref(Ref { path, source, .. }) => match path.first() {
                    Some(Segment::Field(name)) if inputs.contains_key(&**name) => {
                        pieces.extend(self.pieces(&inputs[&**name])?);
                    }
                    _ => pieces.push(Piece::Text(source.to_string())),
                },
                Found::Text(text) => pieces.push(Piece::Text(text.to_string())),
                Found::Secret(_) | Found::Expr(_) => {}
            }
        }
        Ok(pieces)
    }

    fn pieces(&self, value: &Value) -> Result<Vec<Piece>, Vec<String>> {
        let Some(written) = value.as_str() else {
            return Ok(vec![Piece::Text(render::text(value, Style::PythonJson))]);
        };
        let mut pieces = Vec::new();
        let mut problems = Vec::new();
        for part in template::parse(written).parts {
            match part {
                Found::Text(text) => pieces.push(Piece::Text(text.to_string())),
                Found::Ref(found) if self.is_result(&found) => pieces.push(Piece::Result(found.name.to_string())),
                Found::Ref(found) => problems.push(format!("{} cannot be exported", found.source)),
                Found::Secret(name) => problems.push(format!("the secret {name} cannot be exported")),
                Found::Expr(_) => {}
            }
        }
        if problems.is_empty() { Ok(pieces) } else { Err(problems) }
    }

    /// Whether a reference denotes the whole result of a step.
    fn is_result(&self, found: &Ref) -> bool {
        let Some(node) = self.nodes.iter().find(|node| text(node, "id") == &*found.name) else { return false };
        let result = self.block(node).and_then(|block| match text(block, "id") {
            "web_scrape" => Some("content"),
            _ => only_text(block),
        });
        matches!(&found.path[..], [Segment::Key(key)] if Some(&**key) == result)
    }
}

/// The nodes, each after those that it depends on.
fn ordered(pipeline: &Value) -> Vec<&Value> {
    let nodes = list(pipeline, "nodes").iter();
    let mut left: Vec<(&Value, BTreeSet<String>)> = nodes.map(|node| (node, needs(pipeline, node))).collect();
    let mut placed: Vec<&Value> = Vec::new();
    while !left.is_empty() {
        let waits = |needed: &BTreeSet<String>| left.iter().any(|(other, _)| needed.contains(text(other, "id")));
        // A pipeline that passed its check has no cycles.
        let at = left.iter().position(|(_, needed)| !waits(needed)).unwrap_or(0);
        placed.push(left.remove(at).0);
    }
    placed
}

/// The ids of a node's dependencies.
fn needs(pipeline: &Value, node: &Value) -> BTreeSet<String> {
    let id = text(node, "id");
    let edges = list(pipeline, "edges").iter().filter(|edge| text(edge, "to") == id);
    let mut all: BTreeSet<String> = edges.map(|edge| text(edge, "from").to_owned()).collect();
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
fn only_text(block: &Value) -> Option<&str> {
    let fields = properties(block).filter(|fields| fields.len() == 1)?;
    let (name, field) = fields.first()?;
    (text(field, "type") == "string").then_some(&**name)
}

fn properties(block: &Value) -> Option<&Map> {
    block.get("output_schema")?.get("properties")?.as_map()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_list).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
