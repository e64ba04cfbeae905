//! Operations that stages perform as child steps: searching blocks, running a trial, executing a dry run.

use flowloom_author::create::numbered;
use flowloom_author::rehearse::{Given, Prompts, Rehearsal, Rehearser};
use flowloom_author::{Candidate, Trial, Wanted};
use flowloom_core::block::Card;
use flowloom_core::error::StepError;
use flowloom_core::json::write;
use flowloom_core::limits::Limits;
use flowloom_core::value::Value;
use flowloom_runtime::effects::Context;
use serde::{Deserialize, Serialize};

use super::Author;
use crate::tools::memory_keys::scoped_to;

/// Maximum number of blocks that a search returns.
const CANDIDATES: usize = 5;

/// A block to test, its inputs, and the model it may call.
#[derive(Serialize, Deserialize)]
pub(super) struct Attempt {
    pub(super) block: Value,
    pub(super) inputs: Value,
    pub(super) model: Option<String>,
}

/// A pipeline with its blocks to execute as a dry run, and the model that Python blocks may call.
#[derive(Serialize, Deserialize)]
pub(super) struct Rehearse {
    pub(super) definition: Value,
    pub(super) model: Option<String>,
}

/// The result of a block search.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) candidates: Vec<Candidate>,
    /// Why the search used full text only, if vectors were expected.
    pub(super) by_words: Option<String>,
}

impl Author {
    pub(super) async fn find(&self, wanted: &Wanted, owner: &str) -> Result<Found, StepError> {
        let card = Card::of(&wanted.in_full());
        let finding = self.blocks.find(owner, &card, CANDIDATES).await?;
        let candidate = |found: crate::blocks::Found| Candidate { block: found.block, similarity: found.similarity };
        let mut candidates: Vec<Candidate> = finding.found.into_iter().map(candidate).collect();
        let is_there = |block: &Value| candidates.iter().any(|other| other.block.get("id") == block.get("id"));
        let mut alike = self.named_alike(&wanted.suggested_id, owner)?;
        alike.retain(|block| !is_there(block));
        candidates.extend(alike.into_iter().map(|block| Candidate { block, similarity: Some(0.0) }));
        Ok(Found { candidates, by_words: finding.by_words.map(|error| error.message) })
    }

    /// The blocks whose id is `id` or `id` with a number appended. A new block needs an id that none of them has.
    fn named_alike(&self, id: &str, owner: &str) -> Result<Vec<Value>, StepError> {
        let mut alike = Vec::new();
        for id in numbered(id) {
            let Some(block) = self.blocks.get(owner, &id)? else { break };
            alike.push(block);
        }
        Ok(alike)
    }

    /// Runs a trial of a block. Its usage is charged to the budget of the run.
    pub(super) async fn attempt(&self, wish: &Attempt, context: &Context) -> Result<Trial, StepError> {
        let rehearser = self.rehearser(wish.model.as_deref(), left(context), &context.owner);
        let rehearsal = rehearser.attempt(&wish.block, &wish.inputs).await?;
        book(context, &rehearsal);
        Ok(rehearsal.into_trial())
    }

    /// Executes a dry run of a pipeline. Its usage is charged to the budget of the run.
    pub(super) async fn rehearse(&self, wish: &Rehearse, context: &Context) -> Result<Rehearsal, StepError> {
        let rehearser = self.rehearser(wish.model.as_deref(), left(context), &context.owner);
        let given = Given { prompts: Prompts::Played, ..Given::default() };
        let rehearsal = rehearsed(rehearser, &wish.definition, &given).await?;
        book(context, &rehearsal);
        Ok(rehearsal)
    }
}

/// Executes a dry run of a definition, with no more access to the memory than a real run would have.
pub async fn rehearsed(rehearser: Rehearser, definition: &Value, given: &Given) -> Result<Rehearsal, StepError> {
    let code = scoped_to(rehearser.code, &write(definition));
    Rehearser { code, ..rehearser }.rehearse(definition, given).await
}

fn left(context: &Context) -> Limits {
    context.purse.as_ref().map(|purse| purse.left.clone()).unwrap_or_default()
}

fn book(context: &Context, rehearsal: &Rehearsal) {
    if let Some(purse) = &context.purse {
        purse.book(&rehearsal.usage);
    }
}
