//! How long a prompt can be. A token is at least one byte, so bytes bound tokens for every tokenizer.

use std::collections::HashMap;
use std::sync::Arc;

use super::Count;
use crate::expr::{Data, Template, TemplatePart};
use crate::plan::{Generate, Inputs, Plan};
use crate::render;
use crate::value::Value;

/// Tokens around each message.
const MESSAGE_TOKENS: u64 = 16;
/// Maximum number of tokens in another prompt for each token of an answer: other tokenizers split it differently, and JSON
/// escapes characters of it.
const MAX_TOKENS_PER_ANSWER_TOKEN: u64 = 6;

/// The largest sizes of variables, in tokens. A variable that is not known can have any size.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    variables: HashMap<Arc<str>, Count>,
    /// Texts of inputs that no step has replaced.
    texts: HashMap<Arc<str>, Arc<str>>,
    /// Whole numbers that variables have from the start, and that no step has replaced.
    numbers: HashMap<Arc<str>, i64>,
    /// The largest value that a step can give to a variable whose name is computed: it can be any of them.
    any: Option<Count>,
}

impl Sizes {
    /// The sizes of the inputs of a run, if they are known.
    pub(super) fn of_inputs(plan: &Plan, inputs: Option<&Value>) -> Sizes {
        let mut sizes = Sizes::default();
        match &plan.inputs {
            Inputs::Whole(name) => {
                if let Some(inputs) = inputs {
                    sizes.know(name, inputs);
                }
            }
            Inputs::Named { declared, defaults, .. } => {
                for (name, value) in defaults {
                    sizes.variables.insert(name.clone(), measure_value(value));
                    // An input may replace it.
                    if inputs.is_some() || !declared.iter().any(|input| *input.name == **name) {
                        sizes.know_number(name, value);
                    }
                }
                for input in declared.iter().filter(|input| inputs.is_some() && !input.required) {
                    match &input.default {
                        Some(default) => sizes.know(&input.name.as_str().into(), &input.kind.read(default)),
                        None => drop(sizes.variables.insert(input.name.as_str().into(), Count::from(9))),
                    }
                }
                for (name, value) in inputs.and_then(Value::as_map).into_iter().flatten() {
                    sizes.know(name, value);
                }
                // As the run reads them: a text can become a number.
                for input in declared {
                    if let Some(value) = inputs.and_then(|inputs| inputs.get(&input.name)) {
                        sizes.know(&input.name.as_str().into(), &input.kind.read(value));
                    }
                }
            }
        }
        sizes
    }

    /// Notes the value of an input.
    fn know(&mut self, name: &Arc<str>, value: &Value) {
        self.variables.insert(name.clone(), measure_value(value));
        self.know_number(name, value);
        match value {
            Value::String(text) => drop(self.texts.insert(name.clone(), text.as_ref().into())),
            _ => drop(self.texts.remove(name)),
        }
    }

    fn know_number(&mut self, name: &Arc<str>, value: &Value) {
        match value.as_i64() {
            Some(number) => drop(self.numbers.insert(name.clone(), number)),
            None => drop(self.numbers.remove(name)),
        }
    }

    /// The whole number that a variable has from the start, and that no step has replaced.
    pub(super) fn find_number(&self, name: &str) -> Option<i64> {
        self.numbers.get(name).copied()
    }

    /// The text of an input that no step has replaced.
    pub(super) fn find_text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(|text| &**text)
    }

    /// Whether there can be a variable with this name.
    pub(super) fn has_variable(&self, name: &str) -> bool {
        self.any.is_some() || self.variables.contains_key(name) || self.texts.contains_key(name)
    }

    /// Notes that a variable can get a value of this size. A variable whose name is computed can be any of them.
    pub(super) fn write(&mut self, name: &Template, size: Count) {
        let Some(name) = name.as_literal() else {
            self.texts.clear();
            self.numbers.clear();
            self.any = Some(self.any.map_or(size, |known| known.max(size)));
            return;
        };
        self.texts.remove(name);
        self.numbers.remove(name);
        let known = self.variables.entry(name.into()).or_insert(size);
        *known = known.max(size);
    }

    fn measure_template(&self, template: &Template) -> Count {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => Count::from(text.len() as u64),
            TemplatePart::Ref(reference) => {
                // A reference without a value is sent as it is written.
                let written = Count::from(reference.source.len() as u64 + 2);
                let known = self.variables.get(&reference.name).copied();
                let known = known.map_or(Count::UNBOUNDED, |known| known.max(written));
                self.any.map_or(known, |any| known.max(any))
            }
            TemplatePart::Secret(_) | TemplatePart::Expr(_) => Count::UNBOUNDED,
        };
        template.parts.iter().map(part).fold(Count::ZERO, Count::plus)
    }

    fn measure_data(&self, data: &Data) -> Count {
        let all = |items: &mut dyn Iterator<Item = Count>| items.fold(Count::from(2), Count::plus);
        match data {
            Data::Constant(value) => measure_value(value),
            Data::Text(template) => self.measure_template(template),
            Data::List(items) => all(&mut items.iter().map(|item| self.measure_data(item).plus(Count::from(2)))),
            Data::Map(entries) => all(&mut entries
                .iter()
                .map(|(key, item)| self.measure_data(item).plus(Count::from(key.len() as u64 + 6)))),
        }
    }

    /// The largest prompt of a call, in tokens.
    pub(super) fn measure_prompt(&self, generate: &Generate) -> Count {
        // Earlier messages, and options that are computed, are not known here.
        if generate.thread.is_some() {
            return Count::UNBOUNDED;
        }
        let messages = generate
            .messages
            .iter()
            .map(|(_, data)| self.measure_data(data))
            .chain(generate.system.iter().map(|system| self.measure_data(system)));
        let schema =
            generate.schema.as_ref().map_or(Count::ZERO, |schema| measure_value(schema).plus(Count::from(128)));
        messages.fold(schema, |all, message| all.plus(message).plus(Count::from(MESSAGE_TOKENS)))
    }
}

/// The size of an answer of `tokens` tokens when it is put into another prompt.
pub(super) fn size_of_answer(tokens: Count) -> Count {
    tokens.times(Count::from(MAX_TOKENS_PER_ANSWER_TOKEN))
}

fn measure_value(value: &Value) -> Count {
    let escaped = render::to_json(value).len() as u64;
    // A blob is rendered as its text, which is not part of its JSON.
    if contains_blob(value) { Count::UNBOUNDED } else { Count::from(escaped) }
}

fn contains_blob(value: &Value) -> bool {
    match value {
        Value::Blob(_) => true,
        Value::List(items) => items.iter().any(contains_blob),
        Value::Map(map) => map.values().any(contains_blob),
        _ => false,
    }
}
