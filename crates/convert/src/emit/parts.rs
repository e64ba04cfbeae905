//! Parts of steps that several formats write in the same way: instructions in prompts, arguments, and the steps of
//! blocks.

use flowloom_core::expr::{Data, Expr, Template, TemplatePart};
use flowloom_core::plan::Assignment;
use flowloom_core::value::{Map, Value};
use flowloom_formats::graph::END_RULE;
use flowloom_formats::markdown::DEFAULT_SYSTEM_PROMPT;

use super::Emitter;
use crate::calls::Call;
use crate::draft::{Group, Item, Prompt};
use crate::names::COUNTER;
use crate::text::{Piece, read_expression};

/// Writes a text in the notation of the target.
pub(super) type TextWriter<'w, 'p> = &'w dyn Fn(&mut Emitter<'p>, &Template) -> String;

/// The text of a model call in a format without instructions: they are its beginning, unless they are only the default
/// ones.
pub(super) fn join_instructions(prompt: &Prompt<'_>) -> Template {
    let instructions = own_instructions(prompt);
    if instructions.parts.is_empty() {
        return prompt.text.clone();
    }
    let mut parts = instructions.parts;
    if !prompt.text.parts.is_empty() {
        parts.push(TemplatePart::Text("\n\n".into()));
        parts.extend(prompt.text.parts.iter().cloned());
    }
    Template { parts }
}

/// The instructions of a model call, without the default ones of Markdown.
pub(super) fn own_instructions(prompt: &Prompt<'_>) -> Template {
    let Some(Data::Text(system)) = &prompt.generate.system else { return Template::default() };
    let mut own = system.clone();
    if let Some(TemplatePart::Text(first)) = own.parts.first_mut() {
        *first = strip_rule(first.strip_prefix(DEFAULT_SYSTEM_PROMPT).map_or(first, str::trim_start)).into();
    }
    own.parts.retain(|part| !matches!(part, TemplatePart::Text(text) if text.is_empty()));
    own
}

/// The instructions of an agent without what conversational graphs add to them.
pub(super) fn strip_rule(instructions: &str) -> &str {
    instructions.strip_suffix(END_RULE).map_or(instructions, str::trim_end)
}

impl<'p> Emitter<'p> {
    /// A value with its texts in the notation of the target.
    pub(super) fn write_data(&mut self, data: &Data, write: TextWriter<'_, 'p>) -> Value {
        match data {
            Data::Constant(value) => self.write_constant(value, write),
            Data::Text(template) => write(self, template).into(),
            Data::List(items) => Value::list(items.iter().map(|inner| self.write_data(inner, write)).collect()),
            Data::Map(entries) => {
                let entries = entries.iter().map(|(key, inner)| (key.clone(), self.write_data(inner, write)));
                entries.collect::<Map>().into()
            }
        }
    }

    /// A constant value, of which a text may look like a reference.
    fn write_constant(&mut self, value: &Value, write: TextWriter<'_, 'p>) -> Value {
        match value {
            Value::String(text) => write(self, &Template::from_literal(text)).into(),
            Value::List(items) => Value::list(items.iter().map(|inner| self.write_constant(inner, write)).collect()),
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, inner)| (key.clone(), self.write_constant(inner, write)));
                entries.collect::<Map>().into()
            }
            other => other.clone(),
        }
    }

    /// The arguments of a call as an object.
    pub(super) fn write_arguments(&mut self, call: &Call, write: TextWriter<'_, 'p>) -> Map {
        let entry = |(name, data): &(String, Data)| (name.as_str().into(), self.write_data(data, write));
        call.arguments.iter().map(entry).collect()
    }

    /// Reports the variables of a block of defaults that are no inputs, which only a flow can set.
    pub(super) fn lose_defaults(&mut self, item: &Item<'_>, rows: &[Assignment]) {
        for row in rows {
            let name = row.name.show_source();
            if !self.inputs.contains(&name) {
                self.report.add_loss(item.span, format!("the variable {name}: only inputs have defaults here"));
                self.names.lose(&name);
            }
        }
    }

    /// Reports that the steps of a loop or of a choice become steps like all others.
    pub(super) fn report_group(&mut self, item: &Item<'_>, group: &Group<'_>) {
        let title = item.title();
        self.report.add_loss(
            item.span,
            match group.is_loop {
                true => format!("the loop {title}: there are no loops over several steps here, so they run once"),
                false => format!("the choice {title}: there are no choices here, so the steps of all its branches run"),
            },
        );
    }

    /// Writes the steps of a loop or of a choice, one after another. Each scope has variables of its own.
    pub(super) fn emit_group<'m>(
        &mut self,
        item: &'m Item<'m>,
        group: &'m Group<'m>,
        mut write: impl FnMut(&mut Self, &'m Item<'m>),
    ) {
        let is_unrolled = std::mem::replace(&mut self.is_unrolled, true);
        for scope in group.scopes.iter().take_while(|_| !self.stop.is_stopped()) {
            let before = self.names.mark();
            self.names.lose("$");
            for (name, value) in scope.provided {
                self.provide_value(name, value);
            }
            scope.items.iter().for_each(|inner| write(self, inner));
            self.names.return_to(before);
            // A step of the scope may have set a variable that has the same name outside.
            let set = scope.items.iter().filter_map(|inner| inner.variable.as_deref());
            set.for_each(|variable| self.names.overwrite(variable));
        }
        self.is_unrolled = is_unrolled;
        self.lose_result(item);
    }

    /// Writes the step of a loop, which runs once and does not count its rounds.
    pub(super) fn emit_once<'m>(&mut self, body: &'m Item<'m>, write: impl FnOnce(&mut Self, &'m Item<'m>)) {
        let is_unrolled = std::mem::replace(&mut self.is_unrolled, true);
        let hidden = self.names.hide_variable(COUNTER);
        write(self, body);
        if body.variable.as_deref() != Some(COUNTER) {
            self.names.show_variable(COUNTER, hidden);
        }
        self.is_unrolled = is_unrolled;
    }

    /// Notes what a name in a scope means: a variable outside, or nothing that can be expressed.
    fn provide_value(&mut self, name: &str, value: &Expr) {
        let outer = match read_expression(value).as_slice() {
            [Piece::Value(reference)] if reference.path.is_empty() => self.names.find(&reference.name).cloned(),
            _ => None,
        };
        match outer {
            Some(known) => self.names.copy_facts(name, &known),
            None => self.names.lose(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_core::chat::GenerateOptions;
    use flowloom_core::plan::Generate;

    use super::*;

    #[test]
    fn instructions_precede_the_prompt() {
        let cases = [
            (None, "Say it."),
            (Some(DEFAULT_SYSTEM_PROMPT.to_owned()), "Say it."),
            (Some("Be brief.".to_owned()), "Be brief.\n\nSay it."),
            (Some(format!("{DEFAULT_SYSTEM_PROMPT}\n\nBe brief.")), "Be brief.\n\nSay it."),
            (Some(format!("Be brief.\n\n{END_RULE}")), "Be brief.\n\nSay it."),
            (Some(END_RULE.to_owned()), "Say it."),
        ];
        for (system, expected) in cases {
            let generate = Generate {
                model: None,
                system: system.as_deref().map(|text| Data::Text(Template::from_literal(text))),
                thread: None,
                computed: None,
                messages: Vec::new(),
                schema: None,
                options: GenerateOptions::default(),
            };
            let text = Template::from_literal("Say it.");
            let prompt = Prompt { generate: &generate, text, earlier: 0, tools: &[] };
            assert_eq!(join_instructions(&prompt).show_source(), expected, "{system:?}");
        }
    }
}
