//! How long runs are kept after their end: `[retention]` of the configuration.

use std::collections::BTreeMap;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::status::{Status, TABLE};
use flowloom_store::Old;

use crate::runs::inputs::duration_ms;

/// Ages in milliseconds, by the status with which a run ended. What is not there is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention(Vec<(Status, u64)>);

impl Retention {
    /// Reads `succeeded = "30d"`.
    pub fn parse(table: &BTreeMap<String, String>) -> Result<Retention, StepError> {
        let invalid = |message: String| StepError::new(Code::ConfigInvalid, format!("[retention]: {message}"));
        let read = |(name, age): (&String, &String)| {
            let age = duration_ms(age).ok_or_else(|| invalid(format!("{age:?} is no age; write it like 30d")))?;
            Ok((ended(name).map_err(&invalid)?, age))
        };
        table.iter().map(read).collect::<Result<_, _>>().map(Retention)
    }

    /// What is too old at `now`, in milliseconds since 1970.
    pub fn old(&self, now: u64) -> Vec<Old> {
        self.0.iter().map(|(status, age)| Old { status: *status, before: now.saturating_sub(*age) }).collect()
    }
}

/// Every status with which a run ends.
pub fn ends() -> impl Iterator<Item = Status> {
    TABLE.iter().map(|row| row.status).filter(|status| status.is_final())
}

/// The status of this name with which a run ends; else what to write.
pub fn ended(name: &str) -> Result<Status, String> {
    ends().find(|status| status.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ends().map(Status::name).collect();
        format!("no run ends with the status {name:?}; it is one of {}", names.join(", "))
    })
}
