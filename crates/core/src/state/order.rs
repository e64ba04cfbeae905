//! Which events can follow which: the rules that make a journal legal.
//!
//! An effect's attempts are numbered from 1 and follow each other. Attempt 0 is a step's own end: of a composite, or of a
//! leaf whose output was refused after its effect. Two things look odd and are legal. An attempt that was aborted can
//! still fail, since a time-out drops its effect first. An answer or a decision can arrive after the attempt, or even the
//! run, that waited for it has ended; it then has no effect.

use crate::code::Code;
use crate::error::StepFailure;
use crate::event::{AfterFailure, Event, EventKind, Record};
use crate::path::Path;
use crate::status::Status;

/// An event that cannot follow the events before it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("event {seq} ({} at {path}, attempt {attempt}) is impossible in a run that is {}: {reason}", kind.name(), status.name())]
pub struct IllegalEvent {
    /// Its position in the journal.
    pub seq: u64,
    /// Its type.
    pub kind: EventKind,
    /// The step that it is about; `/` for the run.
    pub path: Path,
    /// The attempt that it is about, from 1; 0 where there is none.
    pub attempt: u32,
    /// The status of the run before it.
    pub status: Status,
    /// The rule that it breaks.
    pub reason: Violation,
}

impl From<IllegalEvent> for StepFailure {
    fn from(illegal: IllegalEvent) -> StepFailure {
        StepFailure::new(Code::StoreCorrupt, format!("the journal is damaged: {illegal}; restore a backup"))
    }
}

/// The rule that an [`IllegalEvent`] breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Positions have no gaps and no repetitions.
    #[error("its position should be {expected}")]
    Position {
        /// The position after the last event.
        expected: u64,
    },
    /// A journal holds one run.
    #[error("it belongs to another run")]
    OtherRun,
    /// The first event creates the run.
    #[error("the run was not created")]
    NotCreated,
    /// No other event does.
    #[error("the run was created already")]
    CreatedAgain,
    /// Steps run only in a run that was started.
    #[error("the run was not started")]
    NotStarted,
    /// Each process that takes the run has a higher epoch.
    #[error("its epoch is not above {last}")]
    OldEpoch {
        /// The epoch of the last start.
        last: u64,
    },
    /// A run is suspended with a status that is not final, and ends with one that is.
    #[error("a run cannot get the status {} by it", .0.name())]
    WrongStatus(Status),
    /// Nothing happens after the end of a run.
    #[error("the run has ended")]
    RunEnded,
    /// Only a run that has ended is reopened.
    #[error("the run has not ended")]
    NotEnded,
    /// The event requires an attempt in progress.
    #[error("this attempt is not in progress")]
    NotUnderWay,
    /// An attempt begins with the next number, after the one before it failed and is to be repeated.
    #[error("the next attempt should be {expected}, after a failure that is to be repeated")]
    WrongAttempt {
        /// The number of the next attempt.
        expected: u32,
    },
    /// A step ends once.
    #[error("the step has already ended, or is still in progress")]
    StepEnded,
    /// A step that did anything was not skipped.
    #[error("the step did something before")]
    NotSkipped,
    /// Each question is answered once.
    #[error("no question is open there")]
    NotAsked,
    /// Each uncertain effect is decided about once.
    #[error("no effect is uncertain there")]
    NotUncertain,
    /// An uncertain effect is sent again after a decision only.
    #[error("no one has decided to send the effect again")]
    NotResolved,
}

/// The last attempt at a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Attempt {
    /// There was none.
    #[default]
    None,
    /// It is under way.
    Open,
    /// Its effect was abandoned; it can still fail.
    Aborted,
    /// It failed, and another one follows.
    Repeated,
    /// It has its outcome, and no other one follows.
    Ended,
}

/// How a step ended under attempt 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    None,
    Failed,
    Other,
}

/// The kind of uncertainty about the last attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doubt {
    #[default]
    None,
    Open,
    Resolved,
}

/// The events that may follow for a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepOrder {
    last: u32,
    attempt: Attempt,
    end: End,
    doubt: Doubt,
    questions: u32,
}

impl StepOrder {
    /// Takes the next event of the step in; unchanged if the event is illegal.
    pub(super) fn advance(&mut self, record: &Record) -> Result<(), Violation> {
        let number = record.attempt;
        let is_current = number > 0 && number == self.last;
        match &record.event {
            Event::StepStarted { .. } => self.begin(number)?,
            Event::StepFinished { .. } | Event::StepFailed { .. } if number == 0 => self.end(&record.event)?,
            Event::StepFinished { .. } => {
                self.require(is_current && self.attempt == Attempt::Open)?;
                self.attempt = Attempt::Ended;
            }
            Event::StepFailed { then, .. } => {
                // An effect whose request cannot be made fails without a start.
                match is_current {
                    true => self.require(matches!(self.attempt, Attempt::Open | Attempt::Aborted))?,
                    false => self.begin(number)?,
                }
                let is_repeated = matches!(then, AfterFailure::Retry(_));
                self.attempt = if is_repeated { Attempt::Repeated } else { Attempt::Ended };
            }
            Event::StepSkipped { .. } => {
                if (self.attempt, self.end) != (Attempt::None, End::None) {
                    return Err(Violation::NotSkipped);
                }
                self.end = End::Other;
            }
            Event::StepAborted { .. } => {
                self.require(is_current && self.attempt == Attempt::Open)?;
                self.attempt = Attempt::Aborted;
            }
            Event::Asked(_) => {
                self.require(is_current && self.attempt == Attempt::Open)?;
                self.questions += 1;
            }
            Event::TimerSet { .. } | Event::ChildSuspended(_) | Event::ChildResumed { .. } => {
                self.require(is_current && self.attempt == Attempt::Open)?
            }
            Event::Answered { .. } => {
                let is_asked = (1..=self.last).contains(&number) && self.questions > 0;
                self.questions -= if is_asked { 1 } else { return Err(Violation::NotAsked) };
            }
            Event::StepUncertain => {
                self.require(is_current && self.attempt == Attempt::Open && self.doubt == Doubt::None)?;
                self.doubt = Doubt::Open;
            }
            Event::Resolved { .. } => match is_current && self.doubt == Doubt::Open {
                true => self.doubt = Doubt::Resolved,
                false => return Err(Violation::NotUncertain),
            },
            Event::StepResent => match is_current && self.attempt == Attempt::Open && self.doubt == Doubt::Resolved {
                true => self.doubt = Doubt::None,
                false => return Err(Violation::NotResolved),
            },
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

    /// Allows a further attempt, because the run was reopened.
    pub(super) fn reset(&mut self) {
        let attempt = if self.last == 0 { Attempt::None } else { Attempt::Repeated };
        *self = StepOrder { last: self.last, attempt, ..StepOrder::default() };
    }

    /// Lets an attempt that was aborted continue, because the run was reopened.
    pub(super) fn continue_attempt(&mut self) {
        if self.attempt == Attempt::Aborted {
            self.attempt = Attempt::Open;
        }
    }

    /// Whether an attempt was started and has no outcome.
    pub(super) fn is_attempt_open(&self) -> bool {
        self.attempt == Attempt::Open
    }

    fn require(&self, holds: bool) -> Result<(), Violation> {
        if holds { Ok(()) } else { Err(Violation::NotUnderWay) }
    }

    /// Begins attempt `number`.
    fn begin(&mut self, number: u32) -> Result<(), Violation> {
        let expected = self.last + 1;
        if number != expected || !matches!(self.attempt, Attempt::None | Attempt::Repeated) {
            return Err(Violation::WrongAttempt { expected });
        }
        (self.last, self.attempt, self.doubt) = (number, Attempt::Open, Doubt::None);
        Ok(())
    }

    /// Ends the step under attempt 0.
    fn end(&mut self, event: &Event) -> Result<(), Violation> {
        let is_failure = matches!(event, Event::StepFailed { .. });
        // A step that ends the run shares its path with the step in it, so both can report one failure there.
        let is_open = self.end == End::None || (is_failure && self.end == End::Failed);
        if !is_open || self.attempt == Attempt::Open {
            return Err(Violation::StepEnded);
        }
        self.end = if is_failure { End::Failed } else { End::Other };
        Ok(())
    }
}
