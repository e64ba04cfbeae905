//! Which step of one definition is which step of another: by path, then by what it does, then by what it is called.

use std::collections::{HashMap, VecDeque};

use flowloom_core::chat::{Content, Role};
use flowloom_core::path::Path;
use flowloom_core::plan::{AppendMessage, Composite, Inputs, Plan, Step, StepKind};

use super::describe::{DescribedFields, describe_step, render_template};

/// A step with what it means.
pub(super) struct DescribedStep {
    pub(super) path: Path,
    /// Its place among the steps: its path, without what only one format has.
    pub(super) place: String,
    pub(super) title: String,
    pub(super) kind: &'static str,
    pub(super) fields: DescribedFields,
}

impl DescribedStep {
    /// The place of the step around it.
    pub(super) fn outer_place(&self) -> &str {
        self.place.rsplit_once('/').map_or("", |(outer, _)| outer)
    }
}

/// The steps of a plan that do something, in order. `is_across`: the other plan has another format, so only what both
/// formats can say is described.
pub(super) fn describe_steps(plan: &Plan, is_across: bool) -> Vec<DescribedStep> {
    let mut steps = Vec::new();
    add_steps(&plan.root, Path::root(), true, &mut Listed { plan, is_across, steps: &mut steps });
    steps
}

struct Listed<'a> {
    plan: &'a Plan,
    is_across: bool,
    steps: &'a mut Vec<DescribedStep>,
}

fn add_steps(step: &Step, path: Path, is_root: bool, listed: &mut Listed<'_>) {
    let path = if is_root { path } else { path.child_path(&step.key) };
    let mut fields = describe_step(step);
    if listed.is_across {
        fields = keep_common_fields(fields);
    }
    let is_default = listed.is_across && sets_only_inputs(step, listed.plan);
    if (step.kind.is_leaf() || !fields.is_empty()) && !is_default {
        let (title, kind) = (step.title.clone(), step.kind.name());
        let place = if listed.is_across { find_common_place(&path) } else { path.as_str().to_owned() };
        listed.steps.push(DescribedStep { path: path.clone(), place, title, kind, fields });
    }
    // The message of a person, and the call that answers it, are one prompt in other formats.
    let (mut message_text, mut calls) = (None, 0);
    for child in step.kind.child_steps() {
        if listed.is_across
            && let StepKind::Composite(Composite::AppendMessage(message)) = &child.kind
        {
            // The answer of a call is also noted in the conversation.
            message_text = find_message_text(message).or(message_text);
            continue;
        }
        let first = listed.steps.len();
        add_steps(child, path.clone(), false, listed);
        if matches!(&step.kind, StepKind::Composite(Composite::Return(_)))
            && !listed.is_across
            && let Some(last) = listed.steps.get_mut(first)
        {
            // The same step with and without an end after it has the same place.
            path.as_str().clone_into(&mut last.place);
            last.fields.push(("afterwards", "the workflow ends with this output".to_owned()));
        }
        let Some(call) = listed.steps.get_mut(first).filter(|step| listed.is_across && step.kind == "generate") else {
            continue;
        };
        if let Some(text) = message_text.take() {
            call.fields.push(("prompt", text));
            call.fields.retain(|(name, _)| calls > 0 || *name != "conversation");
            call.fields.sort_unstable();
        }
        calls += 1;
    }
}

/// The fields without those that only one format has: what a step list passes on, its grants, and the default model.
fn keep_common_fields(fields: DescribedFields) -> DescribedFields {
    let keep = |(name, text): (&'static str, String)| match name {
        "capability" => None,
        "model" if text.is_empty() => None,
        "writes" if text.lines().count() > 1 => {
            Some((name, text.lines().filter(|line| *line != "input").collect::<Vec<_>>().join("\n")))
        }
        _ => Some((name, text)),
    };
    let mut fields: DescribedFields = fields.into_iter().filter_map(keep).collect();
    fields.sort_unstable();
    fields
}

/// The path without phases, which only Markdown has.
fn find_common_place(path: &Path) -> String {
    let parts = path.as_str().split('/').filter(|part| !part.is_empty() && !part.starts_with("phase~"));
    parts.fold(String::new(), |place, part| place + "/" + part)
}

/// The text of a person in a conversation.
fn find_message_text(message: &AppendMessage) -> Option<String> {
    let Content::Blocks(blocks) = &message.content else { return None };
    let text = blocks.iter().map(render_template).collect::<Vec<_>>().join("\n\n");
    (message.role == Role::User).then_some(text)
}

/// Whether a step only gives inputs their defaults, which the inputs themselves have in other formats.
fn sets_only_inputs(step: &Step, plan: &Plan) -> bool {
    let StepKind::Composite(Composite::Assign(rows)) = &step.kind else { return false };
    let Inputs::Named { declared, .. } = &plan.inputs else { return false };
    let is_input = |name: &str| declared.iter().any(|input| input.name == name);
    rows.iter().all(|row| row.only_if_falsy && row.name.as_literal().is_some_and(is_input))
}

/// Pairs of indexes of steps that are the same step.
pub(super) fn match_steps(a: &[DescribedStep], b: &[DescribedStep]) -> Vec<(usize, usize)> {
    let mut matches = Matches { a: vec![None; a.len()], b: vec![None; b.len()] };
    matches.pair_by(a, b, |step| (step.place.clone(), step.kind));
    matches.pair_by(a, b, |step| (step.fields.clone(), step.kind));
    matches.pair_by(a, b, |step| (step.title.to_lowercase(), step.kind));
    // The remaining steps of a kind are paired in order if both sides have the same number of them.
    matches.pair_rest(a, b);
    matches.a.iter().enumerate().filter_map(|(index, other)| Some((index, (*other)?))).collect()
}

struct Matches {
    a: Vec<Option<usize>>,
    b: Vec<Option<usize>>,
}

impl Matches {
    /// Pairs unpaired steps with the same key, in order.
    fn pair_by<K: std::hash::Hash + Eq>(
        &mut self,
        a: &[DescribedStep],
        b: &[DescribedStep],
        key: impl Fn(&DescribedStep) -> K,
    ) {
        let mut waiting: HashMap<K, VecDeque<usize>> = HashMap::new();
        for (index, step) in b.iter().enumerate().filter(|(index, _)| self.b[*index].is_none()) {
            waiting.entry(key(step)).or_default().push_back(index);
        }
        for (index, step) in a.iter().enumerate() {
            if self.a[index].is_none()
                && let Some(other) = waiting.get_mut(&key(step)).and_then(VecDeque::pop_front)
            {
                (self.a[index], self.b[other]) = (Some(other), Some(index));
            }
        }
    }

    fn pair_rest(&mut self, a: &[DescribedStep], b: &[DescribedStep]) {
        let count = |steps: &[DescribedStep], paired: &[Option<usize>]| {
            let mut counts: HashMap<&'static str, usize> = HashMap::new();
            for (step, _) in steps.iter().zip(paired).filter(|(_, paired)| paired.is_none()) {
                *counts.entry(step.kind).or_default() += 1;
            }
            counts
        };
        let (of_a, of_b) = (count(a, &self.a), count(b, &self.b));
        self.pair_by(a, b, |step| {
            let is_even = of_a.get(step.kind) == of_b.get(step.kind);
            // A key of its own pairs with nothing.
            (step.kind, if is_even { None } else { Some(std::ptr::from_ref(step) as usize) })
        });
    }
}

/// Which of the pairs are in another order. `pairs` are sorted by the first index; the longest run of pairs in the same
/// order has not moved.
pub(super) fn find_moved(pairs: &[(usize, usize)]) -> Vec<bool> {
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = vec![None; pairs.len()];
    for (at, (_, b)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *b);
        before[at] = length.checked_sub(1).map(|previous| ends[previous]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut moved = vec![true; pairs.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        moved[at] = false;
        next = before[at];
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_steps_have_moved() {
        let moved = |order: &[usize]| find_moved(&order.iter().copied().enumerate().collect::<Vec<_>>());
        assert_eq!(moved(&[0, 1, 2]), [false, false, false]);
        assert_eq!(moved(&[2, 0, 1, 3]), [true, false, false, false]);
        assert_eq!(moved(&[]), [false; 0]);
    }
}
