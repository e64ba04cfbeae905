//! Statistics of runs over a period, aggregated in SQL.

use crate::db::params;
use crate::error::StoreError;
use crate::store::Store;

/// The most workflows in the statistics.
const MAX_WORKFLOWS: u32 = 50;

/// Runs of a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStatistics {
    /// Numbers of runs by interval and status, in order of time.
    pub counts: Vec<RunCount>,
    /// Durations of the ended runs by the interval in which they were created, in order of time.
    pub durations: Vec<IntervalDurations>,
    /// Durations by workflow, the most frequent first.
    pub workflows: Vec<WorkflowStatistics>,
}

/// Runs of one status that were created in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCount {
    /// Number of the interval since the Unix epoch.
    pub interval: u64,
    /// Name of the status.
    pub status: String,
    /// Number of runs.
    pub count: u64,
}

/// The durations of the ended runs that were created in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntervalDurations {
    /// Number of the interval since the Unix epoch.
    pub interval: u64,
    /// Half of the runs took at most this, in milliseconds.
    pub median_ms: u64,
    /// Of 20 runs, 19 took at most this, in milliseconds.
    pub p95_ms: u64,
}

/// The ended runs of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowStatistics {
    /// Id of the workflow, or the name of a definition without one.
    pub workflow: String,
    /// Number of ended runs.
    pub count: u64,
    /// Number of those that did not succeed.
    pub failures: u64,
    /// Half of the runs took at most this, in milliseconds.
    pub median_ms: u64,
    /// Of 20 runs, 19 took at most this, in milliseconds.
    pub p95_ms: u64,
}

/// Runs by interval and status. `{status}` stands for the expression of the current status.
const COUNTS_SQL: &str = "select created_at / $1, {status}, count(*) from run \
                          where (user_id = $2 or $2 is null) and created_at >= $3 group by 1, 2 order by 1, 2";

/// Durations by interval.
const DURATIONS_SQL: &str = "with timed as (select created_at / $1 as slot, finished_at - created_at as ms from run \
                             where (user_id = $2 or $2 is null) and created_at >= $3 and finished_at is not null), \
                             ranked as (select slot, ms, row_number() over (partition by slot order by ms) as rank_of_run, \
                             count(*) over (partition by slot) as total from timed) \
                             select slot, min(case when rank_of_run * 2 >= total then ms end), \
                             min(case when rank_of_run * 20 >= total * 19 then ms end) \
                             from ranked group by slot order by slot";

/// Durations by workflow.
const WORKFLOWS_SQL: &str = "with ranked as (select coalesce(workflow, name) as flow, status, \
                             finished_at - created_at as ms, \
                             row_number() over (partition by coalesce(workflow, name) order by finished_at - created_at) \
                             as rank_of_run, count(*) over (partition by coalesce(workflow, name)) as total \
                             from run where (user_id = $1 or $1 is null) and created_at >= $2 and finished_at is not null) \
                             select flow, total, sum(case when status = 'succeeded' then 0 else 1 end), \
                             min(case when rank_of_run * 2 >= total then ms end), \
                             min(case when rank_of_run * 20 >= total * 19 then ms end) \
                             from ranked group by flow, total order by total desc, flow limit $3";

impl Store {
    /// Statistics of the runs of a user, or of all, that were created since `since`, in milliseconds since the Unix epoch.
    /// Empty if the store keeps runs in memory only.
    pub fn summarize_runs(
        &self,
        user: Option<&str>,
        since: u64,
        interval_ms: u64,
    ) -> Result<RunStatistics, StoreError> {
        let user = user.map(str::to_owned);
        let counts = self.read_with(|db| {
            let sql = COUNTS_SQL.replace("{status}", &self.build_status_expression(db)?);
            db.query_rows(&sql, params![interval_ms, &user, since], |row| {
                Ok(RunCount { interval: row.get_count(0)?, status: row.get(1)?, count: row.get_count(2)? })
            })
        })?;
        let durations = self.read_with(|db| {
            db.query_rows(DURATIONS_SQL, params![interval_ms, &user, since], |row| {
                Ok(IntervalDurations {
                    interval: row.get_count(0)?,
                    median_ms: row.get_count(1)?,
                    p95_ms: row.get_count(2)?,
                })
            })
        })?;
        let workflows = self.read_with(|db| {
            db.query_rows(WORKFLOWS_SQL, params![&user, since, MAX_WORKFLOWS], |row| {
                Ok(WorkflowStatistics {
                    workflow: row.get(0)?,
                    count: row.get_count(1)?,
                    failures: row.get_count(2)?,
                    median_ms: row.get_count(3)?,
                    p95_ms: row.get_count(4)?,
                })
            })
        })?;
        Ok(RunStatistics { counts, durations, workflows })
    }
}
