//! What authoring needs of the world.

use flowloom_core::block::Thresholds;
use flowloom_core::chat::{Message, Role};
use flowloom_core::error::StepError;
use flowloom_core::value::Value;
use flowloom_formats::Sources;
use flowloom_runtime::effects::Reply;
use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::rehearse::Rehearsal;
use crate::wanted::Wanted;

/// The world of one authoring. An error of it is one of the world (no provider, no sandbox): the stage stops, and
/// nobody is blamed for it.
pub trait World: Send + Sync {
    /// Asks the model. An answer that is not what the schema wants may come back as it is, or as
    /// [`ModelNotJson`](flowloom_core::code::Code::ModelNotJson).
    fn ask<'a>(&'a self, question: &'a Question) -> Reply<'a, Answer>;

    /// Blocks of the registry that may be what is wanted, best first.
    fn find<'a>(&'a self, wanted: &'a Wanted) -> Reply<'a, Vec<Candidate>>;

    /// Runs a block once in the sandbox, without the network, the user's memory or secrets: what
    /// [`Rehearser::attempt`](crate::rehearse::Rehearser::attempt) does.
    fn attempt<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> Reply<'a, Trial>;

    /// Tries a pipeline that passes its check, with prompts and functions played: what
    /// [`Rehearser::rehearse`](crate::rehearse::Rehearser::rehearse) does with its
    /// [`definition`](crate::wire::definition).
    fn rehearse<'a>(&'a self, pipeline: &'a Value, blocks: &'a [Value]) -> Reply<'a, Rehearsal>;

    /// Hears what happens, as it happens.
    fn tell(&self, event: Event);
}

/// What a model is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The stage that asks; that of a block is `create:ID`.
    pub stage: String,
    /// Instructions.
    pub system: String,
    /// What is said; the last is the user's.
    pub messages: Vec<Message>,
    /// JSON Schema of the answer, if it is not plain text.
    pub schema: Option<Value>,
}

impl Question {
    /// A question of one message.
    pub(crate) fn new(stage: &str, system: &str, user: String, schema: Option<&str>) -> Question {
        let schema = schema.and_then(|text| flowloom_core::json::parse_value(text).ok());
        Question { stage: stage.to_owned(), system: system.to_owned(), messages: vec![user_says(user)], schema }
    }
}

/// A message of the user's.
pub(crate) fn user_says(text: impl Into<String>) -> Message {
    Message::new(Role::User, text)
}

/// What a model said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Seconds it took.
    pub elapsed: f64,
}

/// A block of the registry that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its definition.
    pub block: Value,
    /// Cosine of the angle between its embedding and that of what is wanted; `None` if words have to decide.
    pub similarity: Option<f32>,
}

/// What came of running a block once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Trial {
    /// What it returned.
    Gave(Value),
    /// Why it failed.
    Failed(StepError),
}

/// What an installation decides.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// From where on a block of the registry is taken.
    pub thresholds: Thresholds,
    /// Functions, servers and the like that a pipeline's blocks may use; its files are not looked at.
    pub sources: Sources,
}
