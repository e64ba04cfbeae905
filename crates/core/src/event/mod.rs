//! What can happen to a run. The durable records are the journal; the database, the event stream, replay and the tests
//! read them and nothing else.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

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

/// Events that a person or another process puts into the journal, not the interpreter.
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
        match self {
            Event::RunCreated(_) => "run_created",
            Event::RunStarted { .. } => "run_started",
            Event::StepStarted { .. } => "step_started",
            Event::StepFinished { .. } => "step_finished",
            Event::StepFailed { .. } => "step_failed",
            Event::StepSkipped { .. } => "step_skipped",
            Event::Evaluated { .. } => "evaluated",
            Event::Told { .. } => "told",
            Event::StepAborted { .. } => "step_aborted",
            Event::EdgeTaken { .. } => "edge_taken",
            Event::Asked(_) => "asked",
            Event::Answered { .. } => "answered",
            Event::TimerSet { .. } => "timer_set",
            Event::StepUncertain => "step_uncertain",
            Event::Resolved { .. } => "resolved",
            Event::CancelRequested { .. } => "cancel_requested",
            Event::RunSuspended { .. } => "run_suspended",
            Event::RunFinished { .. } => "run_finished",
        }
    }
}

/// A record as it is written: the header, the event's name, and its data.
#[derive(Serialize, Deserialize)]
struct Wire {
    run: RunId,
    seq: u64,
    at: u64,
    path: Path,
    attempt: u32,
    event: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Box<RawValue>>,
}

impl Serialize for Record {
    /// Name and data stand beside the header, so that a reader can filter by `event` without knowing every event.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = |text| RawValue::from_string(text).map_err(serde::ser::Error::custom);
        let data = self.event.data().map_err(serde::ser::Error::custom)?.map(raw).transpose()?;
        let event = self.event.name().to_owned();
        let Record { run, seq, at, path, attempt, .. } = self;
        let wire = Wire { run: *run, seq: *seq, at: *at, path: path.clone(), attempt: *attempt, event, data };
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Record {
    /// Read in two steps, since serde's buffering of flattened fields would lose the exact text of numbers.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Record, D::Error> {
        let Wire { run, seq, at, path, attempt, event, data } = Wire::deserialize(deserializer)?;
        let event = Event::from_parts(&event, data.as_deref().map(RawValue::get));
        Ok(Record { run, seq, at, path, attempt, event: event.map_err(serde::de::Error::custom)? })
    }
}

/// A field that is there, even if it is `null`: an output of null is not the absence of an output.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl Event {
    /// Reads an event from its name and the JSON text of its data.
    pub fn from_parts(name: &str, data: Option<&str>) -> Result<Event, serde_json::Error> {
        match data {
            Some(data) => serde_json::from_str(&format!("{{\"{name}\":{data}}}")),
            None => serde_json::from_str(&format!("\"{name}\"")),
        }
    }

    /// The event's data as JSON text; `None` for events without data.
    pub fn data(&self) -> Result<Option<String>, serde_json::Error> {
        // Written as {"name":data}, or as "name" alone.
        let text = serde_json::to_string(self)?;
        let data = text.strip_suffix('}').and_then(|text| text.get(self.name().len() + 4..));
        Ok(data.map(str::to_owned))
    }
}
