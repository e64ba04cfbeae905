//! The recorded outcome of an attempt.

use flowloom_core::chat::Usage;
use flowloom_core::effect::ResponseFacts;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{AfterFailure, Event, MemoryWrite, Record};
use flowloom_core::value::Value;

/// The recorded outcome of an attempt.
pub(crate) enum RecordedOutcome {
    Finished {
        output: Option<Value>,
        usage: Option<Usage>,
        memory: Vec<MemoryWrite>,
        response: Option<Box<ResponseFacts>>,
        is_reused: bool,
    },
    Failed {
        error: StepFailure,
        then: AfterFailure,
        usage: Option<Usage>,
        at: u64,
        is_reused: bool,
    },
}

impl RecordedOutcome {
    /// Whether it was taken from the run that this one was forked from.
    pub(crate) fn is_reused(&self) -> bool {
        match self {
            RecordedOutcome::Finished { is_reused, .. } | RecordedOutcome::Failed { is_reused, .. } => *is_reused,
        }
    }

    /// The event that records the same outcome again.
    pub(crate) fn to_event(&self) -> Event {
        match self {
            RecordedOutcome::Finished { output, usage, memory, response, is_reused } => Event::StepFinished {
                output: output.clone(),
                usage: *usage,
                memory: memory.clone(),
                reused: *is_reused,
                response: response.clone(),
            },
            RecordedOutcome::Failed { error, then, usage, is_reused, .. } => {
                Event::StepFailed { error: error.clone(), then: then.clone(), usage: *usage, reused: *is_reused }
            }
        }
    }

    /// The outcome that an event records; `None` for other events.
    pub(super) fn from_record(record: &Record) -> Option<RecordedOutcome> {
        match &record.event {
            Event::StepFinished { output, usage, memory, reused, response } => Some(RecordedOutcome::Finished {
                output: output.clone(),
                usage: *usage,
                memory: memory.clone(),
                response: response.clone(),
                is_reused: *reused,
            }),
            Event::StepFailed { error, then, usage, reused } => Some(RecordedOutcome::Failed {
                error: error.clone(),
                then: then.clone(),
                usage: *usage,
                at: record.at,
                is_reused: *reused,
            }),
            _ => None,
        }
    }
}
