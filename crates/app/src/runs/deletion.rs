//! Deletes a run that has ended.

use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Actor, MAX_DELETED_RUNS, Quota, RunRow, StoreError};

use crate::error::AppError;
use crate::runs::stored::StoredRuns;

/// How long a start or a retry of a run counts for the quota of starts, in milliseconds.
const QUOTA_WINDOW_MS: u64 = 60_000;

impl StoredRuns {
    /// Deletes a run that has ended, with its child runs. Fails with `NothingToDo` if it has not ended, is a child run, or has
    /// too many child runs for one commit.
    pub async fn delete_run(&self, row: &RunRow, by: &Actor) -> Result<(), AppError> {
        let has_quota = self.config.quotas.find_limit(&row.user, Quota::StartsPerMinute).is_some();
        if has_quota && SystemClock.now_ms() < self.store.find_last_start(row.id)?.saturating_add(QUOTA_WINDOW_MS) {
            let why = "it counts for the quota of starts for a minute; try again later".to_owned();
            return Err(AppError::RunKept { run: row.id, why });
        }
        match self.store.delete_run(row, by).await? {
            true => Ok(()),
            // Another caller may have deleted it meanwhile.
            false => match self.store.get_run(row.id)? {
                Some(row) => Err(AppError::RunKept { run: row.id, why: explain_kept(&row) }),
                None => Err(StoreError::NoRunMatches(row.id.to_string()).into()),
            },
        }
    }
}

/// Why a run cannot be deleted.
fn explain_kept(row: &RunRow) -> String {
    match (&row.parent, row.finished_at) {
        (Some(parent), _) => format!("it is a child run of {}, and is deleted with that run", parent.run),
        (None, Some(_)) => format!(
            "it, or a child run of it, is about to continue, or it has more than {MAX_DELETED_RUNS} child runs, which only \
             flowloom prune deletes"
        ),
        (None, None) => format!("it is {}; cancel it first", row.current_status()),
    }
}
