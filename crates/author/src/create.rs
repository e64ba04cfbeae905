//! Stage 3: blocks that are not there are written, tried, and written again if need be.

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

/// The stage's name.
pub const STAGE: &str = "create";

const SYSTEM: &str = include_str!("prompts/create.txt");
const SCHEMA: &str = include_str!("prompts/create.schema.json");

/// A block that is to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// What is wanted.
    pub wanted: Wanted,
    /// The id that it gets, which nothing else has.
    pub id: String,
    /// What the person wants.
    pub intent: String,
    /// Which of the blocks that are missing it is, from 0.
    pub index: usize,
    /// How many are missing.
    pub total: usize,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    /// A block that passed all its trials.
    Created {
        /// Its definition.
        block: Value,
        /// Answers that it took.
        answers: usize,
    },
    /// Nothing that could be kept.
    Failed {
        /// The id that it would have had.
        block_id: String,
        /// What was wrong with each answer.
        errors: Vec<String>,
    },
}

impl Made {
    /// The block's id.
    pub fn id(&self) -> &str {
        match self {
            Made::Created { block, .. } => block.get("id").and_then(Value::as_str).unwrap_or_default(),
            Made::Failed { block_id, .. } => block_id,
        }
    }

    /// The block, if there is one.
    pub fn block(&self) -> Option<&Value> {
        if let Made::Created { block, .. } = self { Some(block) } else { None }
    }
}

/// An id like `suggested` that is not taken.
pub fn free_id(suggested: &str, is_taken: impl Fn(&str) -> bool) -> String {
    numbered(suggested).find(|id| !is_taken(id)).unwrap_or_else(|| suggested.to_owned())
}

/// An id, and that id with numbers.
pub fn numbered(id: &str) -> impl Iterator<Item = String> {
    std::iter::once(id.to_owned()).chain((2u32..).map(move |number| format!("{id}_{number}")))
}

/// Writes a block: each answer is checked as it is written, then tried. One that fails goes back with everything that was
/// wrong so far, and what comes instead is tried anew from the beginning.
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

/// What was said, and the block in it if it passed everything.
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

/// Everything that trials of a block bring up.
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

/// Tells that blocks will be written.
pub fn begin(world: &dyn World, missing: usize) {
    let message = format!("writing {missing} block(s) that are not there");
    world.tell(Event::Stage { stage: STAGE, status: "running", message });
}

/// Tells that no block has to be written.
pub fn skip(world: &dyn World) {
    let message = "all blocks are there".to_owned();
    world.tell(Event::Stage { stage: STAGE, status: "skipped", message });
    world.tell(Event::StageResult { stage: STAGE, status: "skipped", details: Map::new() });
}

/// Tells what was written.
pub fn finish(world: &dyn World, made: &[Made]) {
    let (created, failed): (Vec<_>, Vec<_>) = made.iter().partition(|made| made.block().is_some());
    let status = if failed.is_empty() { "done" } else { "failed" };
    let ids = |made: Vec<&Made>| names(made.into_iter().map(Made::id));
    let details = Map::from_iter([("created".into(), ids(created)), ("failed".into(), ids(failed))]);
    world.tell(Event::StageResult { stage: STAGE, status, details });
}
