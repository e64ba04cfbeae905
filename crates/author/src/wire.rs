//! Stage 4: connects the blocks to a pipeline that passes its check and its dry run.

use flowloom_core::error::StepError;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::Sources;
use serde::{Deserialize, Serialize};

use crate::answer::Dialogue;
use crate::event::Event;
use crate::marked::marked;
use crate::rehearse::Rehearsal;
use crate::wiring;
use crate::world::{Question, World};

/// The name of the stage.
pub const STAGE: &str = "wire";

const SYSTEM: &str = include_str!("prompts/wire.txt");
const SCHEMA: &str = include_str!("prompts/wire.schema.json");

/// Keys of a block that are needed to connect it; its code is not.
const TOLD: [&str; 7] = ["id", "name", "description", "input_schema", "output_schema", "use_when", "tags"];

/// A pipeline and the report of its dry run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wired {
    /// The pipeline.
    pub pipeline: Value,
    /// The dry run, which found no faults of the pipeline.
    pub tried: Rehearsal,
}

/// Connects blocks to a pipeline. If it fails the check or the dry run, the model receives all errors. Fails with
/// `FL1060` if no answer is usable.
pub async fn wire(world: &dyn World, intent: &str, blocks: &[Value], sources: &Sources) -> Result<Wired, StepError> {
    let message = "connecting the blocks".to_owned();
    world.tell(Event::Stage { stage: STAGE, status: "running", message });
    let catalogue = Value::list(blocks.iter().map(in_catalogue).collect());
    let offered = marked("the blocks", &render::json(&catalogue));
    let question = Question::new(STAGE, SYSTEM, format!("The wish:\n{intent}\n\n{offered}"), Some(SCHEMA));
    let mut dialogue = Dialogue::new(question);
    let wired = loop {
        let read = |said: &str| wiring::read(said, intent, blocks, sources);
        let (said, pipeline) = dialogue.next(world, STAGE, read).await?;
        let tried = world.rehearse(&pipeline, blocks).await?;
        let faults = tried.faults();
        if faults.is_empty() {
            break Wired { pipeline, tried };
        }
        dialogue.refuse(world, STAGE, Some(&said), faults)?;
    };
    world.tell(Event::Validation { stage: STAGE, error: None });
    let details = [("pipeline_json", wired.pipeline.clone()), ("tried", wired.tried.to_value())];
    let details = details.into_iter().map(|(key, value)| (key.into(), value)).collect();
    world.tell(Event::StageResult { stage: STAGE, status: "done", details });
    Ok(wired)
}

/// A pipeline and the blocks that it uses as one self-contained definition.
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
