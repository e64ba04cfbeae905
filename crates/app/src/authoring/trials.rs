//! Operations that stages perform as child steps: searching blocks, running a trial, executing a dry run.

use std::collections::BTreeSet;

use flowloom_author::candidates::describe_block;
use flowloom_author::create::numbered_ids;
use flowloom_author::dry_run::{DryRun, DryRunInputs, DryRunner, Prompts};
use flowloom_author::{Candidate, FoundBlocks, RequiredBlock, TrialOutcome};
use flowloom_core::block::BlockCard;
use flowloom_core::error::StepFailure;
use flowloom_core::json::write_json;
use flowloom_core::limits::Limits;
use flowloom_core::value::Value;
use flowloom_runtime::effects::EffectContext;
use flowloom_store::DefinitionKind;
use serde::{Deserialize, Serialize};

use super::AuthoringEnv;
use crate::blocks::BlockMatch;
use crate::tools::memory_keys::scope_to_pipeline;

/// Maximum number of blocks that a search returns.
const MAX_CANDIDATES: usize = 5;

/// A block to test, its inputs, and the model it may call.
#[derive(Serialize, Deserialize)]
pub(super) struct TrialRequest {
    pub(super) block: Value,
    pub(super) inputs: Value,
    pub(super) model: Option<String>,
}

/// A pipeline with its blocks to execute as a dry run, and the model that Python blocks may call.
#[derive(Serialize, Deserialize)]
pub(super) struct DryRunRequest {
    pub(super) definition: Value,
    pub(super) model: Option<String>,
}

/// A search for an existing block.
#[derive(Serialize, Deserialize)]
pub(super) struct FindRequest {
    pub(super) wanted: RequiredBlock,
    /// Whether a new block gets an id that no other user has.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_global_id: bool,
}

/// The result of a block search.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct CandidateSearch {
    pub(super) candidates: Vec<Candidate>,
    /// Further ids that a new block must not have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) taken: BTreeSet<String>,
    /// Why the search used full text only, if vectors were expected.
    pub(super) by_words: Option<String>,
}

impl AuthoringEnv {
    /// The existing blocks that may serve a goal, as [`describe_block`] describes them.
    pub(super) async fn list_candidate_blocks(&self, intent: &str, user: &str) -> Result<Vec<Value>, StepFailure> {
        Ok(self.blocks.list_candidate_blocks(user, intent).await?.iter().map(describe_block).collect())
    }

    pub(super) async fn find_candidates(
        &self,
        request: &FindRequest,
        user: &str,
    ) -> Result<CandidateSearch, StepFailure> {
        let wanted = &request.wanted;
        let card = BlockCard::from_definition(&wanted.to_definition());
        let finding = self.blocks.find_blocks(user, &card, MAX_CANDIDATES).await?;
        let candidate = |found: BlockMatch| Candidate { block: found.block, similarity: found.similarity };
        let mut candidates: Vec<Candidate> = finding.matches.into_iter().map(candidate).collect();
        let is_there = |block: &Value| candidates.iter().any(|other| other.block.get("id") == block.get("id"));
        let mut named = self.find_same_name(request, user)?;
        named.candidates.retain(|named| !is_there(&named.block));
        candidates.extend(named.candidates);
        let by_words = finding.fallback_reason.map(|error| error.message);
        Ok(CandidateSearch { candidates, taken: named.taken, by_words })
    }

    /// The blocks whose id is the wanted one, or that with a number appended. A new block needs an id that none of them
    /// has.
    fn find_same_name(&self, request: &FindRequest, user: &str) -> Result<FoundBlocks, StepFailure> {
        let id = &request.wanted.suggested_id;
        let mut named = FoundBlocks::default();
        if request.has_global_id {
            named.taken.extend(self.store.list_foreign_ids(DefinitionKind::Block, user, id)?);
        }
        for id in numbered_ids(id) {
            match self.blocks.find_block(user, &id)? {
                Some(block) => named.candidates.push(Candidate { block, similarity: Some(0.0) }),
                None if named.taken.contains(&id) => {}
                None => break,
            }
        }
        Ok(named)
    }

    /// Runs a trial of a block. Its usage is charged to the budget of the run.
    pub(super) async fn run_trial(
        &self,
        request: &TrialRequest,
        context: &EffectContext,
    ) -> Result<TrialOutcome, StepFailure> {
        let dry_runner = DryRunner {
            code: self.trial_code.clone(),
            ..self.build_dry_runner(request.model.as_deref(), remaining_limits(context), &context.user)
        };
        let dry_run = dry_runner.try_block(&request.block, &request.inputs).await?;
        charge_allowance(context, &dry_run);
        Ok(dry_run.into_trial())
    }

    /// Executes a dry run of a pipeline. Its usage is charged to the budget of the run.
    pub(super) async fn dry_run(
        &self,
        request: &DryRunRequest,
        context: &EffectContext,
    ) -> Result<DryRun, StepFailure> {
        let dry_runner = self.build_dry_runner(request.model.as_deref(), remaining_limits(context), &context.user);
        let given = DryRunInputs { prompts: Prompts::Mocked, ..DryRunInputs::default() };
        let dry_run = dry_run_definition(dry_runner, &request.definition, &given).await?;
        charge_allowance(context, &dry_run);
        Ok(dry_run)
    }
}

/// Executes a dry run of a definition, with no more access to the memory than a real run would have. Fails if the
/// definition does not compile.
pub async fn dry_run_definition(
    dry_runner: DryRunner,
    definition: &Value,
    given: &DryRunInputs,
) -> Result<DryRun, StepFailure> {
    let code = scope_to_pipeline(dry_runner.code, &write_json(definition));
    DryRunner { code, ..dry_runner }.dry_run(definition, given).await
}

fn remaining_limits(context: &EffectContext) -> Limits {
    context.allowance.as_ref().map(|allowance| allowance.remaining.clone()).unwrap_or_default()
}

fn charge_allowance(context: &EffectContext, dry_run: &DryRun) {
    if let Some(allowance) = &context.allowance {
        allowance.add_usage(&dry_run.usage);
    }
}
