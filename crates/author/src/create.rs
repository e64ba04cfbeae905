//! Stage 3: missing blocks are written, tried, and rewritten if they fail.

use flowloom_core::error::StepError;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};

use crate::REPAIRS;
use crate::answer::{Dialogue, ask};
use crate::block;
use crate::event::{Event, names};
use crate::marked::marked;
use crate::trial::{Verdict, cases, verdict};
use crate::wanted::Wanted;
use crate::world::{Question, World};

/// The name of the stage.
pub const STAGE: &str = "create";

const SYSTEM: &str = include_str!("prompts/create.txt");
const SCHEMA: &str = include_str!("prompts/create.schema.json");

/// A block to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The required block.
    pub wanted: Wanted,
    /// The id of the new block, which is not taken.
    pub id: String,
    /// The user's goal.
    pub intent: String,
    /// The index of this block among the missing ones, from 0.
    pub index: usize,
    /// The number of missing blocks.
    pub total: usize,
}

/// The result of writing a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// A block that passed all its trials.
    Created {
        /// The definition.
        block: Value,
        /// The number of answers that it took.
        answers: usize,
    },
    /// No usable block.
    Failed {
        /// The id that the block would have had.
        block_id: String,
        /// The errors of each answer.
        errors: Vec<String>,
    },
}

impl Made {
    /// The id of the block.
    pub fn id(&self) -> &str {
        match self {
            Made::Created { block, .. } => block.get("id").and_then(Value::as_str).unwrap_or_default(),
            Made::Failed { block_id, .. } => block_id,
        }
    }

    /// The block, if it was created.
    pub fn block(&self) -> Option<&Value> {
        if let Made::Created { block, .. } = self { Some(block) } else { None }
    }
}

/// An id derived from `suggested` that is not taken.
pub fn free_id(suggested: &str, is_taken: impl Fn(&str) -> bool) -> String {
    numbered(suggested).find(|id| !is_taken(id)).unwrap_or_else(|| suggested.to_owned())
}

/// The id, then the id with numbers appended.
pub fn numbered(id: &str) -> impl Iterator<Item = String> {
    std::iter::once(id.to_owned()).chain((2u32..).map(move |number| format!("{id}_{number}")))
}

/// Writes a block. Each answer is checked and then tried. If it fails, the model receives all errors so far, and its
/// next answer is tried from the beginning. Fails only if the environment fails (no provider, no sandbox).
pub async fn create(world: &dyn World, order: &Order) -> Result<Made, StepError> {
    let Order { wanted, id, index, total, .. } = order;
    let (suggested_id, description) = (wanted.suggested_id.clone(), wanted.description.clone());
    world.tell(Event::CreatingBlock { index: *index, total: *total, suggested_id, description });
    let mut dialogue = Dialogue::new(question(order));
    let mut errors = Vec::new();
    loop {
        let (said, tested) = match attempt(world, order, &dialogue.question).await {
            Ok(attempted) => attempted,
            Err(error) => {
                world.tell(Event::BlockCreateFailed { block_id: id.clone(), error: error.message.clone() });
                return Err(error);
            }
        };
        let problems = match tested {
            Ok(block) => {
                world.tell(Event::BlockTestPassed { block_id: id.clone() });
                return Ok(Made::Created { block, answers: dialogue.failures() + 1 });
            }
            Err(problems) => problems,
        };
        let (error, retry) = (problems.join("; "), dialogue.failures() < REPAIRS);
        errors.push(error.clone());
        world.tell(Event::BlockTestFailed { block_id: id.clone(), error: error.clone(), retry });
        if !retry {
            world.tell(Event::BlockCreateFailed { block_id: id.clone(), error });
            return Ok(Made::Failed { block_id: id.clone(), errors });
        }
        dialogue.failed(said.as_deref(), problems);
    }
}

fn question(order: &Order) -> Question {
    let wanted = marked("the block that is wanted", &render::json(&order.wanted.in_full()));
    let intent = marked("the wish that it is part of", &order.intent);
    let user = format!("Write this block. Its id is {:?}.\n{wanted}\n{intent}", order.id);
    Question::new(&format!("{STAGE}:{}", order.wanted.suggested_id), SYSTEM, user, Some(SCHEMA))
}

/// The text of an answer, and the block in it or its errors.
type Attempted = (Option<String>, Result<Value, Vec<String>>);

async fn attempt(world: &dyn World, order: &Order, question: &Question) -> Result<Attempted, StepError> {
    let text = match ask(world, question).await? {
        Ok(text) => text,
        Err(why) => return Ok((None, Err(vec![why]))),
    };
    let tested = match block::read(&text, &order.wanted, &order.id) {
        Ok(block) => {
            world.tell(Event::BlockCreated(block.clone()));
            let problems = test(world, &block).await?;
            if problems.is_empty() { Ok(block) } else { Err(problems) }
        }
        Err(problems) => Err(problems),
    };
    Ok((Some(text), tested))
}

/// The errors that the trials of a block reveal.
async fn test(world: &dyn World, block: &Value) -> Result<Vec<String>, StepError> {
    let mut problems = Vec::new();
    let mut has_passed = false;
    for case in cases(block) {
        let trial = world.attempt(block, &case.inputs).await?;
        match verdict(block, &case, &trial) {
            Verdict::Passed => has_passed = true,
            Verdict::Refused => {}
            Verdict::Failed(why) => problems.push(why),
        }
    }
    if problems.is_empty() && !has_passed {
        problems
            .push("there is no trial in which it gave an output; give an example whose inputs it can use".to_owned());
    }
    Ok(problems)
}

/// Reports that blocks will be written.
pub fn begin(world: &dyn World, missing: usize) {
    let message = format!("writing {missing} missing block(s)");
    world.tell(Event::Stage { stage: STAGE, status: "running", message });
}

/// Reports that no block has to be written.
pub fn skip(world: &dyn World) {
    let message = "all blocks exist already".to_owned();
    world.tell(Event::Stage { stage: STAGE, status: "skipped", message });
    world.tell(Event::StageResult { stage: STAGE, status: "skipped", details: Map::new() });
}

/// Reports the written blocks.
pub fn finish(world: &dyn World, made: &[Made]) {
    let (created, failed): (Vec<_>, Vec<_>) = made.iter().partition(|made| made.block().is_some());
    let status = if failed.is_empty() { "done" } else { "failed" };
    let ids = |made: Vec<&Made>| names(made.into_iter().map(Made::id));
    let details = Map::from_iter([("created".into(), ids(created)), ("failed".into(), ids(failed))]);
    world.tell(Event::StageResult { stage: STAGE, status, details });
}
