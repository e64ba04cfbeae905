//! The invariants of child runs: each is started once for an attempt, waits with its parent run, and reaches it once.

use std::collections::BTreeSet;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{ChildSuspension, Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::Value;

use crate::child_runs::{RUN_FIELD, SEQ_FIELD};
use crate::database::is_person;
use crate::plans::find_child_number;
use crate::world::World;

impl World {
    /// Checks a run that waits: its unfinished child runs wait, too, and it shows what they wait for. A child run may wait
    /// alone if a person has retried it after the end of its parent run.
    pub(crate) fn check_waiting_tree(&self, run: RunId) {
        let Some(state) = self.read_state(run) else { return };
        let has_parent = state.created.as_ref().is_some_and(|created| created.parent.is_some());
        let is_retried = state.earlier_ends.last().is_some_and(|end| is_person(&end.reopened_by));
        if has_parent && !is_retried {
            self.report_violation(format!("the child run {run} is {:?} after the end of its parent run", state.status));
        }
        for run in std::iter::once(run).chain(self.database.runs.list_runs_within(run)) {
            if let Err(violation) = self.read_state(run).map_or(Ok(()), |state| self.check_waiting_run(&state)) {
                self.report_violation(format!("run {run}: {violation}"));
            }
        }
    }

    fn check_waiting_run(&self, state: &RunState) -> Result<(), String> {
        let Some(run) = state.run.filter(|_| !state.status.is_final()) else { return Ok(()) };
        let known: Vec<&ChildSuspension> = state.suspended_children().map(|(_, child)| child).collect();
        for child in self.list_children(run) {
            let Some(suspended) = self.read_state(child).filter(|child| !child.status.is_final()) else { continue };
            let suspension = suspended.to_child_suspension();
            if suspension.is_none() || !known.iter().any(|known| Some(*known) == suspension.as_ref()) {
                return Err(format!("the child run {child} waits for {suspension:?}, and it shows {known:?}"));
            }
            if suspended.status == Status::Uncertain && state.status != Status::Uncertain {
                return Err(format!("it is {:?}, and the child run {child} is uncertain", state.status));
            }
        }
        Ok(())
    }

    /// The child runs that steps of a run have started.
    fn list_children(&self, run: RunId) -> Vec<RunId> {
        let runs = &self.database.runs;
        let is_child =
            |id: &RunId| runs.get_run(*id).and_then(|row| row.parent).is_some_and(|parent| parent.run == run);
        runs.list_runs_within(run).into_iter().filter(is_child).collect()
    }

    /// The child runs of a run that has ended: at most one for each attempt, and the outcomes of the attempts are theirs.
    pub(crate) fn check_children(&self, run: RunId, records: &[Arc<Record>]) -> Result<(), String> {
        let children = self.list_children(run);
        for child in &children {
            if !self.database.has_ended(*child) {
                return Err(format!("the child run {child} has not ended"));
            }
        }
        let is_call =
            |event: &Event| matches!(event, Event::StepStarted { target, .. } if find_child_number(target).is_some());
        let calls = records.iter().filter(|record| is_call(&record.event)).map(|record| (&record.path, record.attempt));
        let calls: BTreeSet<(&Path, u32)> = calls.collect();
        let paths: BTreeSet<&Path> = calls.iter().map(|(path, _)| *path).collect();
        for path in paths {
            let attempts = calls.iter().filter(|(of, _)| *of == path).count();
            let started: Vec<RunId> =
                children.iter().copied().filter(|child| self.is_started_by(*child, path)).collect();
            if started.len() > attempts {
                return Err(format!("{path} has started {} child runs in {attempts} attempts", started.len()));
            }
            for record in records.iter().filter(|record| record.path == *path && record.attempt > 0) {
                match &record.event {
                    Event::StepFinished { output, .. } => self.check_output(output.as_ref(), &started)?,
                    Event::StepFailed { error, .. } => self.check_error(error, &started)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn is_started_by(&self, child: RunId, path: &Path) -> bool {
        self.database.runs.get_run(child).and_then(|row| row.parent).is_some_and(|parent| parent.path == *path)
    }

    /// The output of a step that has driven a child run is that with which the child run ended.
    fn check_output(&self, output: Option<&Value>, started: &[RunId]) -> Result<(), String> {
        let field = |name| output.and_then(|output| output.get(name));
        let child = field(RUN_FIELD).and_then(Value::as_str).and_then(RunId::parse);
        let seq = field(SEQ_FIELD).and_then(Value::as_i64).and_then(|seq| u64::try_from(seq).ok());
        let (Some(child), Some(seq)) = (child.filter(|child| started.contains(child)), seq) else {
            return Err(format!("{output:?} is not the output of one of the child runs {started:?}"));
        };
        let is_end = |record: &Arc<Record>| {
            record.seq == seq && matches!(record.event, Event::RunFinished { status: Status::Succeeded, .. })
        };
        let records = self.database.runs.read_records(child, 0).unwrap_or_default();
        if records.iter().any(is_end) { Ok(()) } else { Err(format!("event {seq} of {child} is not its success")) }
    }

    /// The failure of a step that has driven a child run is that of the child run, or a time limit.
    fn check_error(&self, error: &StepFailure, started: &[RunId]) -> Result<(), String> {
        let has_failed = |child: &RunId| {
            let records = self.database.runs.read_records(*child, 0).unwrap_or_default();
            records.iter().any(
                |record| matches!(&record.event, Event::RunFinished { error: Some(recorded), .. } if recorded == error),
            )
        };
        match error.code == Code::StepTimeout || started.iter().any(has_failed) {
            true => Ok(()),
            false => Err(format!("no child run of {started:?} has failed with {error:?}")),
        }
    }
}
