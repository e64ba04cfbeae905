//! The steps of a run, and of its child runs, that wait for a person.

use std::sync::Arc;

use crate::effect::AskRequest;
use crate::event::{ChildSuspension, Event, OpenChildStep, Record};
use crate::id::RunId;
use crate::path::Path;
use crate::status::Status;

use super::{Phase, RunState, StepState};

/// A step that waits for a person, in the run or in one of its child runs.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenStep<'a> {
    /// Its path in this run.
    pub path: Path,
    /// Its question; `None` if its effect is uncertain.
    pub question: Option<&'a AskRequest>,
    /// The target of its effect: model, address or function.
    pub target: Option<&'a Arc<str>>,
    /// The step in the child run, if it is one of a child run.
    pub child: Option<ChildStep<'a>>,
}

/// A step of a child run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChildStep<'a> {
    /// The child run.
    pub run: RunId,
    /// The path of the step in the child run.
    pub path: &'a Path,
}

impl RunState {
    /// The steps that wait for a person: those of the run in the order of their first events, then those of its child
    /// runs.
    pub fn open_steps(&self) -> impl Iterator<Item = OpenStep<'_>> {
        self.undecided_steps().filter(|step| !self.is_decided(&step.path))
    }

    /// Notes that an answer to a step, or a decision about it, is stored but not applied yet.
    pub fn note_decision(&mut self, path: Path) {
        self.decided.insert(path);
    }

    /// Whether [`RunState::note_decision`] was called for a step.
    pub fn is_decided(&self, path: &Path) -> bool {
        self.decided.contains(path)
    }

    /// The steps about which something was decided that is not applied yet.
    pub fn decided_steps(&self) -> impl Iterator<Item = &Path> {
        self.decided.iter()
    }

    /// The steps whose decisions no event records.
    fn undecided_steps(&self) -> impl Iterator<Item = OpenStep<'_>> {
        let is_own = |step: &&StepState| !self.suspended_children.contains_key(&step.path);
        let own = self.steps.iter().filter(is_own).filter_map(StepState::as_open_step);
        own.chain(self.suspended_children.iter().flat_map(|(path, (attempt, child))| {
            child.open.iter().map(|open| OpenStep {
                path: path.child_run_path(*attempt, &open.path),
                question: open.question.as_ref(),
                target: open.target.as_ref(),
                child: Some(ChildStep { run: child.run, path: &open.path }),
            })
        }))
    }

    /// The step of a child run that has `path` in this run and waits for a person.
    pub fn find_child_step(&self, path: &Path) -> Option<ChildStep<'_>> {
        if self.suspended_children.is_empty() {
            return None;
        }
        self.open_steps().find(|open| open.path == *path)?.child
    }

    /// The suspended child runs, each with the step that waits for it.
    pub fn suspended_children(&self) -> impl Iterator<Item = (&Path, &ChildSuspension)> {
        self.suspended_children.iter().map(|(path, (_, child))| (path, child))
    }

    /// The record of this run's suspension for its parent run; `None` if it is not suspended.
    pub fn to_child_suspension(&self) -> Option<ChildSuspension> {
        if !matches!(self.status, Status::Waiting | Status::Uncertain | Status::Quarantined) {
            return None;
        }
        let open = self.open_steps().map(|step| OpenChildStep {
            question: step.question.cloned(),
            target: step.target.cloned(),
            path: step.path,
        });
        Some(ChildSuspension { run: self.run?, status: self.status, open: open.collect() })
    }

    /// Notes that the run has ended, which cancels its child runs.
    pub(super) fn abandon_suspended_children(&mut self) {
        for path in std::mem::take(&mut self.suspended_children).into_keys() {
            if let Some(at) = self.index.get(&path) {
                self.steps[*at].phase = Phase::Running;
            }
        }
    }

    /// Notes that a child run is suspended, or that the step which waits for it continues or has ended.
    pub(super) fn update_suspended_child(&mut self, record: &Record) {
        match &record.event {
            Event::ChildSuspended(child) => {
                self.suspended_children.insert(record.path.clone(), (record.attempt, child.clone()));
            }
            Event::ChildResumed { .. }
            | Event::StepFinished { .. }
            | Event::StepFailed { .. }
            | Event::StepAborted { .. }
                if !self.suspended_children.is_empty() =>
            {
                self.suspended_children.remove(&record.path);
            }
            _ => {}
        }
    }
}

impl StepState {
    /// The step as one that waits for a person; `None` if it does not.
    fn as_open_step(&self) -> Option<OpenStep<'_>> {
        let is_open = match self.phase {
            Phase::Waiting => self.question.is_some(),
            Phase::Uncertain => true,
            _ => false,
        };
        let (question, target) = (self.question.as_ref(), self.target.as_ref());
        is_open.then(|| OpenStep { path: self.path.clone(), question, target, child: None })
    }
}
