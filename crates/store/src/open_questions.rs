//! The questions that wait for a person, as an operator counts them.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;

use crate::event_row::MAX_EVENTS_PER_RUN;

/// The questions that are open. Those with an answer that waits for a process with the configuration
/// of the run are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenQuestions {
    /// How many there are. A question of a child run is not counted again for the runs around it.
    pub count: u64,
    /// When the oldest was asked, in milliseconds since the Unix epoch.
    pub oldest_at: Option<u64>,
}

impl OpenQuestions {
    /// Adds the open questions of an unfinished run with these records.
    pub(crate) fn add_run(&mut self, records: &[Arc<Record>]) {
        let mut open: HashMap<&Path, u64> = HashMap::new();
        for record in records {
            match &record.event {
                Event::Asked(_) => drop(open.insert(&record.path, record.at)),
                Event::Answered { .. }
                | Event::StepFinished { .. }
                | Event::StepFailed { .. }
                | Event::StepAborted { .. } => drop(open.remove(&record.path)),
                _ => {}
            }
        }
        self.count += open.len() as u64;
        self.oldest_at = self.oldest_at.into_iter().chain(open.into_values()).min();
    }
}

/// Selects the number and the earliest time of the open questions of unfinished runs, whose status the expression `status` computes.
pub(crate) fn build_open_questions_sql(status: &str) -> String {
    format!(
        "select count(*), min(asked.at) from \
         (select number from run where finished_at is null and {status} in ('waiting', 'running')) unfinished \
         join event asked on asked.id > number * {MAX_EVENTS_PER_RUN} \
         and asked.id < (number + 1) * {MAX_EVENTS_PER_RUN} where asked.kind = 'asked' and not exists \
         (select 1 from event later where later.id > asked.id \
         and later.id < (number + 1) * {MAX_EVENTS_PER_RUN} and later.path = asked.path \
         and later.kind in ('answered', 'step_finished', 'step_failed', 'step_aborted'))"
    )
}
