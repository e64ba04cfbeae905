//! Events of the planner. Names and fields are those of AgentFlow's stream, with fields of the original system added.

use flowloom_core::chat::{Message, Role};
use flowloom_core::error::StepError;
use flowloom_core::value::{Map, Number, Value};

use crate::wanted::Wanted;

/// An event of the planner. The sender adds the time (`ts`).
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
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
    DecomposeBlocks(Vec<Wanted>),
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
        error: StepError,
        /// Blocks that are missing and could not be written.
        missing_blocks: Vec<String>,
    },
}

impl Event {
    /// The name in the event stream.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Start { .. } => "start",
            Event::Stage { .. } => "stage",
            Event::LlmPrompt { .. } => "llm_prompt",
            Event::LlmResponse { .. } => "llm_response",
            Event::Validation { .. } => "validation",
            Event::StageResult { .. } => "stage_result",
            Event::DecomposeBlocks(_) => "decompose_blocks",
            Event::SearchFound { .. } => "search_found",
            Event::SearchMissing { .. } => "search_missing",
            Event::CreatingBlock { .. } => "creating_block",
            Event::BlockCreated(_) => "block_created",
            Event::BlockTestPassed { .. } => "block_test_passed",
            Event::BlockTestFailed { .. } => "block_test_failed",
            Event::BlockCreateFailed { .. } => "block_create_failed",
            Event::Complete { .. } => "complete",
            Event::Error { .. } => "error",
        }
    }

    /// The data, with the name as `type`.
    pub fn payload(&self) -> Value {
        let fields = match self {
            Event::Start { intent, user_id } => vec![("intent", text(intent)), ("user_id", text(user_id))],
            Event::Stage { stage, status, message } => {
                vec![("stage", text(stage)), ("status", text(status)), ("message", text(message))]
            }
            Event::LlmPrompt { stage, system, messages } => asked(stage, system, messages),
            Event::LlmResponse { stage, text: said, elapsed } => vec![
                ("stage", text(stage)),
                ("response", text(said)),
                ("elapsed", number(*elapsed)),
                ("raw", text(said)),
                ("elapsed_s", number(*elapsed)),
            ],
            Event::Validation { stage, error } => {
                let mut fields = vec![("stage", text(stage)), ("valid", error.is_none().into())];
                fields.extend(error.iter().map(|error| ("error", text(error))));
                fields
            }
            Event::StageResult { stage, status, details } => {
                let mut map = Map::from_iter([("stage".into(), text(stage)), ("status".into(), text(status))]);
                map.extend(details.clone());
                return self.named(map);
            }
            Event::DecomposeBlocks(wanted) => {
                vec![("blocks", Value::list(wanted.iter().map(Wanted::in_short).collect()))]
            }
            Event::SearchFound { suggested_id, block, score } => found(suggested_id, block, *score),
            Event::SearchMissing { suggested_id, description, candidates_checked } => vec![
                ("suggested_id", text(suggested_id)),
                ("description", text(description)),
                ("candidates_checked", count(*candidates_checked)),
            ],
            Event::CreatingBlock { index, total, suggested_id, description } => vec![
                ("index", count(*index)),
                ("total", count(*total)),
                ("suggested_id", text(suggested_id)),
                ("description", text(description)),
            ],
            Event::BlockCreated(block) => created(block),
            Event::BlockTestPassed { block_id } => vec![("block_id", text(block_id))],
            Event::BlockTestFailed { block_id, error, retry } => {
                vec![("block_id", text(block_id)), ("error", text(error)), ("retry", (*retry).into())]
            }
            Event::BlockCreateFailed { block_id, error } => {
                let message = format!("the block {block_id} is not kept: {error}");
                vec![("block_id", text(block_id)), ("error", text(error)), ("message", message.into())]
            }
            Event::Complete { pipeline, log } => completed(pipeline, log),
            Event::Error { stage, error, missing_blocks } => vec![
                ("stage", text(stage)),
                ("code", error.code.to_string().into()),
                ("error", text(&error.message)),
                ("missing_blocks", names(missing_blocks.iter().map(String::as_str))),
            ],
        };
        self.named(fields.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    fn named(&self, fields: Map) -> Value {
        let mut map = Map::from_iter([("type".into(), text(self.name()))]);
        map.extend(fields);
        map.into()
    }
}

type Fields = Vec<(&'static str, Value)>;

fn asked(stage: &str, system: &str, messages: &[Message]) -> Fields {
    let said =
        |message: &Message| Value::map([("role", role(message)), ("content", Value::from(message.content.as_str()))]);
    let instructions = Value::map([("role", Value::from("system")), ("content", text(system))]);
    let prompts = std::iter::once(instructions).chain(messages.iter().map(said)).collect();
    let last = messages.last().map(|message| message.content.as_str()).unwrap_or_default();
    vec![("stage", text(stage)), ("prompts", Value::list(prompts)), ("system", text(system)), ("user", text(last))]
}

fn role(message: &Message) -> Value {
    match message.role {
        Role::System => "system".into(),
        Role::User => "user".into(),
        Role::Assistant => "assistant".into(),
        Role::Tool => "tool".into(),
    }
}

fn found(suggested_id: &str, block: &Value, score: f64) -> Fields {
    vec![
        ("suggested_id", text(suggested_id)),
        ("block_id", field(block, "id")),
        ("matched_block_id", field(block, "id")),
        ("name", field(block, "name")),
        ("description", field(block, "description")),
        ("score", number(score)),
        ("block_def", block.clone()),
    ]
}

fn created(block: &Value) -> Fields {
    let has = |key: &str| Value::from(block.get(key).and_then(Value::as_str).is_some());
    vec![
        ("block_id", field(block, "id")),
        ("name", field(block, "name")),
        ("description", field(block, "description")),
        ("execution_type", field(block, "execution_type")),
        ("has_prompt", has("prompt_template")),
        ("has_source_code", has("source_code")),
        ("block", block.clone()),
        ("block_def", block.clone()),
    ]
}

fn completed(pipeline: &Value, log: &[Value]) -> Fields {
    let log = Value::list(log.to_vec());
    let result = [("pipeline_json", pipeline.clone()), ("status", "done".into()), ("log", log.clone())];
    vec![("status", "done".into()), ("result", Value::map(result)), ("pipeline", pipeline.clone()), ("log", log)]
}

fn text(text: &str) -> Value {
    text.into()
}

fn field(block: &Value, key: &str) -> Value {
    block.get(key).cloned().unwrap_or_default()
}

fn number(number: f64) -> Value {
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// A count as a value.
pub(crate) fn count(count: usize) -> Value {
    i64::try_from(count).unwrap_or(i64::MAX).into()
}

/// A list of names as a value.
pub(crate) fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Value {
    Value::list(names.into_iter().map(Value::from).collect())
}
