//! Schedules: their parts, and how one is stored.

use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Actor, ScheduleRow, Store, StoreError};

use crate::cron_times::CronTimes;
use crate::error::AppError;
use crate::schedule_error::{MAX_CRON_BYTES, MAX_INPUTS_BYTES, ScheduleError};

/// Maximum length of the name of a time zone, in bytes.
const MAX_ZONE_BYTES: usize = 64;

/// A schedule that is to be stored.
pub struct NewSchedule {
    /// The user whose runs it starts.
    pub user: String,
    /// Its id.
    pub id: String,
    /// Id of the workflow to run.
    pub workflow: String,
    /// Inputs of the runs.
    pub inputs: Value,
    /// When it is due, as a cron expression.
    pub cron: String,
    /// The time zone of the schedule; UTC by default.
    pub timezone: Option<String>,
    /// Whether one run makes up for times at which no server was there.
    pub catches_up: bool,
    /// Whether a run starts although the last one has not ended.
    pub allows_overlap: bool,
}

impl NewSchedule {
    /// Fails with `ScheduleInvalid` if a part is too large.
    fn check_sizes(&self, inputs: &str) -> Result<(), ScheduleError> {
        if self.cron.len() > MAX_CRON_BYTES {
            return Err(ScheduleError::CronTooLong(self.cron.len()));
        }
        if let Some(zone) = self.timezone.as_ref().filter(|zone| zone.len() > MAX_ZONE_BYTES) {
            return Err(ScheduleError::UnknownZone(zone.chars().take(MAX_ZONE_BYTES).collect()));
        }
        match inputs.len() > MAX_INPUTS_BYTES {
            true => Err(ScheduleError::InputsTooLarge(inputs.len())),
            false => Ok(()),
        }
    }

    /// The schedule as the store keeps it, due for the first time after now.
    fn into_row(self) -> Result<ScheduleRow, AppError> {
        let now = SystemClock.now_ms();
        let inputs = render::to_json(&self.inputs);
        self.check_sizes(&inputs)?;
        let timezone = self.timezone.unwrap_or_else(|| "UTC".to_owned());
        let next_at = CronTimes::parse(&self.cron, &timezone)?.next_after(now)?;
        Ok(ScheduleRow {
            id: self.id,
            user: self.user,
            workflow: self.workflow,
            cron: self.cron,
            timezone,
            inputs,
            catches_up: self.catches_up,
            allows_overlap: self.allows_overlap,
            is_paused: false,
            created_at: now,
            next_at,
            last_at: None,
            last_run: None,
            is_pending: false,
            last_error: None,
            skipped: 0,
        })
    }
}

/// Creates a schedule, or replaces the one with its id. Returns it. Fails if its times cannot be read, or if it is never due.
pub async fn put_schedule(store: &Store, new: NewSchedule, by: &Actor) -> Result<ScheduleRow, AppError> {
    let row = new.into_row()?;
    let (user, id) = (row.user.clone(), row.id.clone());
    store.put_schedule(row, by).await?;
    find_schedule(store, &user, &id)
}

/// Pauses a schedule. Returns it. Fails with `NotThere` if the user has no schedule with this id.
pub async fn pause_schedule(store: &Store, user: &str, id: &str, by: &Actor) -> Result<ScheduleRow, AppError> {
    store.pause_schedule(user, id, by).await?;
    find_schedule(store, user, id)
}

/// Resumes a schedule with its next due time after now. Returns it. Fails with `NotThere` if the user has no schedule with
/// this id.
pub async fn resume_schedule(store: &Store, user: &str, id: &str, by: &Actor) -> Result<ScheduleRow, AppError> {
    let row = find_schedule(store, user, id)?;
    let next_at = CronTimes::parse(&row.cron, &row.timezone)?.next_after(SystemClock.now_ms())?;
    store.resume_schedule(user, id, next_at, by).await?;
    find_schedule(store, user, id)
}

/// The schedule of a user with this id. Fails with `NotThere`.
pub fn find_schedule(store: &Store, user: &str, id: &str) -> Result<ScheduleRow, AppError> {
    store.find_schedule(user, id)?.ok_or_else(|| StoreError::NotFound { kind: "schedule", id: id.to_owned() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_parts_are_refused() {
        let new = |inputs: usize, cron: usize, zone: usize| NewSchedule {
            user: "ann".into(),
            id: "s".into(),
            workflow: "w".into(),
            inputs: "x".repeat(inputs).into(),
            cron: format!("{}* * * * *", " ".repeat(cron)),
            timezone: Some(format!("UTC{}", "x".repeat(zone))),
            catches_up: true,
            allows_overlap: true,
        };
        assert!(new(MAX_INPUTS_BYTES - 2, 0, 0).into_row().is_ok());
        for large in [new(MAX_INPUTS_BYTES - 1, 0, 0), new(0, MAX_CRON_BYTES, 0), new(0, 0, 1 << 20)] {
            let error = large.into_row().expect_err("too large");
            assert!(error.to_string().len() < 300, "{error}");
        }
    }
}
