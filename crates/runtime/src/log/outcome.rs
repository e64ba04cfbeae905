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
        at: u64,
    },
}

impl RecordedOutcome {
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
            // A failure is handed over again only if it is reused.
            RecordedOutcome::Failed { error, then, .. } => {
                Event::StepFailed { error: error.clone(), then: then.clone(), reused: true }
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
            Event::StepFailed { error, then, .. } => {
                Some(RecordedOutcome::Failed { error: error.clone(), then: then.clone(), at: record.at })
            }
            _ => None,
        }
    }
}
