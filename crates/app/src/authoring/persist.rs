//! Stores the results of an authoring run: the new blocks and the pipeline.

use std::collections::HashSet;

use flowloom_author::create::numbered_ids;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::Format;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::pipeline::built_in_blocks;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{ChildEffects, Clock as _, EffectContext};
use flowloom_store::{
    Actor, ContentTags, DefinitionChange, DefinitionCondition, DefinitionKey, DefinitionKind, NewDefinition, Origin,
    Store, StoreError,
};

use super::AuthoringEnv;
use super::job::{AuthoringJob, to_value};
use super::world::RecordedEnv;
use crate::blocks::BlockRegistry;
use crate::definitions::stored::{self, DefinitionContent};

/// Stores a block that passed its trials for the run's user. A block that exists is left as it is: this run has stored it
/// before a crash, or a person has changed it since.
pub(super) async fn store_block(
    author: &AuthoringEnv,
    block: &Value,
    context: &EffectContext,
) -> Result<(), StepFailure> {
    store_new_block(&author.store, &author.blocks, &context.user, block, &run_actor(context)).await?;
    Ok(())
}

/// Stores a block for `user`, unless the user has one with this id. Fails if it cannot be stored.
pub async fn store_new_block(
    store: &Store,
    blocks: &BlockRegistry,
    user: &str,
    block: &Value,
    by: &Actor,
) -> Result<(), StoreError> {
    let key = DefinitionKey { user: user.to_owned(), kind: DefinitionKind::Block, id: id_of(block).to_owned() };
    let change = put_change(key, None, render::to_json(block), Vec::new());
    let is_new = DefinitionCondition { excluded: Some(ContentTags::Any), ..DefinitionCondition::default() };
    match store.change_definitions_if(vec![change], is_new, by, SystemClock.now_ms()).await {
        Ok(_) => blocks.notify_changed(),
        Err(StoreError::DefinitionExists { .. }) => {}
        Err(error) => return Err(error),
    }
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
        let key = DefinitionKey {
            user: context.user.to_string(),
            kind: DefinitionKind::Workflow,
            id: id_of(&pipeline).to_owned(),
        };
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
    let foreign = match job.how.has_global_id {
        true => author.store.list_foreign_ids(DefinitionKind::Workflow, &context.user, &wanted)?,
        false => HashSet::new(),
    };
    for id in numbered_ids(&wanted) {
        pipeline.insert("id".into(), id.as_str().into());
        let is_reserved = foreign.contains(&id) || job.how.taken.contains(&id);
        if !is_reserved && !is_id_taken(author, context, &pipeline.clone().into())? {
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
