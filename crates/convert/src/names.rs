//! The variables of a source, as the target calls them.

use std::collections::{HashMap, HashSet};

use flowloom_core::expr::Template;
use flowloom_core::plan::{Input, InputKind, Inputs, Plan};
use flowloom_core::value::Value;

use crate::draft::{Item, ItemKind};
use crate::turns::MESSAGE_INPUT;

/// The variable that counts the rounds of a loop in a step list. It hides one of the same name outside.
pub(crate) const COUNTER: &str = "iteration";

/// A variable of the source that is set at this point.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// The reference to it in the target, without delimiters.
    pub(crate) target: String,
    /// Whether it always is a text that is not missing.
    pub(crate) is_text: bool,
    /// The only field of its value that the target has, as the whole value.
    pub(crate) field: Option<&'static str>,
}

/// The variables that are set at a point of the source.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: HashMap<String, Known>,
    /// The variables of the source by the reference to them.
    sources: HashMap<String, HashSet<String>>,
    /// Variables of the source whose steps are lost.
    lost: HashSet<String>,
    /// Names of the target that are used up, also by variables that are set no more.
    taken: HashSet<String>,
    /// The number of the last name that was made from each.
    numbers: HashMap<String, usize>,
    /// The value that each change replaced, so that [`Names::return_to`] can restore it.
    changes: Vec<(String, Option<Known>, bool)>,
}

/// A point to which [`Names::return_to`] returns.
#[derive(Clone, Copy)]
pub(crate) struct NamesMark(usize);

/// The facts about a variable that another one hides.
pub(crate) struct Hidden {
    known: Option<Known>,
    is_lost: bool,
}

impl Names {
    pub(crate) fn set(&mut self, source: &str, target: &str, is_text: bool) {
        self.copy_facts(source, &Known { target: target.to_owned(), is_text, field: None });
    }

    /// Notes that a variable has the value of another one.
    pub(crate) fn copy_facts(&mut self, source: &str, known: &Known) {
        self.change(source, Some(known.clone()), false);
    }

    /// Notes that the target has only a field of the value of a variable.
    pub(crate) fn keep_field(&mut self, source: &str, field: &'static str) {
        if let Some(known) = self.find(source).cloned() {
            self.copy_facts(source, &Known { field: Some(field), ..known });
        }
    }

    pub(crate) fn find(&self, source: &str) -> Option<&Known> {
        self.known.get(source)
    }

    /// Notes that a variable cannot be read any more.
    pub(crate) fn forget(&mut self, source: &str) {
        let is_lost = self.is_lost(source);
        self.change(source, None, is_lost);
    }

    /// Keeps a name of the target from being taken: a variable of the source has it there.
    pub(crate) fn reserve_name(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// A name of the target that is not used yet: this one, or this one with a number. It is used up then.
    pub(crate) fn take_name(&mut self, base: &str) -> String {
        let mut name = base.to_owned();
        let mut number = self.numbers.get(base).copied().unwrap_or(1);
        while self.has_target(&name) || self.taken.contains(&name) {
            number += 1;
            name = format!("{base}{number}");
        }
        self.numbers.insert(base.to_owned(), number);
        self.taken.insert(name.clone());
        name
    }

    pub(crate) fn has_target(&self, target: &str) -> bool {
        self.sources.contains_key(target)
    }

    /// Notes that a step sets a variable of the target again: what else was kept in it cannot be read any more.
    pub(crate) fn overwrite(&mut self, target: &str) {
        let gone = self.sources.get(target).cloned().unwrap_or_default();
        gone.iter().for_each(|source| self.lose(source));
    }

    /// Notes that the step which sets a variable is lost.
    pub(crate) fn lose(&mut self, source: &str) {
        self.change(source, None, true);
    }

    /// Notes that the variables that an item sets under several names or computed ones cannot be read. A step list keeps
    /// each output as the next input, too.
    pub(crate) fn lose_names(&mut self, item: &Item<'_>) {
        let names = item.step.writes.iter().filter(|_| item.step.capability.is_none()).flat_map(|write| &write.names);
        for name in names {
            match name.as_literal() {
                Some(name) => self.lose(name),
                // It may be any of them.
                None => self.known.keys().cloned().collect::<Vec<_>>().iter().for_each(|known| self.lose(known)),
            }
        }
    }

    /// Notes that a variable cannot be read until [`Names::show_variable`], because another one hides it.
    pub(crate) fn hide_variable(&mut self, source: &str) -> Hidden {
        let hidden = Hidden { known: self.find(source).cloned(), is_lost: self.is_lost(source) };
        self.lose(source);
        hidden
    }

    /// Notes that a hidden variable can be read again.
    pub(crate) fn show_variable(&mut self, source: &str, hidden: Hidden) {
        self.change(source, hidden.known, hidden.is_lost);
    }

    /// Whether the step that sets a variable is lost.
    pub(crate) fn is_lost(&self, source: &str) -> bool {
        self.lost.contains(source)
    }

    /// The present point.
    pub(crate) fn mark(&self) -> NamesMark {
        NamesMark(self.changes.len())
    }

    /// Forgets what was set since a mark, as at the end of a member of a fan-out. Names that were used up stay so.
    pub(crate) fn return_to(&mut self, mark: NamesMark) {
        for (source, known, is_lost) in self.changes.split_off(mark.0).into_iter().rev() {
            self.set_known(&source, known, is_lost);
        }
    }

    /// Updates the facts about a variable.
    fn change(&mut self, source: &str, known: Option<Known>, is_lost: bool) {
        let was_lost = self.is_lost(source);
        let before = self.set_known(source, known, is_lost);
        self.changes.push((source.to_owned(), before, was_lost));
    }

    fn set_known(&mut self, source: &str, known: Option<Known>, is_lost: bool) -> Option<Known> {
        let before = self.known.remove(source);
        if let Some(old) = &before
            && let Some(sources) = self.sources.get_mut(&old.target)
        {
            sources.remove(source);
            if sources.is_empty() {
                self.sources.remove(&old.target);
            }
        }
        if let Some(known) = known {
            self.sources.entry(known.target.clone()).or_default().insert(source.to_owned());
            self.known.insert(source.to_owned(), known);
        }
        match is_lost {
            true => self.lost.insert(source.to_owned()),
            false => self.lost.remove(source),
        };
        before
    }

    /// Notes the result of an item under the name of its variable, and as the next input of a step list.
    pub(crate) fn note_result(&mut self, item: &Item<'_>, target: &str, sets_input: bool) {
        let is_text = item.gives_text() && item.is_certain();
        self.overwrite(target);
        match &item.variable {
            Some(variable) => self.set(variable, target, is_text),
            None => self.lose_names(item),
        }
        if sets_input {
            // A step that may be skipped leaves the input as it is, so either may be meant.
            self.set("input", target, is_text);
        }
    }
}

/// The declared inputs of a plan, each once; a step list has one, called `input`.
pub(crate) fn declared_inputs(plan: &Plan) -> Vec<Input> {
    let span = plan.root.span;
    if plan.thread.is_some() {
        let name = MESSAGE_INPUT.to_owned();
        return vec![Input { name, kind: InputKind::Text, required: true, span, ..Input::default() }];
    }
    match &plan.inputs {
        Inputs::Named { declared, .. } => merge_inputs(declared),
        Inputs::Whole(name) => vec![Input { name: name.to_string(), kind: InputKind::Any, span, ..Input::default() }],
    }
}

/// The inputs, of which a flow may declare one in several rows: the value of the last row counts, or else the first one that
/// is not empty.
fn merge_inputs(declared: &[Input]) -> Vec<Input> {
    let mut merged: Vec<Input> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    let mut first_values: HashMap<&str, &Value> = HashMap::new();
    for input in declared {
        let value = input.default.as_ref().filter(|value| value.is_truthy());
        if let Some(value) = value {
            first_values.entry(&input.name).or_insert(value);
        }
        let Some(position) = positions.get(&*input.name) else {
            positions.insert(&input.name, merged.len());
            merged.push(input.clone());
            continue;
        };
        let known = &mut merged[*position];
        let value = value.or(first_values.get(&*input.name).copied());
        known.default = value.or(input.default.as_ref()).cloned();
        known.description = known.description.take().or_else(|| input.description.clone());
    }
    merged
}

/// The declared inputs, without the one of a step list if no step reads it.
pub(crate) fn read_inputs(plan: &Plan, items: &[Item<'_>]) -> Vec<Input> {
    if chains_outputs(plan) && !is_input_read(items) { Vec::new() } else { declared_inputs(plan) }
}

/// Whether a step reads the input of the run, which the first output replaces.
fn is_input_read(items: &[Item<'_>]) -> bool {
    for item in items {
        let is_read = match &item.kind {
            // Its members see the input as it was before the fan-out.
            ItemKind::Fanout(members) => members.iter().any(reads_input),
            _ => reads_input(item),
        };
        if is_read {
            return true;
        }
        let writer = match &item.kind {
            ItemKind::Fanout(members) => members.iter().find(|member| sets_input(member)),
            _ => Some(item).filter(|item| sets_input(item)),
        };
        if let Some(writer) = writer {
            return !writer.is_certain();
        }
    }
    false
}

/// Whether a step reads the variable `input`.
fn reads_input(item: &Item<'_>) -> bool {
    let reads = |text: &Template| text.iter_refs().any(|reference| &*reference.name == "input");
    let is_read = match &item.kind {
        ItemKind::Prompt(prompt) => reads(&prompt.text),
        _ => true,
    };
    is_read || item.step.condition.is_some()
}

/// Whether a step sets the variable `input`.
fn sets_input(item: &Item<'_>) -> bool {
    item.step.writes.iter().any(|write| write.names.first().and_then(Template::as_literal) == Some("input"))
}

/// Whether each output becomes the next input, as in a step list.
pub(crate) fn chains_outputs(plan: &Plan) -> bool {
    matches!(plan.inputs, Inputs::Whole(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_input_are_one_input() {
        let cases =
            [(&["a", "q"][..], "q"), (&["a", ""], "a"), (&["", "q", ""], "q"), (&["a", "q", ""], "a"), (&[""], "")];
        for (values, expected) in cases {
            let row = |value: &&str| Input { name: "city".into(), default: Some((*value).into()), ..Input::default() };
            let rows: Vec<Input> = values.iter().map(row).collect();
            let merged = merge_inputs(&rows);
            assert_eq!((merged.len(), merged[0].default.as_ref()), (1, Some(&expected.into())), "{values:?}");
        }
    }
}
