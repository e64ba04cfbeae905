//! Times that people type: an age or a duration such as `30d`, or a date and time in ISO 8601.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::runs::inputs::parse_duration_ms;

/// A text that is not the time it should be.
#[derive(Debug, thiserror::Error)]
pub enum InvalidTime {
    /// It is neither a duration nor a time.
    #[error(
        "invalid time {0:?}; expected a duration such as 90d or 1h, or a time such as 2027-01-31 or 2027-01-31T18:00:00Z"
    )]
    Unknown(String),
    /// It is to come, but has passed.
    #[error("the time {0} has passed; expected a time in the future, or a duration such as 90d or 1h")]
    Passed(String),
    /// It is now, so that nothing would be left.
    #[error("the time {0} is now; expected a time in the future, or a duration such as 90d or 1h")]
    Now(String),
}

/// The time that is a duration after `now`, or the time itself, which must not have passed; in milliseconds since the
/// Unix epoch. Fails if the text is neither a duration nor a time, or if the time has passed.
pub fn parse_time_after(text: &str, now: u64) -> Result<u64, InvalidTime> {
    let at = parse_time(text, |duration| now.saturating_add(duration))?;
    if at < now { Err(InvalidTime::Passed(text.to_owned())) } else { Ok(at) }
}

/// The end of a period that begins now, so that it must be in the future. Fails if the text is neither a
/// duration nor a time, or if the time has passed or is now.
pub fn parse_expiry(text: &str, now: u64) -> Result<u64, InvalidTime> {
    let at = parse_time_after(text, now)?;
    if at == now { Err(InvalidTime::Now(text.to_owned())) } else { Ok(at) }
}

/// The time that is a duration before `now`, or the time itself; in milliseconds since the Unix epoch. Fails if the
/// text is neither a duration nor a time.
pub fn parse_time_before(text: &str, now: u64) -> Result<u64, InvalidTime> {
    parse_time(text, |duration| now.saturating_sub(duration))
}

fn parse_time(text: &str, apply: impl Fn(u64) -> u64) -> Result<u64, InvalidTime> {
    let instant = || text.parse::<jiff::Timestamp>().ok();
    let midnight = || Some(text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let timestamp = || instant().or_else(midnight).and_then(|at| u64::try_from(at.as_millisecond()).ok());
    parse_duration_ms(text).map(apply).or_else(timestamp).ok_or_else(|| InvalidTime::Unknown(text.to_owned()))
}

/// A time in ISO 8601, to the second.
pub fn format_time(at_ms: u64) -> String {
    let seconds = i64::try_from(at_ms / 1000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map(|at| at.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_times_are_read() {
        let now = 1_800_000_000_000;
        assert_eq!(parse_time_after("90d", now).expect("valid"), now + 90 * 86_400_000);
        assert_eq!(parse_time_before("2h", now).expect("valid"), now - 7_200_000);
        let noon = parse_time_after("2027-01-31T12:00:00Z", now).expect("valid");
        assert_eq!(noon - parse_time_before("2027-01-31", now).expect("valid"), 43_200_000);
        assert_eq!(format_time(noon), "2027-01-31T12:00:00Z");
        assert_eq!(parse_time_after("0s", now).expect("valid"), now);
        assert!(matches!(parse_expiry("0s", now), Err(InvalidTime::Now(_))));
        for wrong in ["soon", "", "2027-02-30", "-1d", "1960-01-01", "2027-01-01"] {
            assert!(parse_time_after(wrong, now).is_err(), "{wrong}");
        }
    }
}
