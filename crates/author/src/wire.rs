//! Stage 4: connects the blocks to a pipeline that passes its check and its dry run.

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_formats::Sources;
use serde::{Deserialize, Serialize};

use crate::answer::Dialogue;
use crate::dry_run::DryRun;
use crate::env::{ModelQuestion, PlannerEnv};
use crate::event::PlannerEvent;
use crate::fence::fence_text;
use crate::wiring;

/// The name of the stage.
pub const STAGE_NAME: &str = "wire";

const WIRE_PROMPT: &str = include_str!("prompts/wire.txt");
const WIRE_SCHEMA: &str = include_str!("prompts/wire.schema.json");

/// Keys of a block that are needed to connect it; its code is not.
const CATALOG_KEYS: [&str; 7] = ["id", "name", "description", "input_schema", "output_schema", "use_when", "tags"];

/// A pipeline and the report of its dry run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WiredPipeline {
    /// The pipeline.
    pub pipeline: Value,
    /// The dry run, which found no faults of the pipeline.
    pub dry_run: DryRun,
}

/// Connects blocks to a pipeline. If it fails the check or the dry run, the model receives all errors. Fails with
/// `FL1060` if no answer is usable.
pub async fn wire_blocks(
    world: &dyn PlannerEnv,
    intent: &str,
    blocks: &[Value],
    sources: &Sources,
) -> Result<WiredPipeline, StepFailure> {
    let message = "connecting the blocks".to_owned();
    world.emit_event(PlannerEvent::Stage { stage: STAGE_NAME, status: "running", message });
    let catalogue = Value::list(blocks.iter().map(catalog_entry).collect());
    let block_text = fence_text("the blocks", &render::to_json(&catalogue));
    let question =
        ModelQuestion::new(STAGE_NAME, WIRE_PROMPT, format!("The wish:\n{intent}\n\n{block_text}"), Some(WIRE_SCHEMA));
    let mut dialogue = Dialogue::new(question);
    let wired = loop {
        let read = |reply: &str| wiring::read(reply, intent, blocks, sources);
        let (reply, pipeline) = dialogue.next_answer(world, STAGE_NAME, read).await?;
        let tried = world.dry_run(&pipeline, blocks).await?;
        let faults = tried.list_faults();
        if faults.is_empty() {
            break WiredPipeline { pipeline, dry_run: tried };
        }
        // Other connections do not make a block end that runs into its limits.
        if let Some(node) = tried.find_exceeded_limit() {
            let message = format!("{STAGE_NAME}: the dry run failed: {}", faults.join("; "));
            world.emit_event(PlannerEvent::Validation { stage: STAGE_NAME, error: Some(message.clone()) });
            return Err(StepFailure::new(Code::AuthoringFailed, format!("{message} (block {})", node.block_id)));
        }
        dialogue.reject_answer(world, STAGE_NAME, Some(&reply), faults)?;
    };
    world.emit_event(PlannerEvent::Validation { stage: STAGE_NAME, error: None });
    let details = [("pipeline_json", wired.pipeline.clone()), ("tried", wired.dry_run.to_value())];
    let details = details.into_iter().map(|(key, value)| (key.into(), value)).collect();
    world.emit_event(PlannerEvent::StageResult { stage: STAGE_NAME, status: "done", details });
    Ok(wired)
}

/// A pipeline and the blocks that it uses as one self-contained definition.
pub fn build_definition(pipeline: &Value, blocks: &[Value]) -> Value {
    wiring::build_definition(pipeline, blocks)
}

fn catalog_entry(block: &Value) -> Value {
    let entries = CATALOG_KEYS.into_iter().filter_map(|key| Some((key.into(), block.get(key)?.clone())));
    let mut entry: Map = entries.collect();
    let example = block.get("examples").and_then(Value::as_list).and_then(<[Value]>::first);
    entry.extend(example.map(|example| ("example".into(), example.clone())));
    entry.into()
}
