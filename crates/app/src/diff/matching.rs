//! Which step of one definition is which step of another: by path, then by what it does, then by what it is called.

use std::collections::{HashMap, VecDeque};

use flowloom_core::path::Path;
use flowloom_core::plan::{Plan, Step};

use super::describe::{DescribedFields, describe_step};

/// A step with what it means.
pub(super) struct DescribedStep {
    pub(super) path: Path,
    pub(super) title: String,
    pub(super) kind: &'static str,
    pub(super) fields: DescribedFields,
}

/// The steps of a plan that do something, in order.
pub(super) fn describe_steps(plan: &Plan) -> Vec<DescribedStep> {
    let mut steps = Vec::new();
    add_steps(&plan.root, Path::root(), true, &mut steps);
    steps
}

fn add_steps(step: &Step, path: Path, is_root: bool, steps: &mut Vec<DescribedStep>) {
    let path = if is_root { path } else { path.child_path(&step.key) };
    let fields = describe_step(step);
    if step.kind.is_leaf() || !fields.is_empty() {
        let (title, kind) = (step.title.clone(), step.kind.name());
        steps.push(DescribedStep { path: path.clone(), title, kind, fields });
    }
    for child in step.kind.child_steps() {
        add_steps(child, path.clone(), false, steps);
    }
}

/// Pairs of indexes of steps that are the same step.
pub(super) fn match_steps(a: &[DescribedStep], b: &[DescribedStep]) -> Vec<(usize, usize)> {
    let mut matches = Matches { a: vec![None; a.len()], b: vec![None; b.len()] };
    matches.pair_by(a, b, |step| (step.path.as_str().to_owned(), step.kind));
    matches.pair_by(a, b, |step| (step.fields.clone(), step.kind));
    matches.pair_by(a, b, |step| (step.title.to_lowercase(), step.kind));
    // What is left of a kind is paired in order if one side has as many of it as the other.
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

/// Which of the pairs stand in another order. `pairs` are sorted by the first index; the longest run of pairs in the same
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
