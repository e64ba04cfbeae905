//! Stage 4: the blocks become a pipeline that passes its check.

use flowloom_core::error::StepError;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::Sources;

use crate::answer::ask_until;
use crate::event::Event;
use crate::marked::marked;
use crate::wiring;
use crate::world::{Question, World};

/// The stage's name.
pub const STAGE: &str = "wire";

const SYSTEM: &str = include_str!("prompts/wire.txt");
const SCHEMA: &str = include_str!("prompts/wire.schema.json");

/// Keys of a block that help to connect it; what is in it is nobody's business here.
const TOLD: [&str; 7] = ["id", "name", "description", "input_schema", "output_schema", "use_when", "tags"];

/// Connects blocks to a pipeline. What does not pass the check goes back with all that it says.
pub async fn wire(world: &dyn World, intent: &str, blocks: &[Value], sources: &Sources) -> Result<Value, StepError> {
    let message = "connecting the blocks".to_owned();
    world.tell(Event::Stage { stage: STAGE, status: "running", message });
    let catalogue = Value::list(blocks.iter().map(in_catalogue).collect());
    let offered = marked("the blocks", &render::json(&catalogue));
    let question = Question::new(STAGE, SYSTEM, format!("The wish:\n{intent}\n\n{offered}"), Some(SCHEMA));
    let pipeline = ask_until(world, STAGE, question, |said| wiring::read(said, intent, blocks, sources)).await?;
    world.tell(Event::Validation { stage: STAGE, error: None });
    let details = Map::from_iter([("pipeline_json".into(), pipeline.clone())]);
    world.tell(Event::StageResult { stage: STAGE, status: "done", details });
    Ok(pipeline)
}

/// A pipeline and the blocks that it uses as one definition, which runs by itself.
pub fn definition(pipeline: &Value, blocks: &[Value]) -> Value {
    wiring::definition(pipeline, blocks)
}

fn in_catalogue(block: &Value) -> Value {
    let told = TOLD.into_iter().filter_map(|key| Some((key.into(), block.get(key)?.clone())));
    let mut entry: Map = told.collect();
    let example = block.get("examples").and_then(Value::as_list).and_then(<[Value]>::first);
    entry.extend(example.map(|example| ("example".into(), example.clone())));
    entry.into()
}
