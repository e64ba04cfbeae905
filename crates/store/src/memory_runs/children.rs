//! Child runs of runs in memory: which step drives them, and the commands that a child run and its parent run cause in each
//! other's inbox.

use flowloom_core::event::{ParentStep, Record};
use flowloom_core::id::RunId;
use flowloom_runtime::JournalError;
use flowloom_runtime::command::{CommandRecord, RunCommand};

use super::{MemoryRun, MemoryState};
use crate::commands::{
    CancelledChildren, CausedCommand, ParentLease, cancel_command, find_cancelled, is_cancelled_by_parent,
    reject_retries, resume_command,
};

impl MemoryState {
    /// The child runs that the steps of a run have started.
    pub(super) fn list_children(&self, run: RunId) -> impl Iterator<Item = RunId> {
        self.children.get(&run).into_iter().flat_map(|steps| steps.values().flatten().copied())
    }

    /// The run whose step has started a run.
    pub(super) fn find_parent(&self, run: RunId) -> Option<RunId> {
        self.runs.get(&run)?.row.parent.as_ref().map(|parent| parent.run)
    }

    /// The run whose step drives a run, unless the step was abandoned and has cancelled it.
    pub(super) fn find_driving_parent(&self, run: RunId) -> Option<RunId> {
        let is_left = self.runs.get(&run)?.inbox.pending_commands().iter().any(is_cancelled_by_parent);
        self.find_parent(run).filter(|_| !is_left)
    }

    /// Fails with `OwnershipLost` if a step may not start, drive or retry child runs.
    pub(super) fn check_step(&self, step: &ParentStep) -> Result<(), JournalError> {
        self.runs.get(&step.run).map_or(Ok(()), |stored| stored.to_parent_lease().check_step(step))
    }

    /// The outermost of the unfinished runs around a run; `None` if its parent run has ended.
    pub(super) fn find_unfinished_around(&self, run: RunId) -> Option<RunId> {
        let unfinished_parent = |run: &RunId| self.find_parent(*run).filter(|parent| self.is_unfinished(*parent));
        std::iter::successors(unfinished_parent(&run), unfinished_parent).last()
    }

    /// The outermost run around a run, or the run itself.
    pub(super) fn find_outermost(&self, run: RunId) -> RunId {
        std::iter::successors(Some(run), |run| self.find_parent(*run)).last().unwrap_or(run)
    }

    /// A command with this id to a run or to one of its child runs, with the run that received it.
    pub(super) fn find_command_within(&self, run: RunId, id: &str) -> Option<(RunId, CommandRecord)> {
        let own = self.runs.get(&run)?.inbox.find_command(id).map(|record| (run, record.clone()));
        let mut children = self.list_children(run);
        own.or_else(|| children.find_map(|child| self.find_command_within(child, id)))
    }

    /// Asks the runs around a child run to continue, up to the first one that a worker drives. Returns the commands, and
    /// whether there is such a run.
    pub(super) fn resume_ancestors(&mut self, run: RunId, command: &RunCommand, at: u64) -> (Vec<CausedCommand>, bool) {
        let mut caused = Vec::new();
        let mut next = self.find_parent(run);
        while let Some(id) = next
            && let Some(ancestor) = self.runs.get_mut(&id)
            && ancestor.row.finished_at.is_none()
        {
            let resume = resume_command(run, command);
            if ancestor.inbox.post_command(resume.clone(), at).is_ok() {
                caused.push(CausedCommand { run: id, epoch: ancestor.epoch, command: resume });
            }
            if ancestor.is_driven {
                return (caused, true);
            }
            next = ancestor.row.parent.as_ref().map(|parent| parent.run);
        }
        (caused, false)
    }

    /// Cancels the unfinished child runs that a record cancels, and rejects the commands that would retry the others.
    pub(super) fn cancel_children(&mut self, record: &Record) -> Vec<CausedCommand> {
        let Some(which) = find_cancelled(record) else { return Vec::new() };
        let children = self.list_cancelled_children(record.run, &which);
        let mut caused = Vec::new();
        for id in &children {
            let Some(child) = self.runs.get_mut(id) else { continue };
            if child.row.finished_at.is_some() {
                let rejected = reject_retries(child.inbox.pending_commands(), record);
                child.inbox.store_decisions(&rejected, record.at);
                continue;
            }
            let cancel = cancel_command(record);
            if child.inbox.post_command(cancel.clone(), record.at).is_ok() {
                caused.push(CausedCommand { run: *id, epoch: child.epoch, command: cancel });
            }
        }
        caused
    }

    /// The child runs of `parent` that `which` includes.
    fn list_cancelled_children(&self, parent: RunId, which: &CancelledChildren<'_>) -> Vec<RunId> {
        let Some(steps) = self.children.get(&parent) else { return Vec::new() };
        match which {
            CancelledChildren::OfStep(path) => steps.get(*path).cloned().unwrap_or_default(),
            _ => {
                let started =
                    steps.iter().flat_map(|(step, runs)| runs.iter().map(move |run| (step, run, runs.last())));
                let included = started.filter(|(step, run, last)| which.includes_child(step, *last == Some(run)));
                included.map(|(_, run, _)| *run).collect()
            }
        }
    }
}

impl MemoryRun {
    fn to_parent_lease(&self) -> ParentLease {
        ParentLease { has_worker: self.is_driven, has_ended: self.row.finished_at.is_some(), epoch: self.epoch }
    }
}
