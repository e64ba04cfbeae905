//! The variables of a source, as the target calls them.

use std::collections::{HashMap, HashSet};

use flowloom_core::expr::Template;
use flowloom_core::plan::{Input, InputKind, Inputs, Plan};

use crate::draft::{Item, ItemKind};
use crate::turns::MESSAGE_INPUT;

/// A variable of the source that is set at this point.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// The reference to it in the target, without delimiters.
    pub(crate) target: String,
    /// Whether it always is a text that is not missing.
    pub(crate) is_text: bool,
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
    /// The value that each change replaced, so that the end of a fan-out member can restore it.
    changes: Vec<(String, Option<Known>, bool)>,
}

/// A point to which [`Names::leave_member`] returns.
#[derive(Clone, Copy)]
pub(crate) struct NamesMark(usize);

impl Names {
    pub(crate) fn set(&mut self, source: &str, target: &str, is_text: bool) {
        self.change(source, Some(Known { target: target.to_owned(), is_text }), false);
    }

    pub(crate) fn find(&self, source: &str) -> Option<&Known> {
        self.known.get(source)
    }

    /// Notes that a variable cannot be read any more.
    pub(crate) fn forget(&mut self, source: &str) {
        let is_lost = self.is_lost(source);
        self.change(source, None, is_lost);
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

    /// Whether the step that sets a variable is lost.
    pub(crate) fn is_lost(&self, source: &str) -> bool {
        self.lost.contains(source)
    }

    /// The present point.
    pub(crate) fn mark(&self) -> NamesMark {
        NamesMark(self.changes.len())
    }

    /// Keeps the names that a member of a fan-out used up, and forgets what it set since a mark.
    pub(crate) fn leave_member(&mut self, mark: NamesMark) {
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
        if let Some(variable) = &item.variable {
            self.set(variable, target, is_text);
        }
        if sets_input {
            // A step that may be skipped leaves the input as it is, so either may be meant.
            self.set("input", target, is_text);
        }
    }
}

/// The declared inputs of a plan; a step list has one, called `input`.
pub(crate) fn declared_inputs(plan: &Plan) -> Vec<Input> {
    if plan.thread.is_some() {
        let name = MESSAGE_INPUT.to_owned();
        return vec![Input { name, kind: InputKind::Text, required: true, ..Input::default() }];
    }
    match &plan.inputs {
        Inputs::Named { declared, .. } => declared.clone(),
        Inputs::Whole(name) => vec![Input { name: name.to_string(), kind: InputKind::Any, ..Input::default() }],
    }
}

/// The declared inputs, without the one of a step list if no step reads it.
pub(crate) fn read_inputs(plan: &Plan, items: &[Item<'_>]) -> Vec<Input> {
    if chains_outputs(plan) && !is_input_read(items) { Vec::new() } else { declared_inputs(plan) }
}

/// Whether a step reads the input of the run, which the first output replaces.
fn is_input_read(items: &[Item<'_>]) -> bool {
    for item in items {
        let reads = |text: &Template| text.iter_refs().any(|reference| &*reference.name == "input");
        let is_read = match &item.kind {
            ItemKind::Prompt(prompt) => reads(&prompt.text),
            ItemKind::Fanout(members) => is_input_read(members),
            _ => true,
        };
        if is_read || item.step.condition.is_some() {
            return true;
        }
        if !matches!(item.kind, ItemKind::Fanout(_)) && item.is_certain() && item.step.writes.len() > 1 {
            return false;
        }
        if item.step.writes.iter().any(|write| write.names.first().and_then(Template::as_literal) == Some("input")) {
            return !item.is_certain();
        }
    }
    false
}

/// Whether each output becomes the next input, as in a step list.
pub(crate) fn chains_outputs(plan: &Plan) -> bool {
    matches!(plan.inputs, Inputs::Whole(_))
}
