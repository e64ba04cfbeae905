//! Writes of a transaction that are sent when it commits, those of all runs in one statement. A statement of its own for
//! each run would cost more than the rows.

use tokio_postgres::types::ToSql;

use crate::checksum::EventColumns;
use crate::db::AssumedRun;
use crate::event_row::{EventRow, MAX_EVENTS_PER_RUN};

/// Parameters of a statement, which own their values.
pub(super) type OwnedParams = Vec<Box<dyn ToSql + Send + Sync>>;

/// Statements that a transaction sends when it commits.
#[derive(Default)]
pub(super) struct QueuedWrites {
    events: QueuedEvents,
    held: HeldRuns,
    changed: ChangedRuns,
}

impl QueuedWrites {
    /// Adds the events of a run.
    pub(super) fn push_events(&mut self, run: i64, rows: &[EventRow]) {
        rows.iter().for_each(|row| self.events.push(run, row));
    }

    /// Adds what becomes of a run's row.
    pub(super) fn push_run(&mut self, run: AssumedRun) {
        match run.status {
            None if !run.is_released => {
                self.held.numbers.push(run.number);
                self.held.epochs.push(run.epoch as i64);
            }
            _ => self.changed.push(run),
        }
    }

    /// The statements, with their parameters. `worker` is the name of the process.
    pub(super) fn into_statements(self, worker: &str) -> impl Iterator<Item = (&'static str, OwnedParams)> {
        let QueuedWrites { events, held, changed } = self;
        let events = (!events.ids.is_empty()).then(|| (INSERT_EVENTS_SQL, events.into_params()));
        let held = (!held.numbers.is_empty()).then(|| (REQUIRE_RUNS_SQL, held.into_params(worker)));
        let changed = (!changed.numbers.is_empty()).then(|| (UPDATE_RUNS_SQL, changed.into_params(worker)));
        // A wrong assumption is reported before what it makes fail.
        [held, changed, events].into_iter().flatten()
    }
}

/// Inserts the rows of [`QueuedEvents`].
const INSERT_EVENTS_SQL: &str = "insert into event (id, at, attempt, checksum, path, kind, data, output) \
    select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], \
    $8::text[])";

/// Locks the rows of [`HeldRuns`]. Divides by zero if a row is not as assumed: see `is_transient`.
const REQUIRE_RUNS_SQL: &str = "select 1 / (count(*) = cardinality($1::bigint[]))::int from (select from run \
    join unnest($1::bigint[], $2::bigint[]) as held (number, epoch) on run.number = held.number \
    where run.epoch = held.epoch and run.worker = $3 and run.pending_commands = 0 and run.failed_claims = 0 \
    for update of run) as required";

/// Updates the rows of [`ChangedRuns`]. Divides by zero if a row is not as assumed: see `is_transient`.
const UPDATE_RUNS_SQL: &str = "with updated as (update run set \
    status = coalesce(changed.status, run.status), finished_at = coalesce(changed.finished_at, run.finished_at), \
    status_seq = coalesce(changed.seq, run.status_seq), \
    status_checksum = coalesce(changed.checksum, run.status_checksum), \
    worker = case when changed.is_released then null else run.worker end \
    from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[]) \
    as changed (number, epoch, status, finished_at, seq, checksum, is_released) \
    where run.number = changed.number and run.epoch = changed.epoch and run.worker = $8 and run.pending_commands = 0 \
    and run.failed_claims = 0 and (changed.finished_at is null or (select count(*) from run as child \
    where child.parent = run.id and child.finished_at is null) = 0) returning 1) \
    select 1 / (count(*) = cardinality($1::bigint[]))::int from updated";

/// Rows of `event`, by column.
#[derive(Default)]
struct QueuedEvents {
    ids: Vec<i64>,
    times: Vec<i64>,
    attempts: Vec<i64>,
    checksums: Vec<i64>,
    paths: Vec<String>,
    kinds: Vec<&'static str>,
    data: Vec<Option<String>>,
    outputs: Vec<Option<String>>,
}

impl QueuedEvents {
    fn push(&mut self, run: i64, row: &EventRow) {
        let EventColumns { at, path, attempt, data, output, .. } = row.as_columns();
        self.ids.push(run * MAX_EVENTS_PER_RUN + row.seq as i64);
        self.times.push(at as i64);
        self.attempts.push(attempt as i64);
        self.checksums.push(row.checksum);
        self.paths.push(path.to_owned());
        self.kinds.push(row.kind);
        self.data.push(data.map(str::to_owned));
        self.outputs.push(output.map(str::to_owned));
    }

    fn into_params(self) -> OwnedParams {
        let QueuedEvents { ids, times, attempts, checksums, paths, kinds, data, outputs } = self;
        vec![
            Box::new(ids),
            Box::new(times),
            Box::new(attempts),
            Box::new(checksums),
            Box::new(paths),
            Box::new(kinds),
            Box::new(data),
            Box::new(outputs),
        ]
    }
}

/// Rows of `run` that only have to be as assumed, by column.
#[derive(Default)]
struct HeldRuns {
    numbers: Vec<i64>,
    epochs: Vec<i64>,
}

impl HeldRuns {
    fn into_params(self, worker: &str) -> OwnedParams {
        vec![Box::new(self.numbers), Box::new(self.epochs), Box::new(worker.to_owned())]
    }
}

/// Rows of `run` that change, by column. `NULL` keeps the value.
#[derive(Default)]
struct ChangedRuns {
    numbers: Vec<i64>,
    epochs: Vec<i64>,
    statuses: Vec<Option<&'static str>>,
    finished_at: Vec<Option<i64>>,
    seqs: Vec<Option<i64>>,
    checksums: Vec<Option<i64>>,
    is_released: Vec<bool>,
}

impl ChangedRuns {
    fn push(&mut self, run: AssumedRun) {
        self.numbers.push(run.number);
        self.epochs.push(run.epoch as i64);
        let (columns, checksum) = run.status.unzip();
        self.statuses.push(columns.as_ref().map(|columns| columns.status));
        self.finished_at.push(columns.as_ref().and_then(|columns| columns.finished_at.map(|at| at as i64)));
        self.seqs.push(columns.map(|columns| columns.seq as i64));
        self.checksums.push(checksum);
        self.is_released.push(run.is_released);
    }

    fn into_params(self, worker: &str) -> OwnedParams {
        let ChangedRuns { numbers, epochs, statuses, finished_at, seqs, checksums, is_released } = self;
        vec![
            Box::new(numbers),
            Box::new(epochs),
            Box::new(statuses),
            Box::new(finished_at),
            Box::new(seqs),
            Box::new(checksums),
            Box::new(is_released),
            Box::new(worker.to_owned()),
        ]
    }
}
