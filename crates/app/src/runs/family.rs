//! Where a run comes from: what started it, and the run that it was forked from; and its own forks.

use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::RunState;
use flowloom_core::trigger::RunTrigger;
use flowloom_store::{RunFilter, Store};
use serde::Serialize;

use crate::error::AppError;

/// Maximum number of forks that are listed with a run.
const MAX_LISTED_FORKS: u32 = 100;

/// The relatives of a run, as fields of its summary.
#[derive(Debug, Serialize)]
pub struct RunFamily {
    /// The trigger of the run; `None` for child runs and for runs of old versions.
    pub trigger: Option<RunTrigger>,
    /// The run that it was forked from.
    pub forked_from: Option<ForkParent>,
    /// The runs that were forked from it, newest first.
    pub forks: Vec<RunId>,
}

/// The run that another one was forked from.
#[derive(Debug, Serialize)]
pub struct ForkParent {
    /// Its id.
    pub run_id: RunId,
    /// The step from which the fork performed everything. `None`: the first step whose request differed.
    pub at: Option<Path>,
}

impl RunFamily {
    /// The relatives of a run that has just ended, and therefore has no forks yet.
    pub fn without_forks(state: &RunState) -> RunFamily {
        let created = state.created.as_ref();
        let origin = created.and_then(|created| created.fork.as_ref());
        let forked_from = origin.map(|fork| ForkParent { run_id: fork.run, at: fork.at.clone() });
        let trigger = created.and_then(|created| created.trigger.clone());
        RunFamily { trigger, forked_from, forks: Vec::new() }
    }
}

/// Finds the relatives of a run. A run of another user is none. Fails if the store cannot be read.
pub fn find_family(store: &Store, run: RunId, state: &RunState) -> Result<RunFamily, AppError> {
    let user = state.created.as_ref().map(|created| created.user.clone());
    let filter = RunFilter { forked_from: Some(run), user, limit: MAX_LISTED_FORKS, ..RunFilter::default() };
    let forks = store.list_runs_matching(&filter)?.into_iter().map(|row| row.id).collect();
    Ok(RunFamily { forks, ..RunFamily::without_forks(state) })
}
