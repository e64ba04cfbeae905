//! Writes pipelines: each prompt becomes a block that asks a model, and each call of a function a block that calls it.

use flowloom_core::value::{Map, Value};
use flowloom_formats::pipeline;

use super::{Abilities, Emitter};
use crate::draft::{Item, ItemKind, Prompt};
use crate::json_text::{ObjectBuilder, Row, write_beside, write_definition};
use crate::names::declared_inputs;
use crate::text::{Piece, read_pieces, to_identifier};

const ABILITIES: Abilities =
    Abilities { timeout: false, retry: false, skip_errors: false, condition: false, answer: false };

/// The rows of a pipeline under construction.
#[derive(Default)]
struct PipelineRows {
    nodes: Vec<Row>,
    edges: Vec<Row>,
    blocks: Vec<Row>,
    last: Option<String>,
}

impl Emitter<'_> {
    pub(super) fn emit_pipeline(&mut self, items: &[Item<'_>]) -> Option<String> {
        for input in declared_inputs(self.plan) {
            let message = format!("the input {}: a pipeline has no inputs, its value is a text to fill in", input.name);
            self.report.add_loss(self.plan.root.span, message);
        }
        let mut rows = PipelineRows::default();
        for item in items.iter().take_while(|_| !self.stop.is_stopped()) {
            self.push_node(item, &mut rows);
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

    fn push_node(&mut self, item: &Item<'_>, rows: &mut PipelineRows) {
        let mark = self.report.mark();
        let (span, title) = (item.span, item.title().to_owned());
        match &item.kind {
            ItemKind::Prompt(prompt) => return self.push_prompt_node(item, prompt, rows),
            ItemKind::Fanout(members) => {
                return self.emit_members(members, |emitter, member| emitter.push_node(member, rows));
            }
            ItemKind::Defaults(_) => return,
            ItemKind::Http(_) | ItemKind::Scrape(_) => {
                let message = format!("{title}: requests of a pipeline are Python or functions");
                self.report.add_loss(span, message);
            }
            ItemKind::Call(call) => {
                let message = format!("the call of {} by {title}: a block passes named inputs", call.function);
                self.report.add_loss(span, message);
            }
            ItemKind::Memory(_) => self.report.add_loss(span, format!("{title}: blocks reach the memory by key")),
            ItemKind::Ask(_) => self.report.add_loss(span, format!("the question {title}: a pipeline asks nobody")),
            ItemKind::Text => self.report.add_loss(span, "a text that no model answers"),
            ItemKind::Repeat(..) => self.report.add_loss(span, format!("the loop {title}: a pipeline has no loops")),
            ItemKind::Block => self.report.add_loss(span, format!("the block {title}")),
            ItemKind::Other(what) => self.report.add_loss(span, format!("{what}: a pipeline has none")),
        }
        self.lose_result(item);
        rows.nodes.push(Row { comments: self.loss_comments(mark), value: None });
    }

    /// A prompt as a block of its own. Its instructions and the form of its answer are those of pipelines.
    fn push_prompt_node(&mut self, item: &Item<'_>, prompt: &Prompt<'_>, rows: &mut PipelineRows) {
        let mark = self.report.mark();
        let (span, title) = (item.span, item.title().to_owned());
        self.check_policy(item, ABILITIES);
        let is_blank = |piece: &Piece| matches!(piece, Piece::Text(text) if text.trim().is_empty());
        if read_pieces(&prompt.text).iter().all(is_blank) {
            self.report.add_loss(span, format!("the model call of {title}: a block needs a prompt"));
            rows.nodes.push(Row { comments: self.loss_comments(mark), value: None });
            return;
        }
        let message = format!("the model call of {title}: a block adds instructions and asks for JSON");
        self.report.add_loss(span, message);
        let id = self.node_id(item, &title);
        let (mut template, mut inputs, mut properties) = (String::new(), Map::new(), Map::new());
        let mut needs_order = rows.last.is_some();
        for piece in read_pieces(&prompt.text) {
            match piece {
                Piece::Text(text) => template.push_str(&text),
                Piece::Secret(_) | Piece::Expression(_) => template.push('…'),
                Piece::Value(reference) => {
                    let name = to_identifier(&reference.name, "value");
                    template.push_str(&format!("{{{name}}}"));
                    let known = self.names.find(&reference.name);
                    let value = known.map_or_else(String::new, |known| format!("{{{{{}}}}}", known.target));
                    needs_order &= value.is_empty();
                    inputs.insert(name.as_str().into(), value.into());
                    properties.insert(name.into(), Value::map([("type", Value::from("string"))]));
                }
            }
        }
        let object = |properties: Map, required: &str| {
            let required = if required.is_empty() { Vec::new() } else { vec![required.into()] };
            Value::map([
                ("type", Value::from("object")),
                ("properties", properties.into()),
                ("required", Value::list(required)),
            ])
        };
        let schema = prompt.generate.schema.clone().filter(|schema| schema.get("properties").is_some());
        let text = Map::from_iter([("text".into(), Value::map([("type", Value::from("string"))]))]);
        let block = ObjectBuilder::default()
            .with("id", id.as_str())
            .with("name", title.as_str())
            .with("description", format!("Answers the prompt of {title}"))
            .with("category", "process")
            .with("execution_type", "llm")
            .with("input_schema", object(properties, ""))
            .with("output_schema", schema.unwrap_or_else(|| object(text, "text")))
            .with("prompt_template", template);
        let node =
            ObjectBuilder::default().with("id", id.as_str()).with("block_id", id.as_str()).with("inputs", inputs);
        if let (true, Some(last)) = (needs_order, &rows.last) {
            let edge = ObjectBuilder::default().with("from", last.as_str()).with("to", id.as_str()).build();
            rows.edges.push(Row { comments: Vec::new(), value: Some(edge) });
        }
        rows.nodes.push(Row { comments: self.loss_comments(mark), value: Some(node.build()) });
        rows.blocks.push(Row { comments: Vec::new(), value: Some(block.build()) });
        let sets_input = self.sets_input();
        self.names.note_result(item, &format!("{id}.text"), sets_input);
        rows.last = Some(id);
    }

    fn node_id(&mut self, item: &Item<'_>, title: &str) -> String {
        let base = to_identifier(item.variable.as_deref().unwrap_or(title), "answer");
        let base = if matches!(base.as_str(), "memory" | "user") { format!("{base}1") } else { base };
        self.names.take_name(&base)
    }
}
