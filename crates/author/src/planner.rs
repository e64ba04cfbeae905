//! Runs the stages one after another on a draft that can be stored between any two of them.

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use flowloom_formats::pipeline::built_in_blocks;
use serde::{Deserialize, Serialize};

use crate::create::{self, BlockOrder, CreateOutcome, TimeoutAllowance, create_block, free_id};
use crate::decompose::{self, decompose_goal};
use crate::dry_run::DryRun;
use crate::env::{PlannerEnv, PlannerSettings};
use crate::event::{PlannerEvent, names_value};
use crate::limits::MAX_TRIAL_TIMEOUTS;
use crate::required::RequiredBlock;
use crate::search::{self, SearchResults, search_blocks};
use crate::wire::{self, wire_blocks};

/// The state of a workflow in the making. Each stage adds to it; continuing a draft runs the remaining stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Draft {
    /// The goal, as a self-contained specification.
    pub intent: String,
    /// The user.
    pub user_id: String,
    /// The required blocks.
    pub wanted: Option<Vec<RequiredBlock>>,
    /// The results of the search.
    pub searched: Option<SearchResults>,
    /// The results of writing the missing blocks, in order.
    pub made: Vec<CreateOutcome>,
    /// The pipeline. It has passed its check and its dry run.
    pub pipeline: Option<Value>,
    /// The report of the dry run.
    pub tried: Option<DryRun>,
}

impl Draft {
    /// A draft without any results.
    pub fn new(intent: &str, user_id: &str) -> Draft {
        Draft { intent: intent.to_owned(), user_id: user_id.to_owned(), ..Draft::default() }
    }

    /// All available blocks without duplicates: found ones, then written ones.
    pub fn available_blocks(&self) -> Vec<Value> {
        let found = self.searched.iter().flat_map(|searched| &searched.found).map(|found| &found.block);
        let mut blocks: Vec<Value> = Vec::new();
        for block in found.chain(self.made.iter().filter_map(CreateOutcome::block)) {
            if !blocks.iter().any(|other| other.get("id") == block.get("id")) {
                blocks.push(block.clone());
            }
        }
        blocks
    }

    /// The suggested ids of blocks that are missing and could not be written, or were not written yet.
    pub fn missing_blocks(&self) -> Vec<String> {
        let wanted = self.searched.iter().flat_map(SearchResults::missing_ids).enumerate();
        let is_written = |index: usize| self.made.get(index).is_some_and(|made| made.block().is_some());
        wanted.filter(|(index, _)| !is_written(*index)).map(|(_, id)| id.to_owned()).collect()
    }

    /// A summary of each stage.
    pub fn stage_log(&self) -> Vec<Value> {
        let step = |name: &str| ("step", Value::from(name));
        let mut log = Vec::new();
        log.extend(self.wanted.as_ref().map(|_| Value::map([step(decompose::STAGE_NAME)])));
        if let Some(searched) = &self.searched {
            let (matched, missing) = (names_value(searched.found_ids()), names_value(searched.missing_ids()));
            log.push(Value::map([step(search::STAGE_NAME), ("matched", matched), ("missing", missing)]));
        }
        if !self.made.is_empty() {
            let created =
                names_value(self.made.iter().filter(|made| made.block().is_some()).map(CreateOutcome::block_id));
            let failed = names_value(self.missing_blocks().iter().map(String::as_str));
            log.push(Value::map([step(create::STAGE_NAME), ("created", created), ("failed", failed)]));
        }
        if let Some(pipeline) = &self.pipeline {
            let id = pipeline.get("id").cloned().unwrap_or_default();
            log.push(Value::map([step(wire::STAGE_NAME), ("pipeline_id", id)]));
        }
        log
    }

    /// The order for the next block to write.
    fn next_order(&self, searched: &SearchResults) -> Option<BlockOrder> {
        let index = self.made.len();
        let wanted = searched.missing.get(index)?.clone();
        let is_built_in =
            |id: &str| built_in_blocks().iter().any(|block| block.get("id").and_then(Value::as_str) == Some(id));
        let is_taken = |id: &str| {
            searched.taken.iter().any(|taken| taken == id)
                || self.made.iter().any(|made| made.block_id() == id)
                || is_built_in(id)
        };
        let id = free_id(&wanted.suggested_id, is_taken);
        Some(BlockOrder { wanted, id, intent: self.intent.clone(), index, total: searched.missing.len() })
    }
}

/// A stage of the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Finds the required blocks.
    Decompose,
    /// Searches for existing blocks.
    Search,
    /// Writes missing blocks.
    Create,
    /// Connects the blocks to a pipeline.
    Wire,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 4] = [Stage::Decompose, Stage::Search, Stage::Create, Stage::Wire];

    /// The name in events.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Decompose => decompose::STAGE_NAME,
            Stage::Search => search::STAGE_NAME,
            Stage::Create => create::STAGE_NAME,
            Stage::Wire => wire::STAGE_NAME,
        }
    }
}

/// Creates a pipeline for a goal, or continues a draft. On failure the draft keeps the results so far: blocks that
/// passed their trials are not lost. Fails with the error of the first stage that fails.
pub async fn run_planner(
    world: &dyn PlannerEnv,
    settings: &PlannerSettings,
    draft: &mut Draft,
) -> Result<Value, StepFailure> {
    for stage in Stage::ALL {
        draft.run_stage(stage, world, settings).await?;
    }
    Ok(draft.emit_complete(world))
}

impl Draft {
    /// Runs one stage unless its result exists. The results of earlier stages must exist. Fails if the model, the
    /// registry or the sandbox fails, or if the model gives no valid result in its attempts.
    pub async fn run_stage(
        &mut self,
        stage: Stage,
        world: &dyn PlannerEnv,
        settings: &PlannerSettings,
    ) -> Result<(), StepFailure> {
        if stage == Stage::Decompose && self.wanted.is_none() {
            world.emit_event(PlannerEvent::Start { intent: self.intent.clone(), user_id: self.user_id.clone() });
        }
        let done = match stage {
            Stage::Decompose => self.run_decompose(world).await,
            Stage::Search => self.run_search(world, settings).await,
            Stage::Create => self.run_create(world).await,
            Stage::Wire => self.run_wire(world, settings).await,
        };
        if let Err(error) = &done {
            let missing_blocks = self.missing_blocks();
            world.emit_event(PlannerEvent::Error { stage: stage.name(), error: error.clone(), missing_blocks });
        }
        done
    }

    /// Reports that all stages are complete, and returns the pipeline.
    pub fn emit_complete(&self, world: &dyn PlannerEnv) -> Value {
        let pipeline = self.pipeline.clone().unwrap_or_default();
        world.emit_event(PlannerEvent::Complete { pipeline: pipeline.clone(), log: self.stage_log() });
        pipeline
    }

    async fn run_decompose(&mut self, world: &dyn PlannerEnv) -> Result<(), StepFailure> {
        if self.wanted.is_none() {
            self.wanted = Some(decompose_goal(world, &self.intent).await?);
        }
        Ok(())
    }

    async fn run_search(&mut self, world: &dyn PlannerEnv, settings: &PlannerSettings) -> Result<(), StepFailure> {
        if self.searched.is_none() {
            let wanted = self.wanted.as_deref().unwrap_or_default();
            self.searched = Some(search_blocks(world, wanted, &settings.thresholds).await?);
        }
        Ok(())
    }

    async fn run_create(&mut self, world: &dyn PlannerEnv) -> Result<(), StepFailure> {
        let searched = self.searched.clone().unwrap_or_default();
        write_missing_blocks(world, &searched, self).await
    }

    async fn run_wire(&mut self, world: &dyn PlannerEnv, settings: &PlannerSettings) -> Result<(), StepFailure> {
        if self.pipeline.is_none() {
            let wired = wire_blocks(world, &self.intent, &self.available_blocks(), &settings.sources).await?;
            (self.pipeline, self.tried) = (Some(wired.pipeline), Some(wired.dry_run));
        }
        Ok(())
    }
}

/// Writes the missing blocks. If one of them cannot be written, there is no pipeline, because it would silently do less
/// than requested. All are tried first, so that all errors are known.
async fn write_missing_blocks(
    world: &dyn PlannerEnv,
    searched: &SearchResults,
    draft: &mut Draft,
) -> Result<(), StepFailure> {
    let is_new = draft.made.len() < searched.missing.len();
    if searched.missing.is_empty() && draft.pipeline.is_none() {
        create::emit_skip(world);
    }
    if is_new {
        create::emit_begin(world, searched.missing.len() - draft.made.len());
    }
    let mut timeouts = TimeoutAllowance::default();
    while let Some(order) = draft.next_order(searched).filter(|_| !timeouts.is_used_up()) {
        let made = create_block(world, &order, &mut timeouts).await?;
        draft.made.push(made);
    }
    if is_new {
        create::emit_finish(world, &draft.made);
    }
    let failed = draft.made.iter().filter_map(|made| match made {
        CreateOutcome::Failed { block_id, errors } => Some(format!("{block_id} ({})", errors.last()?)),
        CreateOutcome::Created { .. } => None,
    });
    let failed: Vec<String> = failed.collect();
    let untried = searched.missing.len().saturating_sub(draft.made.len());
    if failed.is_empty() && untried == 0 {
        return Ok(());
    }
    let mut message = format!("these blocks could not be written: {}", failed.join(", "));
    if untried > 0 {
        message.push_str(&format!(
            "; {untried} more were not tried, because trials ran into the limits of a block {MAX_TRIAL_TIMEOUTS} times"
        ));
    }
    Err(StepFailure::new(Code::AuthoringFailed, message))
}
