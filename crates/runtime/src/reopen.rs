//! Reopening a run that has ended: which of its steps are performed again.
//!
//! Without a step to start from, these are the steps whose failures ended the run. Nothing runs after an uncaught failure
//! except its siblings, so no other result depends on one. With a step to start from, they are also that step and every
//! step that may depend on it: one that started after it and is not in a branch that runs at the same time. Each of them
//! begins a new attempt.
//!
//! Effects that were abandoned continue as after a crash: under the same idempotency key, and only after a decision if they
//! may happen at most once.
//!
//! A function or block is performed again as a whole. Its child effects belong to an attempt, and stay in the record.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;
use flowloom_core::plan::{EffectClass, Plan};
use flowloom_core::state::{Phase, RunState, StepState};
use flowloom_core::status::Status;

use crate::branches::IndependentSteps;
use crate::command::{CommandAction, CommandOutcome, DecidedCommand, RunCommand};
use crate::engine_semantics;
use crate::error::RunError;

/// Number of similar paths that an error lists.
const MAX_SIMILAR_PATHS: usize = 3;

/// The records since a run was last reopened; all of them if it was not.
pub(crate) fn records_since_reopened(records: &[Arc<Record>]) -> &[Arc<Record>] {
    let last = records.iter().rposition(|record| matches!(record.event, Event::RunReopened { .. }));
    &records[last.unwrap_or_default()..]
}

/// Decides about the commands to a run that has ended. Returns the decisions, and the event that reopens the run if a
/// command does.
pub(crate) fn decide_retries(
    state: &RunState,
    records: &[Arc<Record>],
    plan: &Plan,
    commands: &[RunCommand],
) -> (Vec<DecidedCommand>, Option<Event>) {
    let mut decided = Vec::new();
    for command in commands {
        let CommandAction::Retry { from } = &command.action else { continue };
        let id = command.id.clone();
        match select_steps(state, records, plan, from.as_ref()) {
            Ok(RepeatedSteps { reset, continued }) => {
                decided.push(DecidedCommand { id, outcome: CommandOutcome::Applied });
                let by = command.sender.clone();
                return (decided, Some(Event::RunReopened { from: from.clone(), by, reset, continued }));
            }
            Err(error) => decided.push(DecidedCommand { id, outcome: CommandOutcome::Rejected(error.into()) }),
        }
    }
    (decided, None)
}

/// The steps that a reopened run performs again.
#[derive(Debug)]
pub struct RepeatedSteps {
    /// Steps that begin a new attempt.
    pub reset: Vec<Path>,
    /// Effects that were abandoned and continue.
    pub continued: Vec<Path>,
}

/// The steps that are performed again if a run of `plan` that has ended is retried from `from`. Fails if the run has no such
/// step, or if nothing failed and there is no step to start from.
pub fn select_steps(
    state: &RunState,
    records: &[Arc<Record>],
    plan: &Plan,
    from: Option<&Path>,
) -> Result<RepeatedSteps, RunError> {
    if !state.status.is_final() {
        return Err(RunError::NotEnded(state.status));
    }
    let semantics = state.created.as_ref().map_or_else(engine_semantics, |created| created.engine_semantics);
    if semantics != engine_semantics() {
        return Err(RunError::OtherSemantics(semantics));
    }
    let selection = StepSelection::new(state);
    let mut reset = BTreeSet::new();
    if state.status != Status::Succeeded {
        selection.add_causes(&mut reset);
    }
    if let Some(from) = from {
        selection.add_following(from, records, plan, &mut reset)?;
    }
    let continued = if state.status == Status::Succeeded { Vec::new() } else { selection.find_abandoned(&reset) };
    // A run that was stopped may have had nothing in progress.
    let was_stopped = matches!(state.status, Status::Cancelled | Status::TimedOut | Status::BudgetExceeded);
    if reset.is_empty() && continued.is_empty() && !was_stopped {
        return Err(RunError::NothingFailed);
    }
    Ok(RepeatedSteps { reset: reset.into_iter().collect(), continued })
}

/// The step of a run that a path means: the step itself, or the function or block around a child effect. Fails if the run
/// has no such step.
pub fn find_performed_step(state: &RunState, path: &Path) -> Result<Path, RunError> {
    let selection = StepSelection::new(state);
    let path = selection.find_host(path)?;
    match state.steps().iter().any(|step| step.path.is_within(&path)) {
        true => Ok(path),
        false => Err(RunError::NoSuchStep { similar: selection.find_similar(&path), path }),
    }
}

/// The steps of a run that has ended.
struct StepSelection<'a> {
    state: &'a RunState,
    /// Paths of functions and blocks, which have child effects.
    hosts: HashSet<&'a str>,
    /// Paths of composites that ended, which caught the failures within them.
    ended: HashSet<&'a str>,
}

impl<'a> StepSelection<'a> {
    fn new(state: &'a RunState) -> StepSelection<'a> {
        let paths = |is: fn(&StepState) -> bool| {
            state.steps().iter().filter(|step| is(step)).map(|step| step.path.as_str()).collect()
        };
        let is_host = |step: &StepState| matches!(step.kind.as_deref(), Some("python" | "call"));
        let has_ended = |step: &StepState| {
            let is_over = step.phase == Phase::Finished || (step.phase == Phase::Failed && step.is_failure_ignored);
            is_over && step.attempts == 0
        };
        StepSelection { state, hosts: paths(is_host), ended: paths(has_ended) }
    }

    /// Whether a path belongs to an attempt of the function or block around it.
    fn is_child_effect(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.hosts.contains(above))
    }

    /// The effects that were abandoned and can continue, with the child effects of those that are functions or blocks.
    fn find_abandoned(&self, reset: &BTreeSet<Path>) -> Vec<Path> {
        let continues = |path: &Path| {
            let step = self.state.find_step(path);
            step.is_some_and(is_abandoned) && !reset.contains(path)
        };
        let steps = self.state.steps().iter().filter(|step| continues(&step.path) && !self.has_ended_around(step, 0));
        let steps = steps.filter(|step| {
            let hosts = step.path.ancestors().filter(|above| self.hosts.contains(above));
            hosts.filter_map(Path::parse).all(|host| continues(&host))
        });
        steps.map(|step| step.path.clone()).collect()
    }

    /// Whether a composite around the step has ended, other than the `outermost` ones.
    fn has_ended_around(&self, step: &StepState, outermost: usize) -> bool {
        step.path.ancestors().skip(outermost).any(|above| self.ended.contains(above))
    }

    /// Adds the steps whose failures ended the run, and functions that were abandoned.
    fn add_causes(&self, reset: &mut BTreeSet<Path>) {
        self.add_uncaught(&Path::root(), reset);
        if let Some(failed) = &self.state.failed {
            let has_outcome = self.state.find_step(failed).is_some_and(|step| !is_abandoned(step));
            reset.extend((has_outcome && !self.is_child_effect(failed)).then(|| failed.clone()));
            let code = self.state.error.as_ref().map(|error| error.code);
            self.add_failed_nodes(failed, code, reset);
        }
    }

    /// Adds the steps within `scope` that failed, unless a composite within `scope` has ended since, and functions that were
    /// abandoned. A child run of such a function was cancelled, so only another attempt starts one.
    fn add_uncaught(&self, scope: &Path, reset: &mut BTreeSet<Path>) {
        for step in self.state.steps().iter().filter(|step| step.path != *scope && step.path.is_within(scope)) {
            let outermost = step.path.ancestors().take_while(|above| *above != scope.as_str()).count() + 1;
            let is_abandoned_call = is_abandoned(step)
                && step.kind.as_deref() == Some("call")
                && step.class == Some(EffectClass::AtLeastOnce);
            if (is_abandoned_call || self.is_uncaught(step))
                && !self.has_ended_around(step, outermost)
                && !self.is_child_effect(&step.path)
            {
                reset.insert(step.path.clone());
            }
        }
    }

    /// Whether a step failed and nothing continued without it. The failure of a tool is reported to the model, whose turn
    /// is the step around it.
    fn is_uncaught(&self, step: &StepState) -> bool {
        let is_model_turn = |above: &str| {
            let turn = Path::parse(above).and_then(|above| self.state.find_step(&above));
            turn.is_some_and(|turn| turn.phase == Phase::Finished && turn.attempts > 0)
        };
        let is_last = self.state.failed.as_ref().is_some_and(|failed| step.path.is_within(failed));
        step.phase == Phase::Failed
            && !step.is_failure_ignored
            && (step.attempts > 0 || is_last)
            && !step.path.ancestors().any(is_model_turn)
    }

    /// Adds the nodes of a graph that failed because of its nodes, what failed in them, and the nodes that were skipped.
    fn add_failed_nodes(&self, graph: &Path, code: Option<Code>, reset: &mut BTreeSet<Path>) {
        if code != Some(Code::NodesFailed) {
            return;
        }
        let nodes = self.state.steps().iter().filter(|step| step.path != *graph && step.path.parent() == *graph);
        for node in nodes.filter(|node| matches!(node.phase, Phase::Failed | Phase::Skipped)) {
            reset.insert(node.path.clone());
            self.add_uncaught(&node.path, reset);
            self.add_failed_nodes(&node.path, node.error.as_ref().map(|error| error.code), reset);
        }
    }

    /// Adds the step at `from` and everything that started after it and may depend on it.
    fn add_following(
        &self,
        from: &Path,
        records: &[Arc<Record>],
        plan: &Plan,
        reset: &mut BTreeSet<Path>,
    ) -> Result<(), RunError> {
        let from = self.find_host(from)?;
        let within = self.state.steps().iter().filter(|step| step.path.is_within(&from) && step.phase != Phase::Reset);
        let Some(start) = within.map(|step| step.first_seq).min() else {
            return Err(RunError::NoSuchStep { similar: self.find_similar(&from), path: from });
        };
        let independent = IndependentSteps::new(plan, records, &from);
        let following = self.state.steps().iter().filter(|step| step.first_seq >= start).map(|step| &step.path);
        reset.extend(following.filter(|path| !self.is_child_effect(path) && !independent.has_step(path)).cloned());
        // The values of expressions are events and no steps.
        let evaluated = records.iter().filter(|record| record.seq >= start);
        let evaluated = evaluated.filter(|record| matches!(record.event, Event::Evaluated { .. }));
        let evaluated = evaluated.map(|record| &record.path).filter(|path| !independent.has_step(path));
        reset.extend(evaluated.cloned());
        Ok(())
    }

    /// The function or block around a child effect; otherwise the path itself. Fails if the function or block has no such
    /// child effect: a step of a child run is one of that run.
    fn find_host(&self, path: &Path) -> Result<Path, RunError> {
        let host = path.ancestors().find(|above| self.hosts.contains(above)).and_then(Path::parse);
        let Some(host) = host else { return Ok(path.clone()) };
        match self.state.steps().iter().any(|step| step.path.is_within(path)) {
            true => Ok(host),
            false => Err(RunError::NoSuchStep { similar: vec![host], path: path.clone() }),
        }
    }

    /// Paths of steps that look like `path`, best first.
    fn find_similar(&self, path: &Path) -> Vec<Path> {
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let wanted = name(path.as_str());
        let rank = |step: &&StepState| {
            let has = name(step.path.as_str());
            let common = has.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
            (std::cmp::Reverse(common), has.len().abs_diff(wanted.len()), step.first_seq)
        };
        let mut steps: Vec<&StepState> =
            self.state.steps().iter().filter(|step| !self.is_child_effect(&step.path)).collect();
        steps.sort_by_key(rank);
        steps.into_iter().take(MAX_SIMILAR_PATHS).map(|step| step.path.clone()).collect()
    }
}

/// Whether an effect has no outcome, because its run or branch ended.
fn is_abandoned(step: &StepState) -> bool {
    step.phase == Phase::Aborted || (step.phase == Phase::Running && step.is_attempt_open())
}
