//! Events of the planner. Names and fields are those of AgentFlow's stream, with fields of the original system added.

use flowloom_core::chat::{Message, Role};
use flowloom_core::error::StepFailure;
use flowloom_core::value::{Map, Number, Value};

use crate::required::RequiredBlock;

/// An event of the planner. The sender adds the time (`ts`).
#[derive(Clone, Debug, PartialEq)]
pub enum PlannerEvent {
    /// The planner starts.
    Start {
        /// The goal.
        intent: String,
        /// The user.
        user_id: String,
    },
    /// A stage starts (`running`) or is not needed (`skipped`).
    Stage {
        /// The name of the stage.
        stage: &'static str,
        /// `running` or `skipped`.
        status: &'static str,
        /// A description for people.
        message: String,
    },
    /// The model receives a prompt.
    LlmPrompt {
        /// The stage.
        stage: String,
        /// The instructions.
        system: String,
        /// The messages.
        messages: Vec<Message>,
    },
    /// The model answered.
    LlmResponse {
        /// The stage.
        stage: String,
        /// The text of the answer.
        text: String,
        /// Duration, in seconds.
        elapsed: f64,
    },
    /// An answer was validated.
    Validation {
        /// The stage.
        stage: &'static str,
        /// The error; `None` if the answer is usable.
        error: Option<String>,
    },
    /// A stage finished.
    StageResult {
        /// The name of the stage.
        stage: &'static str,
        /// `done`, `skipped` or `failed`.
        status: &'static str,
        /// The results.
        details: Map,
    },
    /// The required blocks.
    DecomposeBlocks(Vec<RequiredBlock>),
    /// The registry has a matching block.
    SearchFound {
        /// The required block.
        suggested_id: String,
        /// The block.
        block: Value,
        /// The score.
        score: f64,
    },
    /// The registry has no matching block.
    SearchMissing {
        /// The required block.
        suggested_id: String,
        /// Its description.
        description: String,
        /// Number of candidates considered.
        candidates_checked: usize,
    },
    /// A block will be written.
    CreatingBlock {
        /// The index of the block, from 0.
        index: usize,
        /// The number of blocks to write.
        total: usize,
        /// The required block.
        suggested_id: String,
        /// Its description.
        description: String,
    },
    /// A definition was written and will be tried.
    BlockCreated(Value),
    /// All trials passed.
    BlockTestPassed {
        /// The id of the block.
        block_id: String,
    },
    /// A definition is unusable, or failed a trial.
    BlockTestFailed {
        /// The id of the block.
        block_id: String,
        /// The error.
        error: String,
        /// Whether the block will be rewritten.
        retry: bool,
    },
    /// The block was given up and is not stored.
    BlockCreateFailed {
        /// The id of the block.
        block_id: String,
        /// The last error.
        error: String,
    },
    /// The pipeline is complete.
    Complete {
        /// The pipeline.
        pipeline: Value,
        /// A summary of each stage.
        log: Vec<Value>,
    },
    /// The planner failed.
    Error {
        /// The stage that failed.
        stage: &'static str,
        /// The error.
        error: StepFailure,
        /// Blocks that are missing and could not be written.
        missing_blocks: Vec<String>,
    },
}

impl PlannerEvent {
    /// The name in the event stream.
    pub fn name(&self) -> &'static str {
        match self {
            PlannerEvent::Start { .. } => "start",
            PlannerEvent::Stage { .. } => "stage",
            PlannerEvent::LlmPrompt { .. } => "llm_prompt",
            PlannerEvent::LlmResponse { .. } => "llm_response",
            PlannerEvent::Validation { .. } => "validation",
            PlannerEvent::StageResult { .. } => "stage_result",
            PlannerEvent::DecomposeBlocks(_) => "decompose_blocks",
            PlannerEvent::SearchFound { .. } => "search_found",
            PlannerEvent::SearchMissing { .. } => "search_missing",
            PlannerEvent::CreatingBlock { .. } => "creating_block",
            PlannerEvent::BlockCreated(_) => "block_created",
            PlannerEvent::BlockTestPassed { .. } => "block_test_passed",
            PlannerEvent::BlockTestFailed { .. } => "block_test_failed",
            PlannerEvent::BlockCreateFailed { .. } => "block_create_failed",
            PlannerEvent::Complete { .. } => "complete",
            PlannerEvent::Error { .. } => "error",
        }
    }

    /// The data, with the name as `type`.
    pub fn to_payload(&self) -> Value {
        let fields = match self {
            PlannerEvent::Start { intent, user_id } => {
                vec![("intent", text_value(intent)), ("user_id", text_value(user_id))]
            }
            PlannerEvent::Stage { stage, status, message } => {
                vec![("stage", text_value(stage)), ("status", text_value(status)), ("message", text_value(message))]
            }
            PlannerEvent::LlmPrompt { stage, system, messages } => prompt_fields(stage, system, messages),
            PlannerEvent::LlmResponse { stage, text: answer, elapsed } => vec![
                ("stage", text_value(stage)),
                ("response", text_value(answer)),
                ("elapsed", number_value(*elapsed)),
                ("raw", text_value(answer)),
                ("elapsed_s", number_value(*elapsed)),
            ],
            PlannerEvent::Validation { stage, error } => {
                let mut fields = vec![("stage", text_value(stage)), ("valid", error.is_none().into())];
                fields.extend(error.iter().map(|error| ("error", text_value(error))));
                fields
            }
            PlannerEvent::StageResult { stage, status, details } => {
                let mut map =
                    Map::from_iter([("stage".into(), text_value(stage)), ("status".into(), text_value(status))]);
                map.extend(details.clone());
                return self.with_type(map);
            }
            PlannerEvent::DecomposeBlocks(wanted) => {
                vec![("blocks", Value::list(wanted.iter().map(RequiredBlock::to_summary).collect()))]
            }
            PlannerEvent::SearchFound { suggested_id, block, score } => {
                search_found_fields(suggested_id, block, *score)
            }
            PlannerEvent::SearchMissing { suggested_id, description, candidates_checked } => vec![
                ("suggested_id", text_value(suggested_id)),
                ("description", text_value(description)),
                ("candidates_checked", count_value(*candidates_checked)),
            ],
            PlannerEvent::CreatingBlock { index, total, suggested_id, description } => vec![
                ("index", count_value(*index)),
                ("total", count_value(*total)),
                ("suggested_id", text_value(suggested_id)),
                ("description", text_value(description)),
            ],
            PlannerEvent::BlockCreated(block) => block_created_fields(block),
            PlannerEvent::BlockTestPassed { block_id } => vec![("block_id", text_value(block_id))],
            PlannerEvent::BlockTestFailed { block_id, error, retry } => {
                vec![("block_id", text_value(block_id)), ("error", text_value(error)), ("retry", (*retry).into())]
            }
            PlannerEvent::BlockCreateFailed { block_id, error } => {
                let message = format!("the block {block_id} is not stored: {error}");
                vec![("block_id", text_value(block_id)), ("error", text_value(error)), ("message", message.into())]
            }
            PlannerEvent::Complete { pipeline, log } => complete_fields(pipeline, log),
            PlannerEvent::Error { stage, error, missing_blocks } => vec![
                ("stage", text_value(stage)),
                ("code", error.code.to_string().into()),
                ("error", text_value(&error.message)),
                ("missing_blocks", names_value(missing_blocks.iter().map(String::as_str))),
            ],
        };
        self.with_type(fields.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    fn with_type(&self, fields: Map) -> Value {
        let mut map = Map::from_iter([("type".into(), text_value(self.name()))]);
        map.extend(fields);
        map.into()
    }
}

type EventFields = Vec<(&'static str, Value)>;

fn prompt_fields(stage: &str, system: &str, messages: &[Message]) -> EventFields {
    let to_prompt = |message: &Message| {
        Value::map([("role", role_name(message)), ("content", Value::from(message.content.as_str()))])
    };
    let instructions = Value::map([("role", Value::from("system")), ("content", text_value(system))]);
    let prompts = std::iter::once(instructions).chain(messages.iter().map(to_prompt)).collect();
    let last = messages.last().map(|message| message.content.as_str()).unwrap_or_default();
    vec![
        ("stage", text_value(stage)),
        ("prompts", Value::list(prompts)),
        ("system", text_value(system)),
        ("user", text_value(last)),
    ]
}

fn role_name(message: &Message) -> Value {
    match message.role {
        Role::System => "system".into(),
        Role::User => "user".into(),
        Role::Assistant => "assistant".into(),
        Role::Tool => "tool".into(),
    }
}

fn search_found_fields(suggested_id: &str, block: &Value, score: f64) -> EventFields {
    vec![
        ("suggested_id", text_value(suggested_id)),
        ("block_id", block_field(block, "id")),
        ("matched_block_id", block_field(block, "id")),
        ("name", block_field(block, "name")),
        ("description", block_field(block, "description")),
        ("score", number_value(score)),
        ("block_def", block.clone()),
    ]
}

fn block_created_fields(block: &Value) -> EventFields {
    let has = |key: &str| Value::from(block.get(key).and_then(Value::as_str).is_some());
    vec![
        ("block_id", block_field(block, "id")),
        ("name", block_field(block, "name")),
        ("description", block_field(block, "description")),
        ("execution_type", block_field(block, "execution_type")),
        ("has_prompt", has("prompt_template")),
        ("has_source_code", has("source_code")),
        ("block", block.clone()),
        ("block_def", block.clone()),
    ]
}

fn complete_fields(pipeline: &Value, log: &[Value]) -> EventFields {
    let log = Value::list(log.to_vec());
    let result = [("pipeline_json", pipeline.clone()), ("status", "done".into()), ("log", log.clone())];
    vec![("status", "done".into()), ("result", Value::map(result)), ("pipeline", pipeline.clone()), ("log", log)]
}

fn text_value(text: &str) -> Value {
    text.into()
}

fn block_field(block: &Value, key: &str) -> Value {
    block.get(key).cloned().unwrap_or_default()
}

fn number_value(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A count as a value.
pub(crate) fn count_value(count: usize) -> Value {
    i64::try_from(count).unwrap_or(i64::MAX).into()
}

/// A list of names as a value.
pub(crate) fn names_value<'a>(names: impl IntoIterator<Item = &'a str>) -> Value {
    Value::list(names.into_iter().map(Value::from).collect())
}
