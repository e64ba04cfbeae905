//! What is told while a workflow is made: names and fields as the seed has them, and the origin's fields beside them.

use flowloom_core::chat::{Message, Role};
use flowloom_core::error::StepError;
use flowloom_core::value::{Map, Number, Value};

use crate::wanted::Wanted;

/// Something that happened. The time (`ts`) is added by whoever sends it.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The request is taken up.
    Start {
        /// What is wanted.
        intent: String,
        /// By whom.
        user_id: String,
    },
    /// A stage begins (`running`) or is not needed (`skipped`).
    Stage {
        /// Its name.
        stage: &'static str,
        /// `running` or `skipped`.
        status: &'static str,
        /// In words, for people.
        message: String,
    },
    /// A model is asked.
    LlmPrompt {
        /// The stage.
        stage: String,
        /// Instructions.
        system: String,
        /// What is said.
        messages: Vec<Message>,
    },
    /// A model answered.
    LlmResponse {
        /// The stage.
        stage: String,
        /// Its text.
        text: String,
        /// Seconds it took.
        elapsed: f64,
    },
    /// An answer was held to what it must be.
    Validation {
        /// The stage.
        stage: &'static str,
        /// What is wrong with it; nothing if it can be used.
        error: Option<String>,
    },
    /// A stage has ended.
    StageResult {
        /// Its name.
        stage: &'static str,
        /// `done`, `skipped` or `failed`.
        status: &'static str,
        /// What came of it.
        details: Map,
    },
    /// The blocks that are needed.
    DecomposeBlocks(Vec<Wanted>),
    /// The registry has a block.
    SearchFound {
        /// For what.
        suggested_id: String,
        /// The block.
        block: Value,
        /// How well it fits.
        score: f64,
    },
    /// The registry has no block.
    SearchMissing {
        /// For what.
        suggested_id: String,
        /// What it should do.
        description: String,
        /// Blocks that were considered.
        candidates_checked: usize,
    },
    /// A block is about to be written.
    CreatingBlock {
        /// Which of them, from 0.
        index: usize,
        /// How many there are.
        total: usize,
        /// What for.
        suggested_id: String,
        /// What it should do.
        description: String,
    },
    /// A definition was written that can be tried.
    BlockCreated(Value),
    /// All trials passed.
    BlockTestPassed {
        /// The block.
        block_id: String,
    },
    /// A definition cannot be used, or failed a trial.
    BlockTestFailed {
        /// The block.
        block_id: String,
        /// What is wrong.
        error: String,
        /// Whether it will be written again.
        retry: bool,
    },
    /// The block is given up; it is not kept.
    BlockCreateFailed {
        /// The block.
        block_id: String,
        /// What was wrong last.
        error: String,
    },
    /// A pipeline came of it.
    Complete {
        /// The pipeline.
        pipeline: Value,
        /// What each stage did.
        log: Vec<Value>,
    },
    /// Nothing came of it.
    Error {
        /// The stage that could not go on.
        stage: &'static str,
        /// Why.
        error: StepError,
        /// Blocks that are neither in the registry nor could be written.
        missing_blocks: Vec<String>,
    },
}

impl Event {
    /// Its name on the stream.
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

    /// Its data, with its name as `type`.
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
