//! Schedules: when one is due, and how one is stored.

use croner::errors::CronError;
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Actor, ScheduleRow, Store, StoreError};

use crate::cron_times::CronTimes;
use crate::error::AppError;

/// Maximum size of the inputs of a schedule as JSON, in bytes.
const MAX_INPUTS_BYTES: usize = 64 << 10;

/// Maximum length of a cron expression, in bytes.
const MAX_CRON_BYTES: usize = 255;

/// Maximum length of the name of a time zone, in bytes.
const MAX_ZONE_BYTES: usize = 64;

/// An error of a schedule.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The time zone is unknown.
    #[error("unknown time zone {0:?}; expected e.g. UTC or Europe/Berlin")]
    UnknownZone(String),
    /// The cron expression cannot be parsed.
    #[error(
        "invalid cron expression {cron:?}: {why}; it has five fields (minute 0-59, hour 0-23, day 1-31, month 1-12, day of \
         the week 0-6 from Sunday), or a sixth in front for seconds, for example \"0 6 * * 1-5\": at 6:00 from Monday to Friday",
        why = describe_cron_error(source)
    )]
    InvalidCron {
        /// The expression.
        cron: String,
        /// The problem with the expression.
        source: CronError,
    },
    /// The cron expression has a year.
    #[error("the cron expression has {0} fields; it has five, or a sixth in front for seconds")]
    TooManyFields(usize),
    /// The cron expression is too long.
    #[error("the cron expression has {0} bytes; the maximum is {MAX_CRON_BYTES}")]
    CronTooLong(usize),
    /// The inputs are too large.
    #[error(
        "the inputs of the schedule have {0} bytes; the maximum is {MAX_INPUTS_BYTES}: keep large data in memory or at an \
         address that the workflow reads"
    )]
    InputsTooLarge(usize),
    /// The expression matches no time.
    #[error("the schedule is never due")]
    NeverDue(#[source] CronError),
}

/// The problem with an expression, described without terms of its parser.
fn describe_cron_error(error: &CronError) -> &'static str {
    match error {
        CronError::EmptyPattern => "it is empty",
        CronError::InvalidPattern(_) => "it does not have five fields that are separated by spaces",
        CronError::IllegalCharacters(_) => "a field contains an invalid character or word",
        CronError::ComponentError(_) => "a value is not a number, or is outside the range of its field",
        CronError::InvalidDate | CronError::InvalidTime | CronError::TimeSearchLimitExceeded => {
            "it never matches a time"
        }
    }
}

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
