//! Tokens and cost of listed runs, added up in SQL from the events.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flowloom_core::chat::Usage;
use flowloom_core::event::Event;
use flowloom_core::id::RunId;

use crate::catalog::list_literals;
use crate::db::{DbConnection, DbRow};
use crate::error::StoreError;
use crate::rows::MAX_EVENTS_PER_RUN;
use crate::run_row::RunRow;
use crate::store::Store;

/// Number of ended runs whose usage is kept.
const MAX_KNOWN_RUNS: usize = 10_000;

/// The usage of ended runs, which does not change. A run that was reopened ends at another time.
#[derive(Debug, Default)]
pub(crate) struct UsageCache(Mutex<HashMap<(RunId, u64), Option<Usage>>>);

impl UsageCache {
    fn lock_known(&self) -> MutexGuard<'_, HashMap<(RunId, u64), Option<Usage>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    /// Tokens and cost of these runs, in one query; runs that called no model are left out. What a fork reuses was not used
    /// again. Only for lists: the checksums of the events are not verified.
    pub fn read_run_usage(&self, rows: &[RunRow]) -> Result<HashMap<RunId, Usage>, StoreError> {
        if let Some(memory) = &self.runs {
            let read = |row: &RunRow| {
                let records = memory.read_records(row.id, 0).ok()?;
                let usage = add_usage(records.iter().map(|record| &record.event))?;
                Some((row.id, usage))
            };
            return Ok(rows.iter().filter_map(read).collect());
        }
        let mut usage = HashMap::new();
        let mut unknown = Vec::new();
        {
            let known = self.usage.lock_known();
            for row in rows {
                match row.finished_at.and_then(|at| known.get(&(row.id, at))) {
                    Some(found) => usage.extend(found.map(|found| (row.id, found))),
                    None => unknown.push(row),
                }
            }
        }
        if unknown.is_empty() {
            return Ok(usage);
        }
        let ids: Vec<String> = unknown.iter().map(|row| row.id.to_string()).collect();
        let read = self.read_with(|db| db.query_rows(&usage_sql(db, &list_literals(&ids)), &[], read_usage))?;
        let read: HashMap<RunId, Usage> = read.into_iter().flatten().collect();
        let mut known = self.usage.lock_known();
        if known.len() + unknown.len() > MAX_KNOWN_RUNS {
            known.clear();
        }
        let ended = unknown.iter().filter_map(|row| Some(((row.id, row.finished_at?), read.get(&row.id).copied())));
        known.extend(ended);
        drop(known);
        usage.extend(read);
        Ok(usage)
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
fn usage_sql(connection: &DbConnection, ids: &str) -> String {
    let (data, field, reused) = match connection {
        DbConnection::Sqlite(_) => {
            ("event.data", "json_extract(data, '$.usage.FIELD')", "json_extract(data, '$.reused') is null")
        }
        // Postgres fails to read any part of a JSON text with an escaped null character, wherever that is.
        DbConnection::Postgres(_) => (
            r"replace(event.data, '\u0000', '\u0001')",
            "(data::json -> 'usage' ->> 'FIELD')::bigint",
            "data::json ->> 'reused' is null",
        ),
    };
    let used = |name: &str| field.replace("FIELD", name);
    let (input, output, cost) = (used("input_tokens"), used("output_tokens"), used("micro_usd"));
    format!(
        "with ended as (select run.id as run, {data} as data from run join event \
         on event.id between run.number * {MAX_EVENTS_PER_RUN} and run.number * {MAX_EVENTS_PER_RUN} + {MAX_EVENTS_PER_RUN} - 1 \
         where run.id in ({ids}) and event.kind in ('step_finished', 'step_failed')), \
         used as (select run, {input} as input_tokens, {output} as output_tokens, {cost} as micro_usd from ended \
         where {reused} and {input} is not null) \
         select run, cast(sum(input_tokens) as bigint), cast(sum(output_tokens) as bigint), \
         cast(coalesce(sum(micro_usd), 0) as bigint), count(*) - count(micro_usd) from used group by run"
    )
}

/// The usage of a run; `None` if its id is damaged.
fn read_usage(row: &DbRow<'_>) -> Result<Option<(RunId, Usage)>, StoreError> {
    let (cost, unpriced_calls) = (row.get_count(3)?, row.get_count(4)?);
    let micro_usd = (unpriced_calls == 0).then_some(cost);
    let usage = Usage { input_tokens: row.get_count(1)?, output_tokens: row.get_count(2)?, micro_usd };
    Ok(RunId::parse(&row.get::<String>(0)?).map(|run| (run, usage)))
}
