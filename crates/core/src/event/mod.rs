//! The events of a run. The durable records are the journal; the database, the event stream, replay and the tests
//! read them and nothing else. Their JSON is in `wire`.

mod wire;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::chat::Usage;
use crate::effect::{AskRequest, ResponseFacts};
use crate::error::StepFailure;
use crate::hash::Hash;
use crate::id::RunId;
use crate::limits::Limits;
use crate::path::Path;
use crate::plan::{EffectClass, Format};
use crate::status::Status;
use crate::trace::TraceContext;
use crate::trigger::RunTrigger;
use crate::value::Value;

/// Name of the progress of a step about references that had no value: `{messages: [text]}`.
pub const WARNING_PROGRESS: &str = "warning";

/// An event with its header. All events have the same header, so a reader can group them without knowing each kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The run.
    pub run: RunId,
    /// Position in the run's journal, from 1, without gaps.
    pub seq: u64,
    /// Time of the event, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The step; `/` for the run itself.
    pub path: Path,
    /// The attempt, from 1; 0 for events without one.
    pub attempt: u32,
    /// The event.
    pub event: Event,
}

/// The events of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The run was created. The event holds everything the run will ever read, apart from the results of its effects.
    RunCreated(Box<RunCreated>),
    /// A worker started or resumed the run.
    RunStarted {
        /// Fencing number of the worker's lease; every later write carries it.
        epoch: u64,
    },
    /// An effect is about to be performed. The request is recorded as a hash, because the plan and the recorded outputs
    /// reproduce it.
    StepStarted {
        /// Kind of the effect.
        kind: Cow<'static, str>,
        /// The target of its effect: model, address or function.
        target: Arc<str>,
        /// Hash of the request.
        hash: Hash,
        /// The effect class: whether the effect may be sent again after a crash.
        class: EffectClass,
    },
    /// A step finished with an output. `None`: the step has no output, not even null.
    StepFinished {
        /// The output; absent for composites, whose output follows from their children.
        #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
        output: Option<Value>,
        /// Tokens and cost, for model calls.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Memory writes stored together with this event.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        memory: Vec<MemoryWrite>,
        /// Whether the outcome was taken from the run that this one was forked from, or from the attempt that this one
        /// retries. Nothing was performed: the usage was not spent again, and the memory writes are not stored again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reused: bool,
        /// Facts about the response; for observers of the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response: Option<Box<ResponseFacts>>,
    },
    /// An attempt failed.
    StepFailed {
        /// The error.
        error: StepFailure,
        /// The consequence of the failure.
        then: AfterFailure,
        /// Tokens and cost of what failed: of an answer that does not fit its schema, or of a child run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Whether the failure was taken from the run that this one was forked from.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reused: bool,
    },
    /// A script was evaluated in the sandbox.
    Evaluated {
        /// The result; `None` is `undefined`.
        #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
    },
    /// A function reported progress, for observers of the run. No effect on the state.
    #[serde(alias = "told")]
    Progress {
        /// The kind of progress, in the function's own terms.
        name: Cow<'static, str>,
        /// The details.
        data: Value,
    },
    /// A step was skipped.
    StepSkipped {
        /// The reason.
        reason: String,
    },
    /// An effect was abandoned before it returned, because its run or branch ended.
    StepAborted {
        /// The reason.
        reason: String,
    },
    /// The token of a machine moves to another node.
    EdgeTaken {
        /// Key of the next node; `None` ends the machine.
        to: Option<String>,
    },
    /// A person is asked; the branch waits.
    Asked(AskRequest),
    /// A person answered. Accepted only once.
    Answered {
        /// The answer.
        value: Value,
        /// The person who answered.
        by: String,
    },
    /// A branch waits until a point in time.
    TimerSet {
        /// The time at which it resumes, in milliseconds since the Unix epoch.
        until: u64,
    },
    /// A crash interrupted this effect, and it must not be repeated automatically.
    StepUncertain,
    /// A person decided about an uncertain effect.
    Resolved {
        /// The decision.
        how: Resolution,
        /// The person who decided.
        by: String,
    },
    /// An uncertain effect is about to be performed again, because a person decided so. The decision is used up: a crash
    /// after this event makes the effect uncertain again.
    StepResent,
    /// The child run that this step started is suspended, and so the step waits.
    ChildSuspended(ChildSuspension),
    /// The child run that this step started continues.
    ChildResumed {
        /// The child run.
        run: RunId,
    },
    /// The cancellation of the run was requested.
    CancelRequested {
        /// The requester.
        by: String,
    },
    /// Every live branch waits; the run is suspended.
    RunSuspended {
        /// `waiting`, `uncertain` or `quarantined`.
        status: Status,
    },
    /// The run ended.
    RunFinished {
        /// The final status.
        status: Status,
        /// The error, unless the run succeeded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<StepFailure>,
        /// Path of the step that failed the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<Path>,
        /// The conversation, if the run continues a stored thread. It is stored for the user together with this event.
        #[serde(default, alias = "said", skip_serializing_if = "Option::is_none")]
        thread: Option<MemoryWrite>,
    },
    /// A run that had ended continues: some of its steps are performed again.
    RunReopened {
        /// The step from which it is repeated; `None` if only what failed is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Path>,
        /// The person or program that asked for it.
        by: String,
        /// The steps whose results no longer count. Their earlier attempts stay in the record, and the next attempt has the
        /// next number.
        reset: Vec<Path>,
        /// The effects that were abandoned and continue, as after a crash.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        continued: Vec<Path>,
    },
}

/// The data of a run's creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunCreated {
    /// Version of the interpreter's semantics. An engine with another version refuses the run.
    pub engine_semantics: u32,
    /// The definition's format.
    pub format: Format,
    /// The definition's name.
    pub name: String,
    /// Hash of the bundle: the definition and everything read to compile it.
    pub bundle: Hash,
    /// The inputs.
    pub inputs: Value,
    /// The user who owns the run.
    #[serde(alias = "owner")]
    pub user: String,
    /// The agent on whose behalf the run acts, for capability checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The limits of the run.
    pub limits: Limits,
    /// Nesting depth: the number of runs around this one, each of which started the next.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub depth: u32,
    /// The step that started this run, if it is a child run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentStep>,
    /// The id of the workflow: the one that the definition declares, or the one under which it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The key under which the conversation is stored for the user when the run ends; `None` if it is not stored.
    #[serde(default, alias = "keep", skip_serializing_if = "Option::is_none")]
    pub thread_key: Option<String>,
    /// Under which configuration the run was started. Old versions did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<RunProject>,
    /// The distributed trace that the run belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkOrigin>,
    /// Whether effects that may happen at most once wait for a person: the run was started by a step of a fork, which may
    /// have happened in the run that the fork began with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks_first: bool,
    /// The trigger of the run. Old versions did not record it, and child runs have a parent instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<RunTrigger>,
}

impl RunCreated {
    /// Whether effects that may happen at most once wait for a person.
    pub fn asks_before_effects(&self) -> bool {
        self.asks_first || self.fork.as_ref().is_some_and(|fork| !fork.repeats_effects)
    }
}

/// The run that a run was forked from, and the differences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The run whose record it begins with.
    pub run: RunId,
    /// The step from which everything is performed. `None`: the first step whose request differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Path>,
    /// Variables that are set before that step runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(String, Value)>,
    /// Variables that ancestor runs set before steps whose outcomes this run reuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherited: Vec<SetVariables>,
    /// Whether effects that must not be repeated automatically are performed without asking a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeats_effects: bool,
}

impl ForkOrigin {
    /// The variables that the fork sets. Later ones override earlier ones.
    pub fn list_set_variables(&self) -> Vec<SetVariables> {
        let own = self.at.clone().filter(|_| !self.set.is_empty());
        let own = own.map(|at| SetVariables { at, variables: self.set.clone(), only_if_reused: false });
        self.inherited.iter().cloned().chain(own).collect()
    }
}

/// Variables that a fork sets before a step runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetVariables {
    /// The step.
    pub at: Path,
    /// Their names and values.
    pub variables: Vec<(String, Value)>,
    /// Whether they are only set if nothing was performed before the step: a value that an earlier fork chose does not
    /// replace one that is computed anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_if_reused: bool,
}

/// The configuration under which a run was started. Other processes drive the run only under the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProject {
    /// The name of the project; empty if it has none.
    pub name: String,
    /// The fingerprint of the settings that can change the result.
    pub config: String,
}

/// The step that started a child run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentStep {
    /// The run of the step.
    pub run: RunId,
    /// The path of the step in that run.
    pub path: Path,
    /// The epoch of the lease under which that run is driven, while the child run is being stored. It is not recorded.
    #[serde(skip)]
    pub epoch: Option<u64>,
}

/// A child run that is suspended, as its parent run records it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChildSuspension {
    /// The child run.
    pub run: RunId,
    /// `waiting`, `uncertain` or `quarantined`.
    pub status: Status,
    /// The steps that wait for a person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenChildStep>,
}

/// A step of a child run that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenChildStep {
    /// The path of the step in the child run.
    pub path: Path,
    /// The question of the step; `None` if its effect is uncertain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<AskRequest>,
    /// The target of its effect: model, address or function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<str>>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A write to the user's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryWrite {
    /// The key.
    pub key: String,
    /// The value; `None` deletes the key.
    #[serde(default, deserialize_with = "deserialize_present", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// The consequence of a failed attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterFailure {
    /// The step failed.
    Fail,
    /// The step failed; the run continues without its output.
    Continue,
    /// There is another attempt at this time (milliseconds since the Unix epoch).
    Retry(u64),
}

/// A person's decision about an effect that may or may not have happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Repeat it under the same idempotency key.
    Resend,
    /// Treat it as failed.
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
            | Event::StepResent
            | Event::ChildSuspended(_)
            | Event::ChildResumed { .. }
            | Event::CancelRequested { .. }
            | Event::RunSuspended { .. }
            | Event::RunReopened { .. }
            | Event::TimerSet { .. }
            | Event::Progress { .. }
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

    /// The name in streams, filters and the journal.
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
    Progress "progress",
    StepAborted "step_aborted",
    EdgeTaken "edge_taken",
    Asked "asked",
    Answered "answered",
    TimerSet "timer_set",
    StepUncertain "step_uncertain",
    Resolved "resolved",
    StepResent "step_resent",
    ChildSuspended "child_suspended",
    ChildResumed "child_resumed",
    CancelRequested "cancel_requested",
    RunSuspended "run_suspended",
    RunFinished "run_finished",
    RunReopened "run_reopened",
}

/// Deserialises a field that is present, even if it is `null`: an output of null is not an absent output.
fn deserialize_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
