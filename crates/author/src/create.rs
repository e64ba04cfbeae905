//! Stage 3: missing blocks are written, tried, and rewritten if they fail.

use std::collections::VecDeque;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use serde::{Deserialize, Serialize};

use crate::answer::{Dialogue, ask_once};
use crate::block;
use crate::env::{ModelQuestion, PlannerEnv};
use crate::event::{PlannerEvent, names_value};
use crate::fence::fence_text;
use crate::limits::{MAX_REPAIRS, MAX_TRIAL_TIMEOUTS};
use crate::model::TrialOutcome;
use crate::required::RequiredBlock;
use crate::trial::{Verdict, find_constant_output, find_doubtful_case, judge_trial, trial_cases};

/// The name of the stage.
pub const STAGE_NAME: &str = "create";

const CREATE_PROMPT: &str = include_str!("prompts/create.txt");
const CREATE_SCHEMA: &str = include_str!("prompts/create.schema.json");

/// A block to write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockOrder {
    /// The required block.
    pub wanted: RequiredBlock,
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
pub enum CreateOutcome {
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

impl CreateOutcome {
    /// The id of the block.
    pub fn block_id(&self) -> &str {
        match self {
            CreateOutcome::Created { block, .. } => block.get("id").and_then(Value::as_str).unwrap_or_default(),
            CreateOutcome::Failed { block_id, .. } => block_id,
        }
    }

    /// The block, if it was created.
    pub fn block(&self) -> Option<&Value> {
        if let CreateOutcome::Created { block, .. } = self { Some(block) } else { None }
    }
}

/// An id derived from `suggested` that is not taken.
pub fn free_id(suggested: &str, is_taken: impl Fn(&str) -> bool) -> String {
    numbered_ids(suggested).find(|id| !is_taken(id)).unwrap_or_else(|| suggested.to_owned())
}

/// The id, then the id with numbers appended.
pub fn numbered_ids(id: &str) -> impl Iterator<Item = String> {
    std::iter::once(id.to_owned()).chain((2u32..).map(move |number| format!("{id}_{number}")))
}

/// How many trials may still run into the time limit. A model that writes endless loops would otherwise keep the sandbox
/// busy with every block and every repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutAllowance(usize);

impl Default for TimeoutAllowance {
    fn default() -> TimeoutAllowance {
        TimeoutAllowance(MAX_TRIAL_TIMEOUTS)
    }
}

impl TimeoutAllowance {
    /// Whether no further trial is worth its time.
    pub fn is_used_up(self) -> bool {
        self.0 == 0
    }
}

/// Writes a block. Each answer is checked and then tried. If it fails, the model receives all errors so far, and its
/// next answer is tried from the beginning, unless too many trials have run into the time limit. Fails only if the
/// environment fails (no provider, no sandbox).
pub async fn create_block(
    world: &dyn PlannerEnv,
    order: &BlockOrder,
    timeouts: &mut TimeoutAllowance,
) -> Result<CreateOutcome, StepFailure> {
    let BlockOrder { wanted, id, index, total, .. } = order;
    let (suggested_id, description) = (wanted.suggested_id.clone(), wanted.description.clone());
    world.emit_event(PlannerEvent::CreatingBlock { index: *index, total: *total, suggested_id, description });
    if let Some(why) = wanted.find_outside_effect() {
        return Ok(refuse_block(world, id, why));
    }
    let mut dialogue = Dialogue::new(build_question(order));
    let mut errors = Vec::new();
    loop {
        let (reply, tested) = match attempt_block(world, order, &dialogue.question, timeouts).await {
            Ok(attempted) => attempted,
            Err(error) => {
                world
                    .emit_event(PlannerEvent::BlockCreateFailed { block_id: id.clone(), error: error.message.clone() });
                return Err(error);
            }
        };
        if let Some(why) = reply.as_deref().and_then(block::read_refusal) {
            return Ok(refuse_block(world, id, why));
        }
        let problems = match tested {
            Ok(block) => {
                world.keep_block(&block).await?;
                world.emit_event(PlannerEvent::BlockTestPassed { block_id: id.clone() });
                return Ok(CreateOutcome::Created { block, answers: dialogue.failure_count() + 1 });
            }
            Err(problems) => problems,
        };
        let retry = dialogue.failure_count() < MAX_REPAIRS && !timeouts.is_used_up();
        let error = problems.join("; ");
        errors.push(error.clone());
        world.emit_event(PlannerEvent::BlockTestFailed { block_id: id.clone(), error: error.clone(), retry });
        if !retry {
            world.emit_event(PlannerEvent::BlockCreateFailed { block_id: id.clone(), error });
            return Ok(CreateOutcome::Failed { block_id: id.clone(), errors });
        }
        dialogue.add_failure(reply.as_deref(), problems);
    }
}

/// Gives a block up that cannot be written.
fn refuse_block(world: &dyn PlannerEnv, id: &str, why: String) -> CreateOutcome {
    world.emit_event(PlannerEvent::BlockCreateFailed { block_id: id.to_owned(), error: why.clone() });
    CreateOutcome::Failed { block_id: id.to_owned(), errors: vec![why] }
}

fn build_question(order: &BlockOrder) -> ModelQuestion {
    let wanted = fence_text("the block that is wanted", &render::to_json(&order.wanted.to_definition()));
    let intent = fence_text("the goal that it is part of", &order.intent);
    let user = format!("Write this block. Its id is {:?}.\n{wanted}\n{intent}", order.id);
    ModelQuestion::new(&format!("{STAGE_NAME}:{}", order.wanted.suggested_id), CREATE_PROMPT, user, Some(CREATE_SCHEMA))
}

/// The text of an answer, and the block in it or its errors.
type AttemptResult = (Option<String>, Result<Value, Vec<String>>);

async fn attempt_block(
    world: &dyn PlannerEnv,
    order: &BlockOrder,
    question: &ModelQuestion,
    timeouts: &mut TimeoutAllowance,
) -> Result<AttemptResult, StepFailure> {
    let text = match ask_once(world, question).await? {
        Ok(text) => text,
        Err(why) => return Ok((None, Err(vec![why]))),
    };
    let tested = match block::read(&text, &order.wanted, &order.id) {
        Ok(block) => {
            world.emit_event(PlannerEvent::BlockCreated(block.clone()));
            let problems = test_block(world, &block, timeouts).await?;
            if problems.is_empty() { Ok(block) } else { Err(problems) }
        }
        Err(problems) => Err(problems),
    };
    Ok((Some(text), tested))
}

/// The errors that the trials of a block reveal. A trial that runs into a limit is the last one: the others would, too.
async fn test_block(
    world: &dyn PlannerEnv,
    block: &Value,
    timeouts: &mut TimeoutAllowance,
) -> Result<Vec<String>, StepFailure> {
    let (mut problems, mut passed) = (Vec::new(), Vec::new());
    let (mut cases, mut has_doubted) = (VecDeque::from(trial_cases(block)), false);
    while let Some(case) = cases.pop_front() {
        let trial = world.try_block(block, &case.inputs).await?;
        let is_limited = matches!(&trial, TrialOutcome::Failed(error) if error.code == Code::BlockLimit);
        match judge_trial(block, &case, &trial) {
            Verdict::Passed(output) => passed.push((case.inputs, output)),
            Verdict::Refused => {}
            Verdict::Failed(why) => problems.push(why),
        }
        if is_limited {
            timeouts.0 = timeouts.0.saturating_sub(1);
            break;
        }
        // One more trial, if there is doubt whether the outputs depend on the inputs.
        if cases.is_empty() && problems.is_empty() && !std::mem::replace(&mut has_doubted, true) {
            cases.extend(find_doubtful_case(block, &passed));
        }
    }
    if problems.is_empty() {
        problems.extend(find_constant_output(block, &passed));
    }
    Ok(problems)
}

/// Reports that blocks will be written.
pub fn emit_begin(world: &dyn PlannerEnv, missing: usize) {
    let message = format!("writing {missing} missing block(s)");
    world.emit_event(PlannerEvent::Stage { stage: STAGE_NAME, status: "running", message });
}

/// Reports that no block has to be written.
pub fn emit_skip(world: &dyn PlannerEnv) {
    let message = "all blocks exist already".to_owned();
    world.emit_event(PlannerEvent::Stage { stage: STAGE_NAME, status: "skipped", message });
    world.emit_event(PlannerEvent::StageResult { stage: STAGE_NAME, status: "skipped", details: Map::new() });
}

/// Reports the written blocks.
pub fn emit_finish(world: &dyn PlannerEnv, made: &[CreateOutcome]) {
    let (created, failed): (Vec<_>, Vec<_>) = made.iter().partition(|made| made.block().is_some());
    let status = if failed.is_empty() { "done" } else { "failed" };
    let ids = |made: Vec<&CreateOutcome>| names_value(made.into_iter().map(CreateOutcome::block_id));
    let details = Map::from_iter([("created".into(), ids(created)), ("failed".into(), ids(failed))]);
    world.emit_event(PlannerEvent::StageResult { stage: STAGE_NAME, status, details });
}
