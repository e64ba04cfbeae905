//! Writes pipelines: each prompt becomes a block that asks a model, and each call of a function a block that calls it.

use flowloom_core::diagnostic::Span;
use flowloom_core::plan::Input;
use flowloom_core::render::to_json;
use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline::{self, built_in_blocks, template};

use super::parts::join_instructions;
use super::pipeline_prompts::BlockInputs;
use super::{Abilities, Emitter};
use crate::calls::{Call, FETCH_FUNCTION, REQUEST_FUNCTION, find_constant_text, read_call};
use crate::draft::{Item, ItemKind, Prompt};
use crate::json_text::{ObjectBuilder, Row, write_beside, write_definition};
use crate::names::read_inputs;
use crate::text::{PathPart, Piece, Reference, is_word, read_pieces, to_identifier, write_value};

pub(super) const ABILITIES: Abilities =
    Abilities { timeout: false, retry: false, skip_errors: false, condition: false, answer: false };

/// The built-in block that sends a request.
const REQUEST_BLOCK: &str = "http_request";

/// The built-in block that reads a page.
const PAGE_BLOCK: &str = "web_scrape";

/// The rows of a pipeline under construction.
#[derive(Default)]
pub(super) struct PipelineRows {
    nodes: Vec<Row>,
    edges: Vec<Row>,
    blocks: Vec<Row>,
    last: Option<String>,
}

impl PipelineRows {
    /// Makes a node wait for the one before it, if no reference does: steps run one after another.
    pub(super) fn add_order(&mut self, inputs: &Map, id: &str) {
        let Some(last) = &self.last else { return };
        if !to_json(&inputs.clone().into()).contains(&format!("{{{{{last}.")) {
            let edge = ObjectBuilder::default().with("from", last.as_str()).with("to", id).build();
            self.edges.push(Row { comments: Vec::new(), value: Some(edge) });
        }
    }

    /// Adds a node, which the next one follows.
    pub(super) fn push_node(&mut self, id: &str, row: Row) {
        self.nodes.push(row);
        self.last = Some(id.to_owned());
    }

    pub(super) fn push_block(&mut self, block: Value) {
        self.blocks.push(Row { comments: Vec::new(), value: Some(block) });
    }
}

impl Emitter<'_> {
    pub(super) fn emit_pipeline(&mut self, items: &[Item<'_>]) -> Option<String> {
        read_inputs(self.plan, items).iter().for_each(|input| self.fix_input(input));
        let mut rows = PipelineRows::default();
        for item in items.iter().take_while(|_| !self.stop.is_stopped()) {
            self.push_node(item, &mut rows);
            self.release_fixed(item);
        }
        if !rows.nodes.iter().any(|row| row.value.is_some()) {
            self.report_nothing_left(pipeline::FORMAT);
            return None;
        }
        let pipeline = ObjectBuilder::default()
            .with_some("id", self.plan.id.as_deref())
            .with("name", self.plan.name.as_str())
            .with_text("user_prompt", &self.plan.description)
            .build();
        let lists = [("nodes", &rows.nodes[..]), ("edges", &rows.edges[..])];
        let inner = write_definition(pipeline::FORMAT, pipeline, &lists, self.has_comments);
        Some(write_beside(pipeline::FORMAT, "pipeline", &inner, "blocks", &rows.blocks))
    }

    /// An input, which no pipeline has: its default takes its place, or a text to fill in.
    fn fix_input(&mut self, input: &Input) {
        let name = &input.name;
        let message = match input.default.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty()) {
            Some(default) => {
                self.fixed.insert(name.clone(), default.to_owned());
                format!("the input {name}: a pipeline has no inputs, so it always is its default")
            }
            None => format!("the input {name}: a pipeline has no inputs, its value is a string to fill in"),
        };
        self.report.add_loss(input.span, message);
        self.names.lose(name);
    }

    /// Notes that a step sets inputs, which are their defaults no more.
    fn release_fixed(&mut self, item: &Item<'_>) {
        for name in item.step.writes.iter().flat_map(|write| &write.names) {
            match name.as_literal() {
                Some(name) => drop(self.fixed.remove(name)),
                None => self.fixed.clear(),
            }
        }
    }

    fn push_node(&mut self, item: &Item<'_>, rows: &mut PipelineRows) {
        let mark = self.report.mark();
        let (span, title) = (item.span, item.title().to_owned());
        match &item.kind {
            ItemKind::Prompt(prompt) if prompt.generate.schema.is_none() => {
                return self.push_model_node(item, prompt, rows);
            }
            ItemKind::Prompt(prompt) => return self.push_prompt_node(item, prompt, rows),
            ItemKind::Fanout(members) => {
                self.report.add_change(span, "the steps of a fan-out run one after another here");
                return self.emit_members(members, |emitter, member| emitter.push_node(member, rows));
            }
            ItemKind::Defaults(_) => return,
            ItemKind::Http(_) | ItemKind::Scrape(_) | ItemKind::Call(_) | ItemKind::Block(_) => {
                if let Some(call) = read_call(item) {
                    return self.push_call_node(item, &call, rows);
                }
                self.report.add_loss(span, format!("the block {title}"));
            }
            ItemKind::Group(group) => {
                self.report_group(item, group);
                rows.nodes.push(Row { comments: self.loss_comments(mark), value: None });
                return self.emit_group(item, group, |emitter, inner| emitter.push_node(inner, rows));
            }
            ItemKind::Memory(_) => self.report.add_loss(span, format!("{title}: blocks reach the memory by key")),
            ItemKind::Ask(_) => {
                self.report.add_loss(span, format!("the question {title}: a pipeline cannot ask people"))
            }
            ItemKind::Text => self.report.add_loss(span, "text that no model answers"),
            ItemKind::Repeat(_, body) => {
                self.report.add_loss(span, format!("the loop {title}: a pipeline has no loops, so its step runs once"));
                rows.nodes.push(Row { comments: self.loss_comments(mark), value: None });
                return self.emit_once(body, |emitter, body| emitter.push_node(body, rows));
            }
            ItemKind::Other(what) => self.report.add_loss(span, format!("{what}: a pipeline has none")),
        }
        self.lose_result(item);
        rows.nodes.push(Row { comments: self.loss_comments(mark), value: None });
    }

    /// A prompt with a schema as a block of its own. Its instructions and the form of its answer are those of pipelines.
    fn push_prompt_node(&mut self, item: &Item<'_>, prompt: &Prompt<'_>, rows: &mut PipelineRows) {
        let mark = self.report.mark();
        let (span, title) = (item.span, item.title().to_owned());
        self.check_policy(item, ABILITIES);
        let is_blank = |piece: &Piece| matches!(piece, Piece::Text(text) if text.trim().is_empty());
        let text = join_instructions(prompt);
        if read_pieces(&text).iter().all(is_blank) {
            self.report.add_loss(span, format!("the model call of {title}: a block needs a prompt"));
            rows.nodes.push(Row { comments: self.loss_comments(mark), value: None });
            return;
        }
        self.check_tools(item, prompt);
        let message = format!("the model call of {title}: a block adds instructions and asks for JSON");
        self.report.add_loss(span, message);
        let id = self.node_id(item, &title);
        let (mut prompt_template, mut inputs) = (String::new(), BlockInputs::default());
        for piece in read_pieces(&text) {
            match piece {
                Piece::Text(text) => {
                    if template::parse_prompt(&text).iter_refs().next().is_some() {
                        let message =
                            format!("the model call of {title}: a block takes names in braces in its text for inputs");
                        self.report.add_loss(span, message);
                    }
                    prompt_template.push_str(&text);
                }
                Piece::Secret(_) | Piece::Expression(_) => prompt_template.push('…'),
                Piece::Value(reference) => {
                    if let Some(text) = self.find_constant(&reference) {
                        prompt_template.push_str(&text);
                        continue;
                    }
                    let value = self.pipeline_value(&reference, span);
                    let name = inputs.find_name(&to_identifier(&write_value(&reference), "value"), value);
                    prompt_template.push_str(&format!("{{{name}}}"));
                }
            }
        }
        let inputs = inputs.into_values();
        let properties = inputs.keys().map(|name| (name.clone(), string_schema())).collect();
        let schema = prompt.generate.schema.clone().filter(|schema| schema.get("properties").is_some());
        let target = if schema.is_some() { id.clone() } else { format!("{id}.text") };
        let block = begin_block(&id, &title, format!("Answers the prompt of {title}"), "llm")
            .with("input_schema", object_schema(properties, ""))
            .with("output_schema", schema.unwrap_or_else(text_schema))
            .with("prompt_template", prompt_template);
        rows.add_order(&inputs, &id);
        let node =
            ObjectBuilder::default().with("id", id.as_str()).with("block_id", id.as_str()).with("inputs", inputs);
        rows.push_node(&id, Row { comments: self.loss_comments(mark), value: Some(node.build()) });
        rows.push_block(block.build());
        let sets_input = self.sets_input();
        self.names.note_result(item, &target, sets_input);
    }

    /// The value of an input of a node. What cannot be a reference is text, or nothing if it would be another reference.
    fn pipeline_value(&mut self, reference: &Reference, span: Span) -> String {
        let known = match self.names.find(&reference.name).cloned() {
            // The whole prompt is reported, so the form of a value need not be.
            Some(known) => Some(known),
            None => self.find_reference(reference, span),
        };
        let source = &reference.source;
        let is_split = known.as_ref().is_some_and(|known| self.splits_answer(known, reference));
        let readable = known.as_ref().filter(|_| !is_split);
        if let Some(value) = readable.and_then(|known| write_pipeline_reference(&known.target, reference)) {
            return value;
        }
        if is_split {
            self.lose_part(source, span);
        } else if known.is_some() {
            self.lose_whole_output(source, span);
        }
        if !has_pipeline_reference(source) {
            return source.clone();
        }
        self.report.add_loss(span, format!("{source}: it would be a reference to a node here, so it is left out"));
        String::new()
    }

    /// Reports a reference to an output as a whole, which stays as it is written.
    pub(super) fn lose_whole_output(&mut self, source: &str, span: Span) {
        let message = format!("{source}: a node reads fields of an output, and not the whole, so it is text here");
        self.report.add_loss(span, message);
    }

    /// A call of a function as a block of its own. Pages and requests have built-in blocks.
    fn push_call_node(&mut self, item: &Item<'_>, call: &Call, rows: &mut PipelineRows) {
        let mark = self.report.mark();
        let (span, title) = (item.span, item.title().to_owned());
        self.check_policy(item, ABILITIES);
        self.check_call(item, call);
        let function = call.function.as_str();
        let message = format!("the call of {function} by {title}: a block passes these arguments and no variables");
        self.report.add_loss(span, message);
        let id = self.node_id(item, &title);
        let inputs = self.write_arguments(call, &|emitter, text| {
            emitter.write_text(text, span, write_pipeline_reference, has_pipeline_reference)
        });
        let (block, field) = match function {
            REQUEST_FUNCTION if has_block_method(call) => (REQUEST_BLOCK, call.output_field),
            FETCH_FUNCTION => {
                let message = format!("the page of {title} is read by the block {PAGE_BLOCK}, which shortens its text");
                self.report.add_loss(span, message);
                (PAGE_BLOCK, Some("content"))
            }
            _ => {
                rows.push_block(function_block(&id, &title, function));
                (id.as_str(), call.output_field)
            }
        };
        rows.add_order(&inputs, &id);
        let node = ObjectBuilder::default().with("id", id.as_str()).with("block_id", block).with("inputs", inputs);
        rows.push_node(&id, Row { comments: self.loss_comments(mark), value: Some(node.build()) });
        let sets_input = self.sets_input();
        let target = field.map_or_else(|| id.clone(), |field| format!("{id}.{field}"));
        self.names.note_result(item, &target, sets_input);
    }

    pub(super) fn node_id(&mut self, item: &Item<'_>, title: &str) -> String {
        let base = to_identifier(item.variable.as_deref().unwrap_or(title), "answer");
        let base = if matches!(base.as_str(), "memory" | "user" | "secret") { format!("{base}1") } else { base };
        self.names.take_name(&base)
    }
}

/// Whether the block for requests takes the method of a call.
fn has_block_method(call: &Call) -> bool {
    let Some((_, method)) = call.arguments.iter().find(|(name, _)| name == "method") else { return true };
    let schema = built_in_blocks()
        .iter()
        .find(|block| block.get("id").and_then(Value::as_str) == Some(REQUEST_BLOCK))
        .and_then(|block| block.get("input_schema")?.get("properties")?.get("method")?.get("enum")?.as_list());
    find_constant_text(method).is_some_and(|method| schema.is_some_and(|known| known.contains(&method.into())))
}

/// A block that calls a function.
fn function_block(id: &str, title: &str, function: &str) -> Value {
    begin_block(id, title, format!("Calls {function}"), "function")
        .with("function_id", function)
        .with("input_schema", object_schema(Map::new(), ""))
        .with("output_schema", Map::new())
        .build()
}

/// The fields with which every block begins.
pub(super) fn begin_block(id: &str, title: &str, description: String, execution_type: &str) -> ObjectBuilder {
    ObjectBuilder::default()
        .with("id", id)
        .with("name", title)
        .with("description", description)
        .with("category", "process")
        .with("execution_type", execution_type)
}

/// The schema of an object with a text.
pub(super) fn text_schema() -> Value {
    object_schema(Map::from_iter([("text".into(), string_schema())]), "text")
}

pub(super) fn string_schema() -> Value {
    Value::map([("type", Value::from("string"))])
}

/// The schema of an object with these properties.
pub(super) fn object_schema(properties: Map, required: &str) -> Value {
    let required = if required.is_empty() { Vec::new() } else { vec![required.into()] };
    Value::map([
        ("type", Value::from("object")),
        ("properties", properties.into()),
        ("required", Value::list(required)),
    ])
}

/// `{{node.field}}`; `None` if the notation cannot say it, such as a whole output.
pub(super) fn write_pipeline_reference(name: &str, reference: &Reference) -> Option<String> {
    let mut out = name.to_owned();
    for part in &reference.path {
        match part {
            PathPart::Field(field) if is_word(field) => out.push_str(&format!(".{field}")),
            PathPart::Index(index) if *index >= 0 => out.push_str(&format!(".{index}")),
            PathPart::Field(_) | PathPart::Index(_) => return None,
        }
    }
    out.contains('.').then(|| format!("{{{{{out}}}}}"))
}

/// Whether a text holds `{{node.field}}`.
fn has_pipeline_reference(text: &str) -> bool {
    let mut rest = text;
    while let Some((_, inner)) = rest.split_once("{{") {
        // Of the braces before the same end, the first have the longest name.
        let Some(length) = inner.find("}}") else { return false };
        if inner[..length].contains('.') {
            return true;
        }
        rest = &inner[length..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::has_pipeline_reference;

    #[test]
    fn references_are_found_between_their_braces() {
        let cases = [
            ("{{a.b}}", true),
            ("{{a {{b.c}} d", true),
            ("{{a}} . {{b}}", false),
            ("{{a.b", false),
            ("}}{{a.b}", false),
        ];
        for (text, expected) in cases {
            assert_eq!(has_pipeline_reference(text), expected, "{text}");
        }
    }
}
