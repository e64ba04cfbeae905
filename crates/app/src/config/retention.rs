//! `[retention]` of the configuration: how long finished runs are stored.

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::status::{STATUS_TABLE, Status};
use flowloom_store::PruneFilter;

use crate::runs::inputs::parse_duration_ms;

/// Ages in milliseconds by final status. Runs with other statuses are stored forever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention(Vec<(Status, u64)>);

impl Retention {
    /// Parses entries such as `succeeded = "30d"`. Fails with `ConfigInvalid`.
    pub fn parse(table: &BTreeMap<String, String>) -> Result<Retention, StepError> {
        let invalid = |message: String| StepError::new(Code::ConfigInvalid, format!("[retention]: {message}"));
        let read = |(name, age): (&String, &String)| {
            let age =
                parse_duration_ms(age).ok_or_else(|| invalid(format!("invalid age {age:?}; expected e.g. 30d")))?;
            Ok((parse_final_status(name).map_err(&invalid)?, age))
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

/// Parses a final status; the error lists the valid names.
pub fn parse_final_status(name: &str) -> Result<Status, String> {
    final_statuses().find(|status| status.name() == name).ok_or_else(|| {
        let names: Vec<&str> = final_statuses().map(Status::name).collect();
        format!("{name:?} is not a final status; expected one of {}", names.join(", "))
    })
}
