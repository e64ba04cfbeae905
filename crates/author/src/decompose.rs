//! Stage 1: which blocks the goal requires.

use flowloom_core::error::StepFailure;
use flowloom_core::value::{Map, Value};

use crate::answer::ask_until;
use crate::candidates::list_blocks;
use crate::env::{ModelQuestion, PlannerEnv};
use crate::event::{PlannerEvent, count_value};
use crate::fence::fence_text;
use crate::required::{RequiredBlock, read};

/// The name of the stage.
pub const STAGE_NAME: &str = "decompose";

const DECOMPOSE_PROMPT: &str = include_str!("prompts/decompose.txt");
const DECOMPOSE_SCHEMA: &str = include_str!("prompts/decompose.schema.json");

/// Decomposes a goal into required blocks; the list is never empty. Fails with `FL1060` if no answer of the model is
/// usable.
pub async fn decompose_goal(world: &dyn PlannerEnv, intent: &str) -> Result<Vec<RequiredBlock>, StepFailure> {
    let message = "finding the required blocks".to_owned();
    world.emit_event(PlannerEvent::Stage { stage: STAGE_NAME, status: "running", message });
    let candidates = world.list_candidate_blocks(intent).await?;
    let candidates = fence_text("existing blocks", &list_blocks(&candidates));
    let user = format!("The wish:\n{intent}\n\n{candidates}");
    let question = ModelQuestion::new(STAGE_NAME, DECOMPOSE_PROMPT, user, Some(DECOMPOSE_SCHEMA));
    let wanted = ask_until(world, STAGE_NAME, question, read).await?;
    let blocks = Value::list(wanted.iter().map(RequiredBlock::to_definition).collect());
    let details = Map::from_iter([("required_blocks".into(), blocks), ("count".into(), count_value(wanted.len()))]);
    world.emit_event(PlannerEvent::StageResult { stage: STAGE_NAME, status: "done", details });
    world.emit_event(PlannerEvent::DecomposeBlocks(wanted.clone()));
    world.emit_event(PlannerEvent::Validation { stage: STAGE_NAME, error: None });
    Ok(wanted)
}
