//! A run's state: the fold of its events. Which events can follow which is in `order`.

mod open;
mod order;
mod step;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::chat::Usage;
use crate::error::StepFailure;
use crate::event::{AfterFailure, ChildSuspension, Event, Record, RunCreated, WARNING_PROGRESS};
use crate::path::Path;
use crate::status::Status;
use crate::value::Value;

pub use open::{ChildStep, OpenStep};
use order::StepOrder;
pub use order::{IllegalEvent, Violation};
pub use step::{Phase, StepState};

/// The state that the events of a run add up to.
///
/// # Examples
///
/// ```
/// use flowloom_core::event::Record;
/// use flowloom_core::state::RunState;
/// use flowloom_core::status::Status;
///
/// let line = r#"{"run":"01a20536-48af-7530-b4af-d834a3e9ed5c","seq":1,"at":1795383773360,"path":"/","attempt":0,
///     "event":"run_created","data":{"engine_semantics":1,"format":"flow","name":"greet",
///     "bundle":"491f173d1a425ba00bf07625f2b2bbb6","inputs":{"name":"Ann"},"user":"local","limits":{"steps":10,
///     "iterations":10,"nesting":64,"subflow_depth":8,"parallel":10,"time_ms":null,"output_bytes":1000,
///     "source_bytes":1000,"tokens":null,"micro_usd":null}}}"#;
/// let created: Record = serde_json::from_str(line)?;
/// let mut state = RunState::from_records([&created])?;
/// assert_eq!(state.inputs().get("name").and_then(|name| name.as_str()), Some("Ann"));
/// // An event that cannot follow is refused.
/// assert!(state.apply(&created).is_err() && state.status == Status::Queued);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunState {
    /// The run; `None` before the first event.
    pub run: Option<crate::id::RunId>,
    /// The data of the run's creation; `None` before `run_created`.
    pub created: Option<Arc<RunCreated>>,
    /// The status of the run.
    pub status: Status,
    /// Time of creation, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Time of the end, in milliseconds since the Unix epoch; `None` while the run has not ended.
    pub finished_at: Option<u64>,
    /// The error of a run that did not succeed.
    pub error: Option<StepFailure>,
    /// The step whose failure ended the run.
    pub failed: Option<Path>,
    /// Tokens and cost of all model calls.
    pub usage: Usage,
    /// Sequence number of the last event.
    pub seq: u64,
    /// The earlier ends of the run, after each of which it was reopened.
    pub earlier_ends: Vec<EarlierEnd>,
    /// The epoch of the last start; 0 before the first.
    epoch: u64,
    steps: Vec<StepState>,
    index: HashMap<Path, usize>,
    /// The suspended child runs by the steps that wait for them, each with the attempt that started it.
    suspended_children: BTreeMap<Path, (u32, ChildSuspension)>,
    /// The steps that no longer wait for a person, because a decision about them is stored. No event records that.
    decided: BTreeSet<Path>,
}

/// An end of a run that was reopened later.
#[derive(Clone, Debug)]
pub struct EarlierEnd {
    /// The status with which the run ended.
    pub status: Status,
    /// Time of the end, in milliseconds since the Unix epoch.
    pub finished_at: Option<u64>,
    /// The error, unless the run succeeded.
    pub error: Option<StepFailure>,
    /// The step whose failure ended the run.
    pub failed: Option<Path>,
    /// The person or program that reopened the run.
    pub reopened_by: String,
    /// Time of the reopening, in milliseconds since the Unix epoch.
    pub reopened_at: u64,
    /// The usage of the run up to this end.
    pub usage: Usage,
}

impl Default for RunState {
    fn default() -> RunState {
        RunState {
            run: None,
            created: None,
            status: Status::Queued,
            created_at: 0,
            finished_at: None,
            error: None,
            failed: None,
            usage: Usage::none(),
            seq: 0,
            earlier_ends: Vec::new(),
            epoch: 0,
            steps: Vec::new(),
            index: HashMap::new(),
            suspended_children: BTreeMap::new(),
            decided: BTreeSet::new(),
        }
    }
}

impl RunState {
    /// Folds a whole journal. An error if its events cannot have happened in this order.
    pub fn from_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Result<RunState, IllegalEvent> {
        let records = records.into_iter();
        let mut state = RunState::for_records(records.size_hint().0);
        for record in records {
            state.apply(record)?;
        }
        Ok(state)
    }

    /// Folds a whole journal up to the first event that cannot have happened; also that event, if there is one.
    pub fn up_to_illegal<'a>(records: impl IntoIterator<Item = &'a Record>) -> (RunState, Option<IllegalEvent>) {
        let mut records = records.into_iter();
        let mut state = RunState::for_records(records.size_hint().0);
        let illegal = records.find_map(|record| state.apply(record).err());
        (state, illegal)
    }

    fn for_records(count: usize) -> RunState {
        let mut state = RunState::default();
        // Most steps have two events; growing a large state copies it several times.
        state.steps.reserve(count / 2);
        state.index.reserve(count / 2);
        state
    }

    /// Adds one event. An error if it cannot follow the ones before it; the state is then unchanged.
    pub fn apply(&mut self, record: &Record) -> Result<(), IllegalEvent> {
        self.check(record).and_then(|()| self.change(record)).map_err(|reason| IllegalEvent {
            seq: record.seq,
            kind: record.event.kind(),
            path: record.path.clone(),
            attempt: record.attempt,
            status: self.status,
            reason,
        })
    }

    /// Holds an event to the rules of the run as a whole.
    fn check(&self, record: &Record) -> Result<(), Violation> {
        if record.seq != self.seq + 1 {
            return Err(Violation::Position { expected: self.seq + 1 });
        }
        if self.run.is_some_and(|run| run != record.run) {
            return Err(Violation::OtherRun);
        }
        match (&record.event, &self.created) {
            (Event::RunCreated(_), None) => return Ok(()),
            (Event::RunCreated(_), Some(_)) => return Err(Violation::CreatedAgain),
            (_, None) => return Err(Violation::NotCreated),
            (_, Some(_)) => {}
        }
        if self.status.is_final() {
            return match &record.event {
                Event::Answered { .. } | Event::Resolved { .. } | Event::RunReopened { .. } => Ok(()),
                _ => Err(Violation::RunEnded),
            };
        }
        match &record.event {
            Event::RunStarted { epoch } if *epoch <= self.epoch => Err(Violation::OldEpoch { last: self.epoch }),
            Event::RunSuspended { status }
                if !matches!(status, Status::Waiting | Status::Uncertain | Status::Quarantined) =>
            {
                Err(Violation::WrongStatus(*status))
            }
            Event::RunFinished { status, .. } if !status.is_final() => Err(Violation::WrongStatus(*status)),
            Event::RunReopened { .. } => Err(Violation::NotEnded),
            Event::RunCreated(_)
            | Event::RunStarted { .. }
            | Event::RunSuspended { .. }
            | Event::RunFinished { .. }
            | Event::CancelRequested { .. } => Ok(()),
            _ if self.epoch == 0 => Err(Violation::NotStarted),
            _ => Ok(()),
        }
    }

    fn change(&mut self, record: &Record) -> Result<(), Violation> {
        match &record.event {
            Event::RunCreated(created) => {
                self.created = Some(Arc::new((**created).clone()));
                self.created_at = record.at;
            }
            Event::RunStarted { epoch } => {
                self.status = Status::Running;
                self.epoch = *epoch;
            }
            Event::CancelRequested { .. } | Event::EdgeTaken { .. } | Event::Evaluated { .. } => {}
            Event::Progress { name, data } if name == WARNING_PROGRESS => self.add_warnings(&record.path, data),
            Event::Progress { .. } => {}
            Event::RunSuspended { status } => self.status = *status,
            Event::RunFinished { status, error, failed, .. } => {
                self.status = *status;
                self.error = error.clone();
                self.failed = failed.clone();
                self.finished_at = Some(record.at);
                self.abandon_suspended_children();
            }
            Event::RunReopened { by, reset, continued, .. } => self.reopen_run(record.at, by, reset, continued),
            Event::StepStarted { .. }
            | Event::StepFinished { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::StepAborted { .. }
            | Event::Asked(_)
            | Event::Answered { .. }
            | Event::TimerSet { .. }
            | Event::StepUncertain
            | Event::Resolved { .. }
            | Event::StepResent
            | Event::ChildSuspended(_)
            | Event::ChildResumed { .. } => self.apply_step(record)?,
        }
        // The run continues after the event that ended a wait.
        if matches!(record.event, Event::Answered { .. } | Event::Resolved { .. } | Event::ChildResumed { .. })
            && !self.status.is_final()
        {
            self.status = Status::Running;
        }
        self.seq = record.seq;
        self.run = Some(record.run);
        Ok(())
    }

    fn add_warnings(&mut self, path: &Path, data: &Value) {
        let Some(at) = self.index.get(path) else { return };
        let messages = data.as_map().and_then(|data| data.get("messages")).and_then(Value::as_list).unwrap_or_default();
        let step = &mut self.steps[*at];
        messages.iter().for_each(|message| step.add_warning(message.as_str()));
    }

    /// Continues a run that had ended. Its usage is kept.
    fn reopen_run(&mut self, at: u64, by: &str, reset: &[Path], continued: &[Path]) {
        let end = EarlierEnd {
            status: self.status,
            finished_at: self.finished_at.take(),
            error: self.error.take(),
            failed: self.failed.take(),
            reopened_by: by.to_owned(),
            reopened_at: at,
            usage: self.usage,
        };
        self.earlier_ends.push(end);
        self.status = Status::Running;
        for path in reset {
            if let Some(index) = self.index.get(path) {
                self.steps[*index].reset();
            }
        }
        for path in continued {
            if let Some(index) = self.index.get(path) {
                self.steps[*index].continue_attempt();
            }
        }
    }

    /// Adds the usage of an event. Reused outcomes cost nothing and do not count.
    fn count_usage(&mut self, event: &Event) {
        if let Event::StepFinished { usage: Some(usage), reused: false, .. }
        | Event::StepFailed { usage: Some(usage), reused: false, .. } = event
        {
            self.usage.add(usage);
        }
    }

    fn apply_step(&mut self, record: &Record) -> Result<(), Violation> {
        let at = self.advance(record)?;
        self.update_suspended_child(record);
        self.count_usage(&record.event);
        let step = &mut self.steps[at];
        if step.phase == Phase::Reset {
            (step.started_at, step.first_seq) = (record.at, record.seq);
        }
        match &record.event {
            Event::StepStarted { kind, target, class, .. } => {
                step.phase = Phase::Running;
                step.kind = Some(kind.clone());
                step.target = Some(target.clone());
                step.class = Some(*class);
                step.attempts = record.attempt;
            }
            Event::StepFinished { output, usage, reused, response, .. } => {
                step.phase = Phase::Finished;
                step.is_reused = *reused;
                step.output = output.clone();
                step.add_usage(usage.as_ref());
                step.response.clone_from(response);
                step.add_warning(response.as_ref().and_then(|facts| facts.finish_reason?.describe_warning()));
                step.question = None;
                step.finished_at = Some(record.at);
            }
            Event::StepFailed { error, then, usage, reused } => {
                step.is_reused = *reused;
                step.add_usage(usage.as_ref());
                step.first_error.get_or_insert_with(|| error.clone());
                step.error = Some(error.clone());
                step.is_failure_ignored = *then == AfterFailure::Continue;
                step.phase = if matches!(then, AfterFailure::Retry(_)) { Phase::Running } else { Phase::Failed };
                step.question = None;
                step.finished_at = Some(record.at);
            }
            Event::StepSkipped { reason } => {
                step.phase = Phase::Skipped;
                step.reason = Some(reason.as_str().into());
                step.finished_at = Some(record.at);
            }
            Event::StepAborted { .. } => {
                step.phase = Phase::Aborted;
                step.question = None;
                step.finished_at = Some(record.at);
            }
            Event::Asked(question) => {
                step.phase = Phase::Waiting;
                step.question = Some(question.clone());
            }
            Event::TimerSet { .. } => step.phase = Phase::Waiting,
            Event::Answered { .. } => {
                step.phase = Phase::Running;
                step.question = None;
            }
            Event::StepUncertain => step.phase = Phase::Uncertain,
            Event::Resolved { .. } | Event::StepResent | Event::ChildResumed { .. } => step.phase = Phase::Running,
            Event::ChildSuspended(child) => {
                step.phase = if child.status == Status::Uncertain { Phase::Uncertain } else { Phase::Waiting };
            }
            Event::RunCreated(_)
            | Event::RunStarted { .. }
            | Event::EdgeTaken { .. }
            | Event::Evaluated { .. }
            | Event::Progress { .. }
            | Event::CancelRequested { .. }
            | Event::RunSuspended { .. }
            | Event::RunFinished { .. }
            | Event::RunReopened { .. } => {}
        }
        Ok(())
    }

    /// The index of the step that an event is about, which is added if it is new; an error if the event cannot follow the
    /// step's earlier ones.
    fn advance(&mut self, record: &Record) -> Result<usize, Violation> {
        // Most events follow one of the same step, which is not looked up again.
        if let Some(step) = self.steps.last_mut().filter(|step| step.path == record.path) {
            step.order.advance(record)?;
            return Ok(self.steps.len() - 1);
        }
        match self.index.entry(record.path.clone()) {
            Entry::Occupied(known) => {
                let at = *known.get();
                self.steps[at].order.advance(record)?;
                Ok(at)
            }
            Entry::Vacant(new) => {
                let mut order = StepOrder::default();
                order.advance(record)?;
                let at = *new.insert(self.steps.len());
                self.steps.push(StepState::new(record, order));
                Ok(at)
            }
        }
    }

    /// The usage since the run was last reopened; that of the whole run if it never was.
    pub fn usage_since_reopened(&self) -> Usage {
        match self.earlier_ends.last() {
            Some(end) => self.usage.subtract_usage(&end.usage),
            None => self.usage,
        }
    }

    /// The steps in the order of their first events.
    pub fn steps(&self) -> &[StepState] {
        &self.steps
    }

    /// The state of the step at `path`; `None` if no event has this path.
    pub fn find_step(&self, path: &Path) -> Option<&StepState> {
        self.index.get(path).map(|at| &self.steps[*at])
    }

    /// The inputs of the run; null before `run_created`.
    pub fn inputs(&self) -> Value {
        self.created.as_ref().map(|created| created.inputs.clone()).unwrap_or_default()
    }
}
