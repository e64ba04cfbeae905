//! What can happen to a run. The durable records are the journal; the database, the event stream, replay and the tests
//! read them and nothing else. Their JSON is in `wire`.

mod wire;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::chat::Usage;
use crate::effect::AskRequest;
use crate::error::StepError;
use crate::hash::Hash;
use crate::id::RunId;
use crate::limits::Limits;
use crate::path::Path;
use crate::plan::{EffectClass, Format};
use crate::status::Status;
use crate::value::Value;

/// One event with its header. Every event has the same header, so that any reader can group them without knowing them.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The run.
    pub run: RunId,
    /// Position in the run's journal, from 1 without gaps.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub at: u64,
    /// The step; `/` for the run itself.
    pub path: Path,
    /// The attempt, from 1; 0 where there is none.
    pub attempt: u32,
    /// What happened.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The run exists, with everything it will ever read besides replies of the world.
    RunCreated(Box<RunCreated>),
    /// A process took the run (again).
    RunStarted {
        /// Its turn of ownership; every later write carries it.
        epoch: u64,
    },
    /// An effect is about to be performed. What an effect is asked is given by its hash, since the plan and the
    /// recorded outputs give it back.
    StepStarted {
        /// Kind of effect.
        kind: Cow<'static, str>,
        /// Model, address or function.
        target: Arc<str>,
        /// Hash of the request.
        hash: Hash,
        /// What a crash during the effect means.
        class: EffectClass,
    },
    /// A step has its output. `None`: the step gave nothing (not even null).
    StepFinished {
        /// The output; absent for composites, whose output follows from their parts.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
        /// What it cost, for model calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Memory writes that are part of this very event.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        memory: Vec<MemoryWrite>,
    },
    /// An attempt failed.
    StepFailed {
        /// Why.
        error: StepError,
        /// What follows from it.
        then: AfterFailure,
    },
    /// A script was evaluated in the sandbox; `None` is `undefined`.
    Evaluated {
        /// What it gave.
        #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
    },
    /// A function tells what it is about, for whoever watches.
    Told {
        /// What it is, in the function's own terms.
        name: Cow<'static, str>,
        /// What there is to say.
        data: Value,
    },
    /// A step did not run.
    StepSkipped {
        /// Why not.
        reason: String,
    },
    /// An effect was abandoned before it answered, because its run or branch ended.
    StepAborted {
        /// Why.
        reason: String,
    },
    /// A machine's token moves.
    EdgeTaken {
        /// Key of the next node; `None` is the end.
        to: Option<String>,
    },
    /// A person is asked; the branch waits.
    Asked(AskRequest),
    /// A person answered; accepted once.
    Answered {
        /// The answer.
        value: Value,
        /// Who.
        by: String,
    },
    /// A branch waits for a time.
    TimerSet {
        /// When it goes on, in milliseconds since 1970.
        until: u64,
    },
    /// A crash left this effect between started and finished, and it must not be sent twice.
    StepUncertain,
    /// A person decided about an uncertain effect.
    Resolved {
        /// The decision.
        how: Resolution,
        /// Who.
        by: String,
    },
    /// Someone asked for the run to end.
    CancelRequested {
        /// Who.
        by: String,
    },
    /// Every live branch waits.
    RunSuspended {
        /// `waiting` or `uncertain`.
        status: Status,
    },
    /// The run ended.
    RunFinished {
        /// How.
        status: Status,
        /// Why, unless it succeeded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<StepError>,
        /// Path of the step that failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<Path>,
        /// What was said, if the conversation is kept: stored for the owner together with this event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<MemoryWrite>,
    },
}

/// Everything a run is created with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunCreated {
    /// Version of the interpreter's meaning; another one refuses the run.
    pub engine_semantics: u32,
    /// The definition's format.
    pub format: Format,
    /// The definition's name.
    pub name: String,
    /// Hash of the bundle: the definition and everything compiling it read.
    pub bundle: Hash,
    /// The inputs.
    pub inputs: Value,
    /// Whose run it is.
    pub owner: String,
    /// The agent on whose behalf it runs, for capabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The bounds in force.
    pub limits: Limits,
    /// Runs around this one, which a step of theirs started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The definition's id: its own, or the one under which it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// Under which key the owner's conversation is kept when the run ends; `None` if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<String>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A write to the owner's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryWrite {
    /// The key.
    pub key: String,
    /// The value; `None` takes the key away.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// What a failed attempt leads to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterFailure {
    /// The step failed.
    Fail,
    /// The step failed, and the run goes on without its output.
    Continue,
    /// Another attempt at this time (milliseconds since 1970).
    Retry(u64),
}

/// What a person decides about an effect that may or may not have happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It is sent again, under the same idempotency key.
    Resend,
    /// It counts as failed.
    Fail,
    /// It happened, with this output.
    Value(Value),
}

impl Event {
    /// Whether the interpreter itself produces this event, so that replay must produce it again.
    pub fn is_interpreted(&self) -> bool {
        match self {
            Event::RunCreated(_)
            | Event::RunStarted { .. }
            | Event::Answered { .. }
            | Event::Resolved { .. }
            | Event::StepUncertain
            | Event::CancelRequested { .. }
            | Event::RunSuspended { .. }
            | Event::TimerSet { .. }
            | Event::Told { .. }
            | Event::StepAborted { .. } => false,
            Event::StepStarted { .. }
            | Event::StepFinished { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::Evaluated { .. }
            | Event::EdgeTaken { .. }
            | Event::Asked(_)
            | Event::RunFinished { .. } => true,
        }
    }

    /// The event's name in streams and filters.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }
}

/// Names each variant of [`Event`] once: its type, and its name in JSON, which serde derives from the variant.
macro_rules! event_kinds {
    ($($kind:ident $name:literal,)*) => {
        /// The type of an event, without its data.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum EventKind {
            $($kind,)*
        }

        impl EventKind {
            /// Its name in streams and filters.
            pub fn name(self) -> &'static str {
                match self {
                    $(EventKind::$kind => $name,)*
                }
            }
        }

        impl Event {
            /// Its type.
            pub fn kind(&self) -> EventKind {
                match self {
                    // This pattern fits variants of every shape.
                    $(Event::$kind { .. } => EventKind::$kind,)*
                }
            }
        }
    };
}

event_kinds! {
    RunCreated "run_created",
    RunStarted "run_started",
    StepStarted "step_started",
    StepFinished "step_finished",
    StepFailed "step_failed",
    StepSkipped "step_skipped",
    Evaluated "evaluated",
    Told "told",
    StepAborted "step_aborted",
    EdgeTaken "edge_taken",
    Asked "asked",
    Answered "answered",
    TimerSet "timer_set",
    StepUncertain "step_uncertain",
    Resolved "resolved",
    CancelRequested "cancel_requested",
    RunSuspended "run_suspended",
    RunFinished "run_finished",
}

/// A field that is there, even if it is `null`: an output of null is not the absence of an output.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
