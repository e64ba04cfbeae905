//! Stores the results of an authoring run: the new blocks and the pipeline.

use flowloom_author::create::numbered_ids;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::Format;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::pipeline::built_in_blocks;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{ChildEffects, Clock as _, EffectContext};
use flowloom_store::{Actor, DefinitionChange, DefinitionKey, DefinitionKind, NewDefinition, Origin};

use super::AuthoringEnv;
use super::job::{AuthoringJob, to_value};
use super::world::RecordedEnv;
use crate::definitions::stored::{self, DefinitionContent};

/// Stores a block that passed its trials for the run's user. Storing it again after a crash changes nothing.
pub(super) async fn store_block(
    author: &AuthoringEnv,
    block: &Value,
    context: &EffectContext,
) -> Result<(), StepFailure> {
    let key = definition_key(context, DefinitionKind::Block, block);
    let change = put_change(key, None, render::to_json(block), Vec::new());
    author.store.change_definitions(vec![change], &run_actor(context), SystemClock.now_ms()).await?;
    author.blocks.notify_changed();
    Ok(())
}

/// The actor of changes that a run makes.
fn run_actor(context: &EffectContext) -> Actor {
    Actor::run(context.run, &context.user)
}

/// Runs the last stage: assigns the pipeline a free id, stores it if requested, and emits the `complete` event.
pub(super) async fn finish_pipeline(
    author: &AuthoringEnv,
    mut job: AuthoringJob,
    context: &EffectContext,
    below: &dyn ChildEffects,
) -> Result<Value, StepFailure> {
    let pipeline = assign_free_id(author, &job, context)?;
    if job.how.keep {
        let key = definition_key(context, DefinitionKind::Workflow, &pipeline);
        let content = pipeline_content(&pipeline).to_json()?;
        let change = put_change(key, Some(flowloom_formats::pipeline::FORMAT), content, used_blocks(&pipeline));
        author.store.change_definitions(vec![change], &run_actor(context), SystemClock.now_ms()).await?;
    }
    job.draft.pipeline = Some(pipeline);
    let pipeline = job.draft.emit_complete(&RecordedEnv::new(author, &job.how, context, below));
    let blocks =
        flowloom_author::wire::build_definition(&pipeline, &job.draft.available_blocks()).get("blocks").cloned();
    Ok(Value::map([
        ("pipeline_json", pipeline),
        ("status", "done".into()),
        ("log", Value::list(job.draft.stage_log())),
        ("missing_blocks", Value::list(Vec::new())),
        ("blocks", blocks.unwrap_or_default()),
        ("tried", job.draft.tried.as_ref().map(to_value).transpose()?.unwrap_or_default()),
        ("is_kept", job.how.keep.into()),
    ]))
}

/// The pipeline under an id that no other definition of the user has, or of any user if the job demands it.
fn assign_free_id(author: &AuthoringEnv, job: &AuthoringJob, context: &EffectContext) -> Result<Value, StepFailure> {
    let mut pipeline = job.draft.pipeline.as_ref().and_then(Value::as_map).cloned().unwrap_or_default();
    pipeline.insert("user_intent".into(), job.draft.intent.as_str().into());
    let wanted = pipeline.get("id").and_then(Value::as_str).unwrap_or("pipeline").to_owned();
    for id in numbered_ids(&wanted) {
        pipeline.insert("id".into(), id.as_str().into());
        let is_others =
            job.how.has_global_id && author.has_other_owner(DefinitionKind::Workflow, &id, &context.user)?;
        if !is_others && !job.how.taken.contains(&id) && !is_id_taken(author, context, &pipeline.clone().into())? {
            break;
        }
    }
    Ok(pipeline.into())
}

fn pipeline_content(pipeline: &Value) -> DefinitionContent {
    let file = format!("{}.json", id_of(pipeline));
    DefinitionContent {
        format: Some(flowloom_formats::pipeline::FORMAT),
        ..DefinitionContent::single(&file, render::to_json(pipeline))
    }
}

/// Whether another definition is stored under this pipeline's id.
fn is_id_taken(author: &AuthoringEnv, context: &EffectContext, pipeline: &Value) -> Result<bool, StepFailure> {
    let found = stored::find_definition(&author.store, &context.user, DefinitionKind::Workflow, id_of(pipeline))?;
    Ok(match found {
        Some(row) => row.content != pipeline_content(pipeline).to_json()?,
        None => false,
    })
}

/// The ids of the stored blocks that a pipeline uses.
fn used_blocks(pipeline: &Value) -> Vec<(DefinitionKind, String)> {
    let nodes = pipeline.get("nodes").and_then(Value::as_list).unwrap_or_default();
    let mut ids: Vec<&str> = nodes.iter().filter_map(|node| node.get("block_id").and_then(Value::as_str)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.retain(|id| !built_in_blocks().iter().any(|block| id_of(block) == *id));
    ids.into_iter().map(|id| (DefinitionKind::Block, id.to_owned())).collect()
}

/// The key under which a block or a pipeline of the run's user is stored.
fn definition_key(context: &EffectContext, kind: DefinitionKind, definition: &Value) -> DefinitionKey {
    DefinitionKey { user: context.user.to_string(), kind, id: id_of(definition).to_owned() }
}

fn put_change(
    key: DefinitionKey,
    format: Option<Format>,
    content: String,
    uses: Vec<(DefinitionKind, String)>,
) -> DefinitionChange {
    let format = format.map(|format| format.name().to_owned());
    DefinitionChange::Put(NewDefinition { key, format, content, origin: Origin::Function, uses })
}

fn id_of(block: &Value) -> &str {
    block.get("id").and_then(Value::as_str).unwrap_or_default()
}
