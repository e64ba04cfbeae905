//! The environment of the planner.

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

/// The environment of one planner run. An error of its methods is a failure of the environment (no provider, no
/// sandbox): the stage stops, and the model is not blamed.
pub trait World: Send + Sync {
    /// Calls the model. An answer that does not match the schema may be returned as it is, or as
    /// [`ModelNotJson`](flowloom_core::code::Code::ModelNotJson).
    fn ask<'a>(&'a self, question: &'a Question) -> Reply<'a, Answer>;

    /// Candidates for the required block from the registry, best first.
    fn find<'a>(&'a self, wanted: &'a Wanted) -> Reply<'a, Vec<Candidate>>;

    /// Runs a block once in the sandbox, without network access, the user's memory or secrets, like
    /// [`Rehearser::attempt`](crate::rehearse::Rehearser::attempt).
    fn attempt<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> Reply<'a, Trial>;

    /// Executes a pipeline that passed its check as a dry run, with prompts and functions mocked, like
    /// [`Rehearser::rehearse`](crate::rehearse::Rehearser::rehearse) with its [`definition`](crate::wire::definition).
    fn rehearse<'a>(&'a self, pipeline: &'a Value, blocks: &'a [Value]) -> Reply<'a, Rehearsal>;

    /// Receives events as they happen.
    fn tell(&self, event: Event);
}

/// A question to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The stage that asks; for a block, `create:ID`.
    pub stage: String,
    /// The instructions.
    pub system: String,
    /// The messages; the last one is the user's.
    pub messages: Vec<Message>,
    /// JSON Schema of the answer; `None` for plain text.
    pub schema: Option<Value>,
}

impl Question {
    /// A question with a single message.
    pub(crate) fn new(stage: &str, system: &str, user: String, schema: Option<&str>) -> Question {
        let schema = schema.and_then(|text| flowloom_core::json::parse_value(text).ok());
        Question { stage: stage.to_owned(), system: system.to_owned(), messages: vec![user_says(user)], schema }
    }
}

/// A message of the user.
pub(crate) fn user_says(text: impl Into<String>) -> Message {
    Message::new(Role::User, text)
}

/// The answer of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Duration, in seconds.
    pub elapsed: f64,
}

/// A candidate block from the registry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The definition.
    pub block: Value,
    /// Cosine similarity of its embedding and that of the required block; `None` if only words can be compared.
    pub similarity: Option<f32>,
}

/// The result of running a block once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Trial {
    /// The output.
    Gave(Value),
    /// The error.
    Failed(StepError),
}

/// Settings of an installation.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Minimum scores for a block of the registry to match.
    pub thresholds: Thresholds,
    /// Functions, servers and the like that the blocks of a pipeline may use; its files are ignored.
    pub sources: Sources,
}
