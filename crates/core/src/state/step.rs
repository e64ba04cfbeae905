//! The state of a step: the fold of its events.

use std::borrow::Cow;
use std::sync::Arc;

use super::order::StepOrder;
use crate::chat::Usage;
use crate::effect::{AskRequest, ResponseFacts};
use crate::error::StepFailure;
use crate::event::Record;
use crate::path::Path;
use crate::plan::EffectClass;
use crate::value::Value;

/// The state of one step.
#[derive(Clone, Debug)]
pub struct StepState {
    /// The path of the step.
    pub path: Path,
    /// The phase of the step.
    pub phase: Phase,
    /// Kind of its effect; `None` before it has started.
    pub kind: Option<Cow<'static, str>>,
    /// The target of its effect: model, address or function.
    pub target: Option<Arc<str>>,
    /// The effect class; `None` before the effect has started.
    pub class: Option<EffectClass>,
    /// The output, if there is one.
    pub output: Option<Value>,
    /// The last failure.
    pub error: Option<StepFailure>,
    /// The reason why the step was skipped.
    pub reason: Option<Arc<str>>,
    /// The first failure; a step whose retries are exhausted reports it.
    pub first_error: Option<StepFailure>,
    /// Number of the latest attempt, from 1; 0 before the first.
    pub attempts: u32,
    /// Time of the step's first event, in milliseconds since the Unix epoch.
    pub started_at: u64,
    /// Time of the end, in milliseconds since the Unix epoch.
    pub finished_at: Option<u64>,
    /// Tokens and cost.
    pub usage: Option<Usage>,
    /// Facts about the response to its effect.
    pub response: Option<Box<ResponseFacts>>,
    /// References of its requests that had no value, and answers that were cut off.
    pub warnings: Vec<String>,
    /// The open question to a person, if the step waits for one.
    pub question: Option<AskRequest>,
    /// Whether the run continued without the output after the last failure.
    pub is_failure_ignored: bool,
    /// Whether the output was taken from the run that this one was forked from.
    pub is_reused: bool,
    /// Sequence number of the step's first event since its result was last reset.
    pub first_seq: u64,
    /// The events that may follow.
    pub(super) order: StepOrder,
}

/// The phase of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// In progress, or between two attempts.
    Running,
    /// Finished; the output is recorded.
    Finished,
    /// Failed, with no further attempt.
    Failed,
    /// Skipped.
    Skipped,
    /// Abandoned before its effect returned.
    Aborted,
    /// Waits for a person or a timer.
    Waiting,
    /// The effect may or may not have happened.
    Uncertain,
    /// The run was reopened, and the step has not started again. Its results no longer count.
    Reset,
}

impl Phase {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Running => "running",
            Phase::Finished => "finished",
            Phase::Failed => "failed",
            Phase::Skipped => "skipped",
            Phase::Aborted => "aborted",
            Phase::Waiting => "waiting",
            Phase::Uncertain => "uncertain",
            Phase::Reset => "reset",
        }
    }
}

impl StepState {
    /// A step of which `record` is the first event.
    pub(super) fn new(record: &Record, order: StepOrder) -> StepState {
        StepState {
            path: record.path.clone(),
            phase: Phase::Running,
            kind: None,
            target: None,
            class: None,
            output: None,
            error: None,
            reason: None,
            first_error: None,
            attempts: 0,
            started_at: record.at,
            finished_at: None,
            usage: None,
            response: None,
            warnings: Vec::new(),
            question: None,
            is_failure_ignored: false,
            is_reused: false,
            first_seq: record.seq,
            order,
        }
    }

    /// Whether an attempt was started and has no outcome.
    pub fn is_attempt_open(&self) -> bool {
        self.order.is_attempt_open()
    }

    /// Adds the usage of an attempt.
    pub(super) fn add_usage(&mut self, usage: Option<&Usage>) {
        if let Some(usage) = usage {
            self.usage.get_or_insert_with(Usage::none).add(usage);
        }
    }

    /// Adds a warning, if there is one and it is new.
    pub(super) fn add_warning(&mut self, message: Option<&str>) {
        if let Some(message) = message
            && !self.warnings.iter().any(|known| known == message)
        {
            self.warnings.push(message.to_owned());
        }
    }

    /// Lets an effect that was abandoned continue.
    pub(super) fn continue_attempt(&mut self) {
        self.phase = Phase::Running;
        self.finished_at = None;
        self.order.continue_attempt();
    }

    /// Forgets the result, but not the number of attempts.
    pub(super) fn reset(&mut self) {
        self.phase = Phase::Reset;
        (self.output, self.error, self.first_error, self.reason) = (None, None, None, None);
        (self.finished_at, self.usage, self.question) = (None, None, None);
        self.is_failure_ignored = false;
        self.order.reset();
    }
}
