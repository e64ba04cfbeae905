//! Tokens and cost of listed runs, added up in SQL from the events.

use std::collections::HashMap;

use flowloom_core::chat::Usage;
use flowloom_core::event::Event;
use flowloom_core::id::RunId;

use crate::db::dialect::EventSql;
use crate::db::{DbConnection, DbRow};
use crate::error::StoreError;
use crate::event_row::MAX_EVENTS_PER_RUN;
use crate::run_row::RunRow;
use crate::store::Store;
use crate::usage_cache::{KnownUsage, NewerUsage};

impl Store {
    /// Tokens and cost of these runs, in one query; runs that called no model are left out. What a fork reuses was not used
    /// again. Only for lists: the checksums of the events are not verified. Fails if the database cannot be read.
    pub fn read_run_usage(&self, rows: &[RunRow]) -> Result<HashMap<RunId, Usage>, StoreError> {
        if let Some(memory) = &self.runs {
            let read = |row: &RunRow| {
                let records = memory.read_records(row.id, 0).ok()?;
                let usage = add_usage(records.iter().map(|record| &record.event))?;
                Some((row.id, usage))
            };
            return Ok(rows.iter().filter_map(read).collect());
        }
        let mut known = self.usage.find_known(rows.iter().map(|row| row.id));
        let may_have_newer = |row: &&RunRow| {
            let finished_at = known.get(&row.id).and_then(|known| known.finished_at);
            finished_at.is_none() || finished_at != row.finished_at
        };
        let wanted: Vec<String> = rows.iter().filter(may_have_newer).map(|row| list_wanted(row.id, &known)).collect();
        if !wanted.is_empty() {
            let read = self.read_with(|db| db.query_rows(&usage_sql(db, &wanted.join(", ")), &[], read_usage))?;
            for newer in read.into_iter().flatten() {
                known.entry(newer.run).or_default().add_newer(&newer);
            }
            rows.iter().for_each(|row| known.entry(row.id).or_default().finished_at = row.finished_at);
            self.usage.keep_usage(&known);
        }
        Ok(known.into_iter().filter_map(|(run, known)| Some((run, known.usage?))).collect())
    }
}

/// A row of the table `wanted`: a run, and the first of its events that is not known; null for the first event of all.
fn list_wanted(run: RunId, known: &HashMap<RunId, KnownUsage>) -> String {
    match known.get(&run).and_then(|known| known.last_event) {
        Some(last) => format!("('{run}', {})", last + 1),
        None => format!("('{run}', cast(null as bigint))"),
    }
}

/// The sum of what the events used; `None` if that is nothing.
fn add_usage<'a>(events: impl Iterator<Item = &'a Event>) -> Option<Usage> {
    let used = events.filter_map(|event| match event {
        Event::StepFinished { usage, reused: false, .. } | Event::StepFailed { usage, reused: false, .. } => *usage,
        _ => None,
    });
    used.reduce(|mut sum, usage| {
        sum.add(&usage);
        sum
    })
}

/// The events of a run have adjacent numbers, so each run is one range of the table.
fn usage_sql(connection: &DbConnection, wanted: &str) -> String {
    let sql = connection.event_sql();
    let EventSql { data, is_own, .. } = sql;
    let [input, output, cost] = ["input_tokens", "output_tokens", "micro_usd"].map(|name| sql.usage_field(name));
    format!(
        "with wanted(run, first) as (values {wanted}), \
         ended as (select run.id as run, event.id as event, {data} as data from wanted join run on run.id = wanted.run \
         join event on event.id >= coalesce(wanted.first, run.number * {MAX_EVENTS_PER_RUN}) \
         and event.id < (run.number + 1) * {MAX_EVENTS_PER_RUN} \
         where event.kind in ('step_finished', 'step_failed')), \
         used as (select run, event, {input} as input_tokens, {output} as output_tokens, {cost} as micro_usd, \
         {is_own} and {input} is not null as counts from ended) \
         select run, cast(coalesce(sum(case when counts then input_tokens end), 0) as bigint), \
         cast(coalesce(sum(case when counts then output_tokens end), 0) as bigint), \
         cast(coalesce(sum(case when counts then micro_usd end), 0) as bigint), \
         count(case when counts and micro_usd is null then 1 end), count(case when counts then 1 end), max(event) \
         from used group by run"
    )
}

/// The usage of a run; `None` if its id is damaged.
fn read_usage(row: &DbRow<'_>) -> Result<Option<NewerUsage>, StoreError> {
    let (cost, unpriced_calls, calls, last_event) =
        (row.get_count(3)?, row.get_count(4)?, row.get_count(5)?, row.get_count(6)?);
    let micro_usd = (unpriced_calls == 0).then_some(cost);
    let usage = Usage { input_tokens: row.get_count(1)?, output_tokens: row.get_count(2)?, micro_usd };
    let usage = (calls > 0).then_some(usage);
    Ok(RunId::parse(&row.get::<String>(0)?).map(|run| NewerUsage { run, usage, last_event }))
}
