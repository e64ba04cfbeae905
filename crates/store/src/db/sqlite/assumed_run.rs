//! Changes the row of a run that was not read.

use flowloom_runtime::JournalError;

use super::Sqlite;
use crate::db::{AssumedRun, params};
use crate::error::StoreError;

/// Changes a row, unless it is not as assumed.
const UPDATE_RUN_SQL: &str = "update run set status = coalesce($1, status), finished_at = coalesce($2, finished_at), \
    status_seq = coalesce($3, status_seq), status_checksum = coalesce($4, status_checksum), worker = $5 \
    where number = $6 and epoch = $7 and worker = $8 and pending_commands = 0 and failed_claims = 0 \
    and ($2 is null or not exists (select 1 from run as child where child.parent = run.id and child.finished_at is null))";

/// Finds a row that is as assumed.
const REQUIRE_RUN_SQL: &str = "select 1 from run where number = $1 and epoch = $2 and worker = $3 \
    and pending_commands = 0 and failed_claims = 0";

/// Changes the row of a run. Fails if it is not as assumed. `worker` is the name of the process.
pub(crate) fn write_assumed_run(sqlite: &Sqlite, run: &AssumedRun, worker: &str) -> Result<(), StoreError> {
    let AssumedRun { number, epoch, status, is_released } = run;
    let is_as_assumed = if status.is_none() && !is_released {
        let found = sqlite.query_first(REQUIRE_RUN_SQL, params![*number, *epoch, worker], |_| Ok(()))?;
        found.is_some()
    } else {
        let (columns, checksum) = status.as_ref().map(|(columns, checksum)| (columns, *checksum)).unzip();
        let params = params![
            columns.map(|columns| columns.status),
            columns.and_then(|columns| columns.finished_at).map(|at| at as i64),
            columns.map(|columns| columns.seq as i64),
            checksum,
            (!is_released).then_some(worker),
            *number,
            *epoch,
            worker,
        ];
        sqlite.execute_sql(UPDATE_RUN_SQL, params)? > 0
    };
    // The transaction runs again and reads the row.
    if is_as_assumed { Ok(()) } else { Err(JournalError::OwnershipLost.into()) }
}
