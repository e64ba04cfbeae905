//! The environment of the planner.

use flowloom_core::block::Thresholds;
use flowloom_core::chat::{Message, Role};
use flowloom_core::value::Value;
use flowloom_formats::Sources;
use flowloom_runtime::effects::EffectFuture;
use serde::{Deserialize, Serialize};

use crate::dry_run::DryRun;
use crate::event::PlannerEvent;
use crate::model::{FoundBlocks, ModelAnswer, TrialOutcome};
use crate::required::RequiredBlock;

/// The environment of one planner run. An error of its methods is a failure of the environment (no provider, no
/// sandbox): the stage stops, and the model is not blamed.
pub trait PlannerEnv: Send + Sync {
    /// Calls the model. An answer that does not match the schema may be returned as it is, or as
    /// [`ModelNotJson`](flowloom_core::code::Code::ModelNotJson). Fails if the model cannot be reached or refuses.
    fn ask_model<'a>(&'a self, question: &'a ModelQuestion) -> EffectFuture<'a, ModelAnswer>;

    /// The existing blocks that may serve a goal, nearest first, as [`describe_block`](crate::candidates::describe_block)
    /// describes them; at most [`MAX_CANDIDATE_BLOCKS`](crate::candidates::MAX_CANDIDATE_BLOCKS). Fails if the registry
    /// cannot be read.
    fn list_candidate_blocks<'a>(&'a self, intent: &'a str) -> EffectFuture<'a, Vec<Value>>;

    /// Candidates for the required block from the registry. Fails if the registry cannot be searched.
    fn find_blocks<'a>(&'a self, wanted: &'a RequiredBlock) -> EffectFuture<'a, FoundBlocks>;

    /// Runs a block once in the sandbox, without network access, the user's memory or secrets, like
    /// [`DryRunner::try_block`](crate::dry_run::DryRunner::try_block). Fails if the trial cannot be started; a failure
    /// of the block is in the outcome.
    fn try_block<'a>(&'a self, block: &'a Value, inputs: &'a Value) -> EffectFuture<'a, TrialOutcome>;

    /// Keeps a block that passed its trials, so that it is not lost if no pipeline comes of it. Keeping it again changes
    /// nothing. Fails if it cannot be stored.
    fn keep_block<'a>(&'a self, block: &'a Value) -> EffectFuture<'a, ()>;

    /// Executes a pipeline that passed its check as a dry run, with prompts and functions mocked, like
    /// [`DryRunner::dry_run`](crate::dry_run::DryRunner::dry_run) with its
    /// [`build_definition`](crate::wire::build_definition). Fails if the dry run cannot be started; failures of nodes
    /// are in its report.
    fn dry_run<'a>(&'a self, pipeline: &'a Value, blocks: &'a [Value]) -> EffectFuture<'a, DryRun>;

    /// Receives events as they happen.
    fn emit_event(&self, event: PlannerEvent);
}

/// A question to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelQuestion {
    /// The stage that asks; for a block, `create:ID`.
    pub stage: String,
    /// The instructions.
    pub system: String,
    /// The messages; the last one is the user's.
    pub messages: Vec<Message>,
    /// JSON Schema of the answer; `None` for plain text.
    pub schema: Option<Value>,
}

impl ModelQuestion {
    /// A question with a single message.
    pub(crate) fn new(stage: &str, system: &str, user: String, schema: Option<&str>) -> ModelQuestion {
        let schema = schema.and_then(|text| flowloom_core::json::parse_value(text).ok());
        ModelQuestion { stage: stage.to_owned(), system: system.to_owned(), messages: vec![user_says(user)], schema }
    }
}

/// A message of the user.
pub(crate) fn user_says(text: impl Into<String>) -> Message {
    Message::new(Role::User, text)
}

/// Settings of an installation.
#[derive(Clone, Debug, Default)]
pub struct PlannerSettings {
    /// Minimum scores for a block of the registry to match.
    pub thresholds: Thresholds,
    /// Functions, servers and the like that the blocks of a pipeline may use; its files are ignored.
    pub sources: Sources,
}
