//! Runs that begin with outcomes from elsewhere: forks, with the record of another run; and tests of workflows, with the
//! responses that the test has.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::event::{ForkOrigin, Record};
use flowloom_core::hash::Hash;
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;

use crate::engine::Engine;
use crate::error::RunError;
use crate::log::{Response, ReusableRecord, ScriptValue};
use crate::outcome::RunOutcome;
use crate::requests::CollectedRequests;
use crate::run::Run;
use crate::start_options::StartOptions;

/// The run that another one is forked from.
pub struct ForkedRun {
    /// Its records, as far as they are stored.
    pub records: Vec<Arc<Record>>,
    /// The plan that it follows.
    pub plan: Arc<Plan>,
    /// The origin that the fork records.
    pub origin: ForkOrigin,
    /// The steps whose outcomes are not reused, nor those below them.
    pub performed: Vec<Path>,
}

/// A record that a plan has reproduced.
pub struct FollowedRun {
    /// Its outcome.
    pub outcome: RunOutcome,
    /// The hashes of the scripts that were evaluated.
    pub scripts: HashMap<Path, Hash>,
}

impl Engine {
    /// Prepares a run that begins with what it can reuse of another one: the outcomes of effects at the same path with the
    /// same request, up to the first one that differs, and except for those at the steps to perform. Before the step at which
    /// the fork begins, a request to another model is the same. Nothing happens until the run is driven. Fails if the
    /// other run cannot be replayed, if the inputs do not fit the plan, if the agent may not call a function of the
    /// plan, or if the journal cannot be written.
    pub async fn fork_run(&self, from: ForkedRun, start: StartOptions) -> Result<Run, RunError> {
        let collected = CollectedRequests::default();
        self.follow_records(from.records.clone(), from.plan, Some(collected.clone())).await?;
        let reusable = ReusableRecord::new(&from.records, &collected.take_scripts(), &from.performed);
        let reusable = if from.origin.at.is_some() { reusable.ignoring_models() } else { reusable };
        self.start_following(start, Some(from.origin), Some(reusable))
    }

    /// Prepares a run that is given outcomes instead of performing effects, up to the first one that there is none for.
    /// Returns where its requests are collected. Fails if the inputs do not fit the plan, if the agent may not call a
    /// function of the plan, or if the journal cannot be written.
    pub fn start_with_responses(
        &self,
        start: StartOptions,
        responses: Vec<Response>,
        scripts: Vec<ScriptValue>,
    ) -> Result<(Run, CollectedRequests), RunError> {
        let collected = CollectedRequests::default();
        let engine = self.clone().with_requests(collected.clone());
        let reusable = ReusableRecord::from_responses(responses, scripts);
        Ok((engine.start_following(start, None, Some(reusable))?, collected))
    }

    /// Follows the record of a run to its end with a plan, which may be another one than that of the run. Performs no effects.
    /// Fails with [`RunError::Divergence`] if a run of the plan would have sent other requests.
    pub async fn reproduce_record(&self, records: Vec<Arc<Record>>, plan: Arc<Plan>) -> Result<FollowedRun, RunError> {
        let collected = CollectedRequests::default();
        let outcome = self.clone().with_requests(collected.clone()).replay_run(records, plan).await?;
        Ok(FollowedRun { outcome, scripts: collected.take_scripts() })
    }

    /// Follows the record of a run and returns the requests that it has sent, and the hashes of the scripts that it has
    /// evaluated. Performs no effects.
    pub async fn follow_requests(&self, records: Vec<Arc<Record>>, plan: Arc<Plan>) -> CollectedRequests {
        let collected = CollectedRequests::default();
        // A record that diverges has its requests up to there.
        drop(self.follow_records(records, plan, Some(collected.clone())).await);
        collected
    }
}

/// The outcomes and the values of scripts in a record, in the order in which they happened. What happened below a function or
/// a block with an outcome is part of that. `scripts` are the hashes of the scripts.
pub fn list_responses(records: &[Arc<Record>], scripts: &HashMap<Path, Hash>) -> (Vec<Response>, Vec<ScriptValue>) {
    ReusableRecord::new(records, scripts, &[]).into_responses()
}
