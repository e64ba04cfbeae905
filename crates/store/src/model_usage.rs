//! Tokens and cost of the model calls of a period, aggregated in SQL from the events.

use crate::catalog::FilterParams;
use crate::db::dialect::EventSql;
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::run_row::RunFilter;
use crate::store::Store;

/// The most rows of the result; those with the most tokens count.
const MAX_ROWS: u32 = 5_000;

/// The model calls of one interval, workflow and model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelUsage {
    /// Number of the interval since the Unix epoch.
    pub interval: u64,
    /// Id of the workflow, or the name of a definition without one.
    pub workflow: String,
    /// The model, as `provider:model`.
    pub model: String,
    /// Number of calls that were answered.
    pub calls: u64,
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// Cost of the calls with a known price, in millionths of a US dollar.
    pub micro_usd: u64,
    /// Number of calls with an unknown price.
    pub unpriced_calls: u64,
}

impl Store {
    /// The model calls of the runs that match a filter, ignoring its `limit` and `offset`. Calls that a fork reuses are not
    /// counted; calls whose answers were refused are. Empty if the store keeps runs in memory only.
    pub fn summarize_model_usage(&self, filter: &RunFilter, interval_ms: u64) -> Result<Vec<ModelUsage>, StoreError> {
        let condition = self.build_condition(filter)?;
        let params = FilterParams::new(filter, self.project_name());
        let all = [params.list_conditions(), params![interval_ms, MAX_ROWS].to_vec()].concat();
        self.read_long_with(|db| db.query_rows(&usage_sql(db, &condition), &all, read_usage))
    }
}

/// The events of a run have adjacent numbers, so each run is one range of the table. The start of an attempt, which names
/// the model, is the event of the same step before its end.
fn usage_sql(connection: &DbConnection, condition: &str) -> String {
    let sql = connection.event_sql();
    let EventSql { data, is_own, started_kind: kind, started_target: model, .. } = sql;
    let [input, output, cost] = ["input_tokens", "output_tokens", "micro_usd"].map(|name| sql.usage_field(name));
    format!(
        "with answered as (select run.created_at, coalesce(run.workflow, run.name) as flow, event.kind, {data} as data, \
         lag({data}) over (partition by run.number, event.path order by event.id) as started \
         from (select number, created_at, workflow, name from run where {condition}) run \
         join event on event.id between run.number * 4294967296 and run.number * 4294967296 + 4294967295 \
         where event.kind in ('step_started', 'step_finished', 'step_failed')), \
         used as (select created_at / $13 as interval_number, flow, {model} as model, {input} as input_tokens, \
         {output} as output_tokens, {cost} as micro_usd from answered \
         where kind <> 'step_started' and started is not null and {kind} = 'generate' and {is_own} \
         and {input} is not null) \
         select interval_number, flow, model, count(*), cast(sum(input_tokens) as bigint), \
         cast(sum(output_tokens) as bigint), cast(coalesce(sum(micro_usd), 0) as bigint), \
         sum(case when micro_usd is null then 1 else 0 end) \
         from used group by interval_number, flow, model order by 5 desc, 1, 2, 3 limit $14"
    )
}

fn read_usage(row: &DbRow<'_>) -> Result<ModelUsage, StoreError> {
    Ok(ModelUsage {
        interval: row.get_count(0)?,
        workflow: row.get(1)?,
        model: row.get(2)?,
        calls: row.get_count(3)?,
        input_tokens: row.get_count(4)?,
        output_tokens: row.get_count(5)?,
        micro_usd: row.get_count(6)?,
        unpriced_calls: row.get_count(7)?,
    })
}
