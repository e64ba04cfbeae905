//! Statistics of runs over a period, aggregated in SQL.

use crate::catalog::FilterParams;
use crate::db::params;
use crate::error::StoreError;
use crate::run_row::RunFilter;
use crate::store::Store;

/// The most workflows in the statistics.
const MAX_WORKFLOWS: i64 = 50;

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
    /// Number of those that ended for another reason than success or a cancellation.
    pub failures: u64,
    /// Number of those that were cancelled.
    pub cancelled: u64,
    /// Half of the runs took at most this, in milliseconds.
    pub median_ms: u64,
    /// Of 20 runs, 19 took at most this, in milliseconds.
    pub p95_ms: u64,
}

/// Runs by interval and status. `{runs}` is replaced by the condition of a filter, and `{status}` by the expression of
/// the current status. Parameters have to appear in their order.
const COUNTS_SQL: &str = "with chosen as (select created_at, {status} as status from run where {runs}) \
                          select created_at / $13, status, count(*) from chosen group by 1, 2 order by 1, 2";

/// Durations by interval.
const DURATIONS_SQL: &str = "with chosen as (select created_at, finished_at from run where {runs} and finished_at is not null), \
                             timed as (select created_at / $13 as slot, finished_at - created_at as ms from chosen), \
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
                             from run where {runs} and finished_at is not null) \
                             select flow, total, sum(case when status in ('succeeded', 'cancelled') then 0 else 1 end), \
                             sum(case when status = 'cancelled' then 1 else 0 end), \
                             min(case when rank_of_run * 2 >= total then ms end), \
                             min(case when rank_of_run * 20 >= total * 19 then ms end) \
                             from ranked group by flow, total order by total desc, flow limit $13";

impl Store {
    /// Statistics of the runs that match a filter, ignoring its `limit` and `offset`. Empty if the store keeps runs in
    /// memory only. Fails if the database cannot be read.
    pub fn summarize_runs(&self, filter: &RunFilter, interval_ms: u64) -> Result<RunStatistics, StoreError> {
        let condition = self.build_condition(filter)?;
        let params = FilterParams::new(filter, self.project_name());
        let bind = |last: i64| [params.list_conditions(), params![last].to_vec()].concat();
        let counts = self.read_long_with(|db| {
            let status = self.build_status_expression(db)?;
            let sql = COUNTS_SQL.replace("{runs}", &condition).replace("{status}", &status);
            db.query_rows(&sql, &bind(interval_ms as i64), |row| {
                Ok(RunCount { interval: row.get_count(0)?, status: row.get(1)?, count: row.get_count(2)? })
            })
        })?;
        let durations = self.read_long_with(|db| {
            let sql = DURATIONS_SQL.replace("{runs}", &condition);
            db.query_rows(&sql, &bind(interval_ms as i64), |row| {
                Ok(IntervalDurations {
                    interval: row.get_count(0)?,
                    median_ms: row.get_count(1)?,
                    p95_ms: row.get_count(2)?,
                })
            })
        })?;
        let workflows = self.read_long_with(|db| {
            let sql = WORKFLOWS_SQL.replace("{runs}", &condition);
            db.query_rows(&sql, &bind(MAX_WORKFLOWS), |row| {
                Ok(WorkflowStatistics {
                    workflow: row.get(0)?,
                    count: row.get_count(1)?,
                    failures: row.get_count(2)?,
                    cancelled: row.get_count(3)?,
                    median_ms: row.get_count(4)?,
                    p95_ms: row.get_count(5)?,
                })
            })
        })?;
        Ok(RunStatistics { counts, durations, workflows })
    }
}
