//! Model calls in pipelines: Python blocks that send the same messages, which prompt blocks do not.

use flowloom_core::expr::{Data, Template};
use flowloom_core::render::to_json;
use flowloom_core::value::{Map, Value};

use super::pipeline::{
    ABILITIES, PipelineRows, begin_block, object_schema, string_schema, text_schema, write_pipeline_reference,
};
use super::references::is_length;
use super::{AnswerReads, Emitter};
use crate::draft::{Item, Prompt};
use crate::json_text::{ObjectBuilder, Row};
use crate::text::{Piece, Reference, to_identifier, write_value};

/// The inputs of a block under construction: the references by the name of their input.
#[derive(Default)]
pub(super) struct BlockInputs {
    values: Map,
}

impl BlockInputs {
    /// The inputs by their names.
    pub(super) fn into_values(self) -> Map {
        self.values
    }

    /// The name of the input for a reference, which is added if it is new.
    pub(super) fn find_name(&mut self, base: &str, value: String) -> String {
        let value = Value::from(value);
        if let Some((name, _)) = self.values.iter().find(|(_, known)| **known == value) {
            return name.to_string();
        }
        let mut name = base.to_owned();
        let mut number = 1;
        while self.values.contains_key(name.as_str()) {
            number += 1;
            name = format!("{base}{number}");
        }
        self.values.insert(name.as_str().into(), value);
        name
    }
}

impl Emitter<'_> {
    /// A model call without a schema as a block that makes it.
    pub(super) fn push_model_node(&mut self, item: &Item<'_>, prompt: &Prompt<'_>, rows: &mut PipelineRows) {
        let mark = self.begin_item();
        let (span, title) = (item.span, item.title().to_owned());
        self.check_policy(item, ABILITIES);
        self.check_call_settings(item, prompt);
        let id = self.node_id(item, &title);
        if let Some(variable) = item.variable.as_ref().filter(|variable| **variable != id) {
            self.report.add_change(span, format!("the result {variable} has the name {id}"));
        }
        let mut inputs = BlockInputs::default();
        let system = match &prompt.generate.system {
            Some(Data::Text(system)) => self.write_python(system, item, &mut inputs),
            _ => "\"\"".to_owned(),
        };
        let text = self.write_python(&prompt.text, item, &mut inputs);
        let source = format!("def execute(inputs, context):\n    return {{\"text\": call_llm({system}, {text})}}\n");
        let inputs = inputs.into_values();
        let properties: Map = inputs.keys().map(|name| (name.clone(), string_schema())).collect();
        let block = begin_block(&id, &title, format!("Asks the model of {title}"), "python")
            .with("input_schema", object_schema(properties, ""))
            .with("output_schema", text_schema())
            .with("source_code", source);
        let node = ObjectBuilder::default().with("id", id.as_str()).with("block_id", id.as_str());
        rows.add_order(&inputs, &id);
        let sets_input = self.sets_input();
        self.names.note_result(item, &format!("{id}.text"), sets_input);
        let comments = self.loss_comments(mark);
        self.finish_item(item, mark);
        rows.push_node(&id, Row { comments, value: Some(node.with("inputs", inputs).build()) });
        rows.push_block(block.build());
    }

    /// A text as an expression of Python.
    fn write_python(&mut self, template: &Template, item: &Item<'_>, inputs: &mut BlockInputs) -> String {
        self.reads = AnswerReads::Length;
        let pieces = self.resolve_pieces(template, item.span);
        self.reads = AnswerReads::Whole;
        let write = |piece: Piece| match piece {
            Piece::Text(text) | Piece::Secret(text) | Piece::Expression(text) => to_json(&text.into()),
            Piece::Value(mut reference) => match write_pipeline_reference(&reference.name, &reference) {
                // Of an answer, which has no fields.
                Some(_) if is_length(&reference) && reference.name.ends_with(".text") => {
                    reference.path.clear();
                    let value = write_pipeline_reference(&reference.name, &reference).unwrap_or_default();
                    let name = inputs.find_name(&name_input(&reference), value);
                    write_length(&format!("inputs[{}]", to_json(&name.into())))
                }
                Some(value) => {
                    let name = inputs.find_name(&name_input(&reference), value);
                    format!("inputs[{}]", to_json(&name.into()))
                }
                None => {
                    self.has_other_text = true;
                    self.lose_whole_output(&reference.source, item.span);
                    to_json(&reference.source.as_str().into())
                }
            },
        };
        let written: Vec<String> = pieces.into_iter().map(write).collect();
        if written.is_empty() { "\"\"".to_owned() } else { written.join(" + ") }
    }
}

/// The length of a text in Python as JavaScript counts it, in UTF-16 units.
fn write_length(text: &str) -> String {
    format!("str(len({text}.encode(\"utf-16-le\")) // 2)")
}

/// The name of the input for a reference to an answer: that of its node.
fn name_input(reference: &Reference) -> String {
    let whole = write_value(reference);
    to_identifier(whole.strip_suffix(".text").unwrap_or(&whole), "value")
}
