//! The variables that a fork sets right before a step, for it and for everything after it.

use std::sync::OnceLock;

use flowloom_core::event::{ForkOrigin, SetVariables};
use flowloom_core::path::Path;
use flowloom_core::plan::{Composite, Dag, Env, Step, StepKind};

use super::{Interpreter, StepContext};

/// Variables that a fork sets before a step.
pub(super) struct ForkVariables {
    set: SetVariables,
    /// Whether they apply, which is decided when the run reaches the step.
    applies: OnceLock<bool>,
}

impl ForkVariables {
    /// The variables that a fork sets.
    pub(super) fn list_of(fork: Option<&ForkOrigin>) -> Vec<ForkVariables> {
        let set = fork.map(ForkOrigin::list_set_variables).unwrap_or_default();
        set.into_iter().map(|set| ForkVariables { set, applies: OnceLock::new() }).collect()
    }
}

impl Interpreter {
    /// Sets the variables that a fork changes before the step at `path`.
    pub(super) fn set_fork_variables(&self, env: &mut Env, path: &Path) {
        for own in self.fork_variables.iter().filter(|own| own.set.at == *path && self.are_variables_set(own)) {
            own.set.variables.iter().for_each(|(name, value)| env.vars.set(name.as_str().into(), value.clone()));
        }
    }

    /// Whether variables are set when the run reaches their step.
    fn are_variables_set(&self, own: &ForkVariables) -> bool {
        *own.applies.get_or_init(|| !own.set.only_if_reused || !self.log.has_own_outcomes())
    }

    /// Sets the variables that a fork changes before the messages that a step sends: steps of their own, which `steps` begins
    /// with. `path` is that of the sequence.
    pub(super) fn set_fork_variables_early(&self, steps: &[Step], env: &mut Env, path: &Path) {
        let is_message = |step: &&Step| matches!(step.kind, StepKind::Composite(Composite::AppendMessage(_)));
        if !self.fork_variables.is_empty()
            && steps.first().is_some_and(|first| is_message(&first))
            && let Some(sender) = steps.iter().find(|step| !is_message(step))
        {
            self.set_fork_variables(env, &path.child_path(&sender.key));
        }
    }

    /// Sets what a fork changed before members that ran at the same time, for the steps after them: each member had variables
    /// of its own.
    pub(super) fn keep_member_variables(&self, members: &[Step], env: &mut Env, place: &StepContext) {
        if !self.fork_variables.is_empty() {
            members.iter().for_each(|member| self.set_fork_variables(env, &place.path.child_path(&member.key)));
        }
    }

    /// Sets what a fork changed before nodes that come before node `index`, or before any node if it is `None`: whether other
    /// nodes have run already depends on time. What these nodes and those after them have written stays.
    pub(super) fn set_node_variables(&self, dag: &Dag, index: Option<usize>, env: &mut Env, place: &StepContext) {
        if self.fork_variables.is_empty() {
            return;
        }
        let earlier = match index {
            Some(index) => list_earlier(dag, index),
            None => vec![true; dag.nodes.len()],
        };
        for own in &self.fork_variables {
            let is_meant = |at: &usize| place.path.child_path(&dag.nodes[*at].step.key) == own.set.at;
            let Some(node) = (0..dag.nodes.len()).filter(|at| earlier[*at]).find(is_meant) else { continue };
            if !self.are_variables_set(own) {
                continue;
            }
            let later = list_later(dag, node);
            let writers = (0..dag.nodes.len()).filter(|at| earlier[*at] && (*at == node || later[*at]));
            let writers: Vec<&Step> = writers.map(|at| &dag.nodes[at].step).collect();
            for (name, value) in &own.set.variables {
                if !writers.iter().any(|step| writes_name(step, name)) {
                    env.vars.set(name.as_str().into(), value.clone());
                }
            }
        }
    }
}

/// Whether each node ends before node `index` begins.
fn list_earlier(dag: &Dag, index: usize) -> Vec<bool> {
    let mut earlier = vec![false; dag.nodes.len()];
    let mut open = dag.nodes[index].needs.clone();
    while let Some(need) = open.pop() {
        if !std::mem::replace(&mut earlier[need], true) {
            open.extend(&dag.nodes[need].needs);
        }
    }
    earlier
}

/// Whether each node begins after node `index` has ended.
fn list_later(dag: &Dag, index: usize) -> Vec<bool> {
    let mut followers = vec![Vec::new(); dag.nodes.len()];
    for (at, node) in dag.nodes.iter().enumerate() {
        node.needs.iter().for_each(|need| followers[*need].push(at));
    }
    let mut later = vec![false; dag.nodes.len()];
    let mut open = followers[index].clone();
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut later[at], true) {
            open.extend(&followers[at]);
        }
    }
    later
}

fn writes_name(step: &Step, name: &str) -> bool {
    step.writes.iter().flat_map(|write| &write.names).any(|written| written.as_literal() == Some(name))
}
