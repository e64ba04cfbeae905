//! The stages one after the other, over a draft that can be put away between any two of them.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::value::Value;
use flowloom_formats::pipeline::built_in;
use serde::{Deserialize, Serialize};

use crate::create::{self, Made, Order, create, free_id};
use crate::decompose::{self, decompose};
use crate::event::{Event, names};
use crate::search::{self, Searched, search};
use crate::wanted::Wanted;
use crate::wire::{self, wire};
use crate::world::{Settings, World};

/// What is known of a workflow that is being made. Each stage adds to it; going on with a draft does what is left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// What is wanted, in words that need no conversation.
    pub intent: String,
    /// By whom.
    pub user_id: String,
    /// The blocks that it needs.
    pub wanted: Option<Vec<Wanted>>,
    /// Which of them are there.
    pub searched: Option<Searched>,
    /// What came of those that were not, in their order.
    pub made: Vec<Made>,
    /// The pipeline; there is none that did not pass its check.
    pub pipeline: Option<Value>,
}

impl Draft {
    /// A draft of which nothing is done.
    pub fn new(intent: &str, user_id: &str) -> Draft {
        Draft { intent: intent.to_owned(), user_id: user_id.to_owned(), ..Draft::default() }
    }

    /// The blocks that there are, each once: those that were found, then those that were written.
    pub fn blocks(&self) -> Vec<Value> {
        let found = self.searched.iter().flat_map(|searched| &searched.found).map(|found| &found.block);
        let mut blocks: Vec<Value> = Vec::new();
        for block in found.chain(self.made.iter().filter_map(Made::block)) {
            if !blocks.iter().any(|other| other.get("id") == block.get("id")) {
                blocks.push(block.clone());
            }
        }
        blocks
    }

    /// Blocks that are neither there nor could be written.
    pub fn missing_blocks(&self) -> Vec<String> {
        let failed = self.made.iter().filter(|made| made.block().is_none());
        failed.map(|made| made.id().to_owned()).collect()
    }

    /// What each stage did, in short.
    pub fn log(&self) -> Vec<Value> {
        let step = |name: &str| ("step", Value::from(name));
        let mut log = Vec::new();
        log.extend(self.wanted.as_ref().map(|_| Value::map([step(decompose::STAGE)])));
        if let Some(searched) = &self.searched {
            let (matched, missing) = (names(searched.found_ids()), names(searched.missing_ids()));
            log.push(Value::map([step(search::STAGE), ("matched", matched), ("missing", missing)]));
        }
        if !self.made.is_empty() {
            let created = names(self.made.iter().filter(|made| made.block().is_some()).map(Made::id));
            let failed = names(self.missing_blocks().iter().map(String::as_str));
            log.push(Value::map([step(create::STAGE), ("created", created), ("failed", failed)]));
        }
        if let Some(pipeline) = &self.pipeline {
            let id = pipeline.get("id").cloned().unwrap_or_default();
            log.push(Value::map([step(wire::STAGE), ("pipeline_id", id)]));
        }
        log
    }

    /// The order for the next block that is to be written.
    fn order(&self, searched: &Searched) -> Option<Order> {
        let index = self.made.len();
        let wanted = searched.missing.get(index)?.clone();
        let is_built_in = |id: &str| built_in().iter().any(|block| block.get("id").and_then(Value::as_str) == Some(id));
        let is_taken = |id: &str| {
            searched.taken.iter().any(|taken| taken == id)
                || self.made.iter().any(|made| made.id() == id)
                || is_built_in(id)
        };
        let id = free_id(&wanted.suggested_id, is_taken);
        Some(Order { wanted, id, intent: self.intent.clone(), index, total: searched.missing.len() })
    }
}

/// Makes a pipeline of a request, or goes on where a draft was left. If it fails, the draft has what was done until then:
/// blocks that passed their trials are not lost.
pub async fn think(world: &dyn World, settings: &Settings, draft: &mut Draft) -> Result<Value, StepError> {
    if draft.wanted.is_none() {
        world.tell(Event::Start { intent: draft.intent.clone(), user_id: draft.user_id.clone() });
    }
    let mut stage = decompose::STAGE;
    match stages(world, settings, draft, &mut stage).await {
        Ok(pipeline) => {
            world.tell(Event::Complete { pipeline: pipeline.clone(), log: draft.log() });
            Ok(pipeline)
        }
        Err(error) => {
            let missing_blocks = draft.missing_blocks();
            world.tell(Event::Error { stage, error: error.clone(), missing_blocks });
            Err(error)
        }
    }
}

async fn stages(
    world: &dyn World,
    settings: &Settings,
    draft: &mut Draft,
    stage: &mut &'static str,
) -> Result<Value, StepError> {
    let wanted = match &draft.wanted {
        Some(wanted) => wanted.clone(),
        None => decompose(world, &draft.intent).await?,
    };
    draft.wanted = Some(wanted.clone());
    *stage = search::STAGE;
    let searched = match &draft.searched {
        Some(searched) => searched.clone(),
        None => search(world, &wanted, settings.threshold).await?,
    };
    draft.searched = Some(searched.clone());
    *stage = create::STAGE;
    written(world, &searched, draft).await?;
    *stage = wire::STAGE;
    let pipeline = match &draft.pipeline {
        Some(pipeline) => pipeline.clone(),
        None => wire(world, &draft.intent, &draft.blocks(), &settings.sources).await?,
    };
    draft.pipeline = Some(pipeline.clone());
    Ok(pipeline)
}

/// Writes the blocks that are missing. Without one of them the pipeline would silently do less than was asked for, so
/// then there is none; all are tried first, so that everything that is wrong is known.
async fn written(world: &dyn World, searched: &Searched, draft: &mut Draft) -> Result<(), StepError> {
    let is_new = draft.made.len() < searched.missing.len();
    if searched.missing.is_empty() && draft.pipeline.is_none() {
        create::skip(world);
    }
    if is_new {
        create::begin(world, searched.missing.len() - draft.made.len());
    }
    while let Some(order) = draft.order(searched) {
        let made = create(world, &order).await?;
        draft.made.push(made);
    }
    if is_new {
        create::finish(world, &draft.made);
    }
    let failed = draft.made.iter().filter_map(|made| match made {
        Made::Failed { block_id, errors } => Some(format!("{block_id} ({})", errors.last()?)),
        Made::Created { .. } => None,
    });
    let failed: Vec<String> = failed.collect();
    if failed.is_empty() {
        return Ok(());
    }
    let message = format!("these blocks could not be written: {}", failed.join(", "));
    Err(StepError::new(Code::AuthoringFailed, message))
}
