//! Why a schedule is refused.

use croner::errors::CronError;

/// Maximum size of the inputs of a schedule as JSON, in bytes.
pub(crate) const MAX_INPUTS_BYTES: usize = 64 << 10;

/// Maximum length of a cron expression, in bytes.
pub(crate) const MAX_CRON_BYTES: usize = 255;

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
        CronError::ComponentError(_) => {
            "a value is not a number or is outside the range of its field, or a range ends before it begins"
        }
        CronError::InvalidDate | CronError::InvalidTime | CronError::TimeSearchLimitExceeded => {
            "it never matches a time"
        }
    }
}
