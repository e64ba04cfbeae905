//! The variables of a source, as the target calls them.

use flowloom_core::expr::Template;
use flowloom_core::plan::{Input, InputKind, Inputs, Plan};

use crate::draft::{Item, ItemKind};

/// A variable of the source that is set at this point.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Its name in the source.
    pub(crate) source: String,
    /// The reference to it in the target, without delimiters.
    pub(crate) target: String,
    /// Whether it always is a text that is not missing.
    pub(crate) is_text: bool,
}

/// The variables that are set at a point of the source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    known: Vec<Known>,
    /// Variables of the source whose steps are lost.
    lost: Vec<String>,
    /// Names of the target that are used up, also by variables that are set no more.
    taken: Vec<String>,
}

impl Names {
    pub(crate) fn set(&mut self, source: &str, target: &str, is_text: bool) {
        self.known.retain(|known| known.source != source);
        self.lost.retain(|lost| lost != source);
        self.known.push(Known { source: source.to_owned(), target: target.to_owned(), is_text });
    }

    pub(crate) fn find(&self, source: &str) -> Option<&Known> {
        self.known.iter().find(|known| known.source == source)
    }

    /// Notes that a variable cannot be read any more.
    pub(crate) fn forget(&mut self, source: &str) {
        self.known.retain(|known| known.source != source);
    }

    /// Whether a name of the target is used already.
    pub(crate) fn is_taken(&self, target: &str) -> bool {
        self.has_target(target) || self.taken.iter().any(|taken| taken == target)
    }

    /// Uses up a name of the target.
    pub(crate) fn take(&mut self, target: &str) {
        self.taken.push(target.to_owned());
    }

    pub(crate) fn has_target(&self, target: &str) -> bool {
        self.known.iter().any(|known| known.target == target)
    }

    /// Notes that a step sets a variable of the target again: what else was kept in it cannot be read any more.
    pub(crate) fn overwrite(&mut self, target: &str) {
        let gone: Vec<String> =
            self.known.iter().filter(|known| known.target == target).map(|known| known.source.clone()).collect();
        gone.iter().for_each(|source| self.lose(source));
    }

    /// Notes that the step which sets a variable is lost.
    pub(crate) fn lose(&mut self, source: &str) {
        self.forget(source);
        self.lost.push(source.to_owned());
    }

    /// Whether the step that sets a variable is lost.
    pub(crate) fn is_lost(&self, source: &str) -> bool {
        self.lost.iter().any(|lost| lost == source)
    }

    /// Keeps what a member of a fan-out used up, and forgets what it set.
    pub(crate) fn leave_member(&mut self, before: &Names) {
        self.known.clone_from(&before.known);
        self.lost.clone_from(&before.lost);
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
