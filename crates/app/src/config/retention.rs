//! `[retention]` of the configuration: how long finished runs are stored.

use std::collections::BTreeMap;

use flowloom_core::status::{STATUS_TABLE, Status};
use flowloom_store::PruneFilter;

use super::error::{ConfigError, TableProblem};
use crate::runs::inputs::parse_duration_ms;

/// Ages in milliseconds by final status. Runs with other statuses are stored forever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention(Vec<(Status, u64)>);

impl Retention {
    /// Parses entries such as `succeeded = "30d"`. Fails with `ConfigInvalid`.
    pub fn parse(table: &BTreeMap<String, String>) -> Result<Retention, ConfigError> {
        let invalid = |problem| ConfigError::in_table("retention", problem);
        let read = |(name, age): (&String, &String)| {
            let age = parse_duration_ms(age).ok_or_else(|| invalid(TableProblem::Age(age.clone())))?;
            Ok((find_final_status(name).ok_or_else(|| invalid(unknown_status(name)))?, age))
        };
        table.iter().map(read).collect::<Result<_, _>>().map(Retention)
    }

    /// The runs to delete at `now`, in milliseconds since the Unix epoch.
    pub fn expired_runs(&self, now: u64) -> Vec<PruneFilter> {
        self.0.iter().map(|(status, age)| PruneFilter { status: *status, before: now.saturating_sub(*age) }).collect()
    }
}

/// Every final status of a run.
pub fn final_statuses() -> impl Iterator<Item = Status> {
    STATUS_TABLE.iter().map(|row| row.status).filter(|status| status.is_final())
}

/// The final status with this name; `None` if there is none.
pub fn find_final_status(name: &str) -> Option<Status> {
    final_statuses().find(|status| status.name() == name)
}

/// The error for a name of no final status.
pub fn unknown_status(name: &str) -> TableProblem {
    TableProblem::Status { name: name.to_owned(), expected: final_statuses().map(Status::name).collect() }
}
