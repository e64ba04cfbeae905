//! Stage 1: which blocks the goal requires.

use flowloom_core::error::StepError;
use flowloom_core::value::{Map, Value};

use crate::answer::ask_until;
use crate::event::{Event, count};
use crate::wanted::{Wanted, read};
use crate::world::{Question, World};

/// The name of the stage.
pub const STAGE: &str = "decompose";

const SYSTEM: &str = include_str!("prompts/decompose.txt");
const SCHEMA: &str = include_str!("prompts/decompose.schema.json");

/// Decomposes a goal into required blocks; the list is never empty. Fails with `FL1060` if no answer of the model is
/// usable.
pub async fn decompose(world: &dyn World, intent: &str) -> Result<Vec<Wanted>, StepError> {
    let message = "finding the required blocks".to_owned();
    world.tell(Event::Stage { stage: STAGE, status: "running", message });
    let question = Question::new(STAGE, SYSTEM, format!("The wish:\n{intent}"), Some(SCHEMA));
    let wanted = ask_until(world, STAGE, question, read).await?;
    let blocks = Value::list(wanted.iter().map(Wanted::in_full).collect());
    let details = Map::from_iter([("required_blocks".into(), blocks), ("count".into(), count(wanted.len()))]);
    world.tell(Event::StageResult { stage: STAGE, status: "done", details });
    world.tell(Event::DecomposeBlocks(wanted.clone()));
    world.tell(Event::Validation { stage: STAGE, error: None });
    Ok(wanted)
}
