//! When a schedule is due: a cron expression in a time zone.

use std::str::FromStr as _;

use croner::Cron;
use croner::errors::CronError;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::schedule_error::ScheduleError;

/// Maximum number of due times that are counted together as skipped.
const MAX_COUNTED_TIMES: u64 = 1_000;

/// Maximum number of fields of a cron expression. One with a year would be due for the last time.
const MAX_CRON_FIELDS: usize = 6;

/// The fields of the day, which follow those of the time.
const DAY_FIELDS: usize = 3;

/// Maximum number of times of the day that are expressions of their own. With more of them, an expression is treated as
/// one with `*`.
const MAX_TIMES_OF_DAY: usize = 48;

/// A cron expression in a time zone.
///
/// An expression that lists at most 48 times of the day is due once at a time that occurs twice, because the clock is set
/// back, and right after a time that does not exist, because the clock is set forward. Any other expression, such as one
/// with `*` or `/` in its time, is due whenever the clock shows a time that it matches.
pub struct CronTimes {
    /// An expression for each listed time of the day, because the library distinguishes only single times from others;
    /// otherwise the whole expression.
    crons: Vec<Cron>,
    zone: TimeZone,
}

impl CronTimes {
    /// Parses a cron expression and an IANA time zone. Fails with `ScheduleInvalid`.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_app::cron_times::CronTimes;
    ///
    /// assert!(CronTimes::parse("0 6 * * 1-5", "Europe/Berlin").is_ok());
    /// assert!(CronTimes::parse("0 6 * * 1-5", "Mars/Base").is_err());
    /// ```
    pub fn parse(cron: &str, timezone: &str) -> Result<CronTimes, ScheduleError> {
        let zone = TimeZone::get(timezone).map_err(|_| ScheduleError::UnknownZone(timezone.to_owned()))?;
        let fields = cron.split_whitespace().count();
        if fields > MAX_CRON_FIELDS {
            return Err(ScheduleError::TooManyFields(fields));
        }
        let invalid = |source| ScheduleError::InvalidCron { cron: cron.to_owned(), source };
        let whole = Cron::from_str(cron).map_err(invalid)?;
        let crons = match list_times_of_day(cron) {
            Some(times) => times.iter().map(|one| Cron::from_str(one)).collect::<Result<_, _>>().map_err(invalid)?,
            None => vec![whole],
        };
        Ok(CronTimes { crons, zone })
    }

    /// The first due time after `after`, both in milliseconds since the Unix epoch. Fails if the schedule is never due.
    pub fn next_after(&self, after: u64) -> Result<u64, ScheduleError> {
        let after = Timestamp::from_millisecond(after as i64).unwrap_or_default().to_zoned(self.zone.clone());
        let next = self.crons.iter().filter_map(|cron| cron.find_next_occurrence(&after, false).ok()).min();
        let next = next.ok_or(ScheduleError::NeverDue(CronError::TimeSearchLimitExceeded))?;
        Ok(next.timestamp().as_millisecond() as u64)
    }

    /// The number of due times from `from`, which is one, until before `until`, both in milliseconds since the Unix epoch. At
    /// most 1,000 are counted.
    pub fn count_between(&self, from: u64, until: u64) -> u64 {
        let (mut count, mut at) = (0, from);
        while at < until && count < MAX_COUNTED_TIMES {
            count += 1;
            let Ok(next) = self.next_after(at) else { break };
            at = next;
        }
        count
    }

    /// The last due time up to `now`, both in milliseconds since the Unix epoch.
    pub fn last_before(&self, now: u64) -> Option<u64> {
        let now = Timestamp::from_millisecond(now as i64).ok()?.to_zoned(self.zone.clone());
        let last = self.crons.iter().filter_map(|cron| cron.find_previous_occurrence(&now, true).ok()).max()?;
        Some(last.timestamp().as_millisecond() as u64)
    }
}

/// An expression for each time of the day that `cron` lists; `None` if it lists only one, too many, or none.
fn list_times_of_day(cron: &str) -> Option<Vec<String>> {
    let fields: Vec<&str> = cron.split_whitespace().collect();
    let (time, day) = fields.split_at_checked(fields.len().checked_sub(DAY_FIELDS)?)?;
    let mut times = vec![String::new()];
    for field in time {
        let values = list_values(field)?;
        if times.len() * values.len() > MAX_TIMES_OF_DAY {
            return None;
        }
        times = times.iter().flat_map(|before| values.iter().map(move |value| format!("{before}{value} "))).collect();
    }
    (times.len() > 1).then(|| times.into_iter().map(|time| time + &day.join(" ")).collect())
}

/// The values of a field that consists of numbers and ranges.
fn list_values(field: &str) -> Option<Vec<u8>> {
    let mut values = Vec::new();
    for part in field.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        values.extend(first.parse::<u8>().ok()?..=last.parse().ok()?);
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_ms(text: &str) -> u64 {
        text.parse::<Timestamp>().expect("a time").as_millisecond() as u64
    }

    #[test]
    fn times_are_meant_in_their_zone() {
        let six = CronTimes::parse("0 6 * * 1-5", "Europe/Berlin").expect("valid");
        // A Friday in winter, then Monday.
        assert_eq!(six.next_after(parse_ms("2026-11-20T04:59:00Z")).expect("due"), parse_ms("2026-11-20T05:00:00Z"));
        assert_eq!(six.next_after(parse_ms("2026-11-20T05:00:00Z")).expect("due"), parse_ms("2026-11-23T05:00:00Z"));
        assert_eq!(six.last_before(parse_ms("2026-11-22T12:00:00Z")), Some(parse_ms("2026-11-20T05:00:00Z")));
        // Summer time.
        assert_eq!(six.next_after(parse_ms("2026-06-01T00:00:00Z")).expect("due"), parse_ms("2026-06-01T04:00:00Z"));
        let second = CronTimes::parse("*/5 * * * * *", "UTC").expect("valid");
        assert_eq!(second.next_after(parse_ms("2026-11-20T00:00:01Z")).expect("due"), parse_ms("2026-11-20T00:00:05Z"));
    }

    #[test]
    fn due_times_are_counted() {
        let second = CronTimes::parse("* * * * * *", "UTC").expect("valid");
        let counts = [0, 1_000, 3_000, 1 << 40].map(|until| second.count_between(0, until));
        assert_eq!(counts, [0, 1, 3, 1_000]);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (cron, zone) in [("every day", "UTC"), ("61 * * * *", "UTC"), ("* * * * *", "Mars/Base"), ("", "UTC")] {
            assert!(CronTimes::parse(cron, zone).is_err(), "{cron} {zone}");
        }
        let never = CronTimes::parse("0 0 31 2 *", "UTC").map(|times| times.next_after(0));
        assert!(!matches!(never, Ok(Ok(_))), "there is no 31st of February");
    }

    /// In Berlin, 2:00 to 3:00 occurs twice on 2026-10-25, and not at all on 2026-03-29.
    #[test]
    fn listed_times_are_due_once_when_the_clock_is_set() {
        let list_due = |cron: &str, from: &str, count: usize| {
            let times = CronTimes::parse(cron, "Europe/Berlin").expect("valid");
            let next = |at: &u64| times.next_after(*at).ok();
            let due = std::iter::successors(Some(parse_ms(from)), next).skip(1).take(count);
            due.map(|at| Timestamp::from_millisecond(at as i64).expect("a time").to_string()).collect::<Vec<_>>()
        };
        for cron in ["0 2,14 * * *", "0 2-2,14 * * *", "0 0 2,14 * * *"] {
            let back = ["2026-10-25T00:00:00Z", "2026-10-25T13:00:00Z", "2026-10-26T01:00:00Z"];
            assert_eq!(list_due(cron, "2026-10-24T20:00:00Z", 3), back, "{cron}");
            let forward = ["2026-03-29T01:00:00Z", "2026-03-29T12:00:00Z", "2026-03-30T00:00:00Z"];
            assert_eq!(list_due(cron, "2026-03-28T20:00:00Z", 3), forward, "{cron}");
        }
        // What is due every hour is due in each of them.
        let hourly = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
        assert_eq!(list_due("30 * * * *", "2026-10-24T23:50:00Z", 3), hourly);
    }

    #[test]
    fn the_last_of_several_listed_times_is_found() {
        let times = CronTimes::parse("15,45 6,18 * * *", "UTC").expect("valid");
        assert_eq!(times.last_before(parse_ms("2026-11-20T18:20:00Z")), Some(parse_ms("2026-11-20T18:15:00Z")));
        assert_eq!(times.next_after(parse_ms("2026-11-20T18:20:00Z")).ok(), Some(parse_ms("2026-11-20T18:45:00Z")));
    }
}
