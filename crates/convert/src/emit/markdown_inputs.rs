//! Inputs that only the Markdown workflow declares: in the place of outputs, and of variables that nothing sets.

use flowloom_core::diagnostic::Span;
use flowloom_core::expr::Missing;
use flowloom_core::plan::Inputs;

use super::Emitter;
use super::markdown_text::yaml_text;
use crate::draft::Item;
use crate::text::{Piece, Reference, to_identifier};

impl Emitter<'_> {
    /// An input in the place of the output of a step.
    pub(super) fn add_output_input(&mut self, item: &Item<'_>, what: &str, why: &str) {
        let title = item.title().to_owned();
        let name = self.action_name(item, &title);
        let message = yaml_text(&format!("What {what} gives"));
        self.add_input(format!("  {name}: {{type: text, message: {message}}}\n"));
        let message = format!("the step {title}: {why}, so the input {name} takes the place of its output");
        self.report.add_loss(item.span, message);
        let sets_input = self.sets_input();
        self.names.note_result(item, &name, sets_input);
    }

    /// Reads the fields of an output from the text of the input that replaces it.
    pub(super) fn read_output_inputs(&self, pieces: &mut [Piece]) {
        let rows = self.added_inputs.as_deref().unwrap_or_default();
        let is_output_input = |name: &str| rows.iter().any(|row| row.starts_with(&format!("  {name}: ")));
        for piece in pieces {
            if let Piece::Value(reference) = piece
                && !reference.path.is_empty()
                && is_output_input(&reference.name)
            {
                reference.name = format!("JSON.parse({})", reference.name);
            }
        }
    }

    /// Declares the input that a reference to a variable may mean which the definition neither declares nor sets.
    pub(super) fn declare_input(&mut self, reference: &Reference, span: Span) {
        let Reference { name, path, source } = reference;
        let is_open = matches!(&self.plan.inputs, Inputs::Named { accepts_others: true, .. });
        let is_set = self.names.find(name).is_some() || self.names.is_lost(name) || self.inputs.contains(name);
        if self.added_inputs.is_none() || !is_open || is_set || !path.is_empty() {
            return;
        }
        let default = match self.plan.text.missing {
            Missing::Keep => source.as_str(),
            Missing::Empty | Missing::Null => "",
            Missing::Error => return,
        };
        let target = self.names.take_name(&to_identifier(name, "input1"));
        self.add_input(format!("  {target}: {{type: text, default: {}}}\n", yaml_text(default)));
        self.report
            .add_change(span, format!("{source}: an input that is not declared, which is the input {target} here"));
        self.names.set(name, &target, true);
        self.inputs.insert(name.clone());
    }

    fn add_input(&mut self, row: String) {
        self.added_inputs.get_or_insert_default().push(row);
    }
}
