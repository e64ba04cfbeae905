//! Stores the results of an authoring run: the new blocks and the pipeline.

use flowloom_author::Draft;
use flowloom_author::create::{Made, numbered};
use flowloom_core::error::StepError;
use flowloom_core::plan::Format;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::pipeline::built_in;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{Clock as _, Context, Substeps};
use flowloom_store::{Change, DefinitionKey, Kind, NewDefinition, Origin};

use super::Author;
use super::job::{Job, value_of};
use super::world::Recorded;
use crate::definitions::stored::{self, Content};

/// Stores the blocks that passed their trials for the run's user. Storing them again after a crash changes nothing.
pub(super) async fn blocks(author: &Author, draft: &Draft, context: &Context) -> Result<(), StepError> {
    let made = draft.made.iter().filter_map(Made::block);
    let changes: Vec<Change> =
        made.map(|block| put(context, Kind::Block, (id_of(block), None), render::json(block), Vec::new())).collect();
    if !changes.is_empty() {
        author.store.change_definitions(changes, SystemClock.now_ms()).await?;
        author.blocks.changed();
    }
    Ok(())
}

/// Runs the last stage: assigns the pipeline a free id, stores it if requested, and emits the `complete` event.
pub(super) async fn pipeline(
    author: &Author,
    mut job: Job,
    (context, below): (&Context, &dyn Substeps),
) -> Result<Value, StepError> {
    let pipeline = named(author, &job, context)?;
    if job.how.keep {
        let content = content(&pipeline).text()?;
        let change = put(
            context,
            Kind::Workflow,
            (id_of(&pipeline), Some(flowloom_formats::pipeline::FORMAT)),
            content,
            uses(&pipeline),
        );
        author.store.change_definitions(vec![change], SystemClock.now_ms()).await?;
    }
    job.draft.pipeline = Some(pipeline);
    let pipeline = job.draft.complete(&Recorded::new(author, &job.how, below));
    let blocks = flowloom_author::wire::definition(&pipeline, &job.draft.blocks()).get("blocks").cloned();
    Ok(Value::map([
        ("pipeline_json", pipeline),
        ("status", "done".into()),
        ("log", Value::list(job.draft.log())),
        ("missing_blocks", Value::list(Vec::new())),
        ("blocks", blocks.unwrap_or_default()),
        ("tried", job.draft.tried.as_ref().map(value_of).transpose()?.unwrap_or_default()),
        ("is_kept", job.how.keep.into()),
    ]))
}

/// The pipeline under an id that no other definition of the user has.
fn named(author: &Author, job: &Job, context: &Context) -> Result<Value, StepError> {
    let mut pipeline = job.draft.pipeline.as_ref().and_then(Value::as_map).cloned().unwrap_or_default();
    pipeline.insert("user_intent".into(), job.draft.intent.as_str().into());
    let wanted = pipeline.get("id").and_then(Value::as_str).unwrap_or("pipeline").to_owned();
    for id in numbered(&wanted) {
        pipeline.insert("id".into(), id.as_str().into());
        if !job.how.taken.contains(&id) && !is_other(author, context, &pipeline.clone().into())? {
            break;
        }
    }
    Ok(pipeline.into())
}

fn content(pipeline: &Value) -> Content {
    let file = format!("{}.json", id_of(pipeline));
    Content { format: Some(flowloom_formats::pipeline::FORMAT), ..Content::single(&file, render::json(pipeline)) }
}

/// Whether another definition is stored under this pipeline's id.
fn is_other(author: &Author, context: &Context, pipeline: &Value) -> Result<bool, StepError> {
    let found = stored::find(&author.store, &context.owner, Kind::Workflow, id_of(pipeline))?;
    Ok(match found {
        Some(row) => row.content != content(pipeline).text()?,
        None => false,
    })
}

/// The ids of the stored blocks that a pipeline uses.
fn uses(pipeline: &Value) -> Vec<(Kind, String)> {
    let nodes = pipeline.get("nodes").and_then(Value::as_list).unwrap_or_default();
    let mut ids: Vec<&str> = nodes.iter().filter_map(|node| node.get("block_id").and_then(Value::as_str)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.retain(|id| !built_in().iter().any(|block| id_of(block) == *id));
    ids.into_iter().map(|id| (Kind::Block, id.to_owned())).collect()
}

fn put(
    context: &Context,
    kind: Kind,
    (id, format): (&str, Option<Format>),
    content: String,
    uses: Vec<(Kind, String)>,
) -> Change {
    let key = DefinitionKey { holder: context.owner.to_string(), kind, id: id.to_owned() };
    let format = format.map(|format| format.name().to_owned());
    Change::Put(NewDefinition { key, format, content, origin: Origin::Function, uses })
}

fn id_of(block: &Value) -> &str {
    block.get("id").and_then(Value::as_str).unwrap_or_default()
}
