//! Quotas: how much a user may use. [`QUOTA_TABLE`] defines how each of them is measured in the database, so they hold
//! for all servers that share it.

use std::collections::{BTreeMap, HashMap};

/// Milliseconds of a day; days begin at midnight UTC.
pub(crate) const DAY_MS: u64 = 86_400_000;

/// Milliseconds of the window in which starts are counted.
pub(crate) const MINUTE_MS: u64 = 60_000;

/// Something of which a user may use only so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quota {
    /// Runs at the same time. Runs that wait for a person and child runs do not count.
    ConcurrentRuns,
    /// Starts and retries of runs within a minute.
    StartsPerMinute,
    /// Stored definitions.
    Definitions,
    /// Stored schedules.
    Schedules,
    /// Bytes of what the user has in the database.
    DatabaseBytes,
    /// Bytes of the user's memory, keys and values. It replaces `limits.memory_bytes`.
    MemoryBytes,
    /// Bytes of the user's files. The file functions enforce it.
    FileBytes,
    /// Time that the sandbox computes, each day.
    SandboxTime,
    /// Tokens of model calls, each day.
    Tokens,
    /// Cost of model calls, each day.
    Cost,
}

/// The time to which a measurement refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaWindow {
    /// Now.
    Now,
    /// The last minute.
    Minute,
    /// The present day in UTC.
    Day,
}

/// The properties of a quota.
pub struct QuotaInfo {
    /// The quota.
    pub quota: Quota,
    /// Its name, in the configuration and in the API.
    pub name: &'static str,
    /// The unit of the configured number.
    pub unit: &'static str,
    /// The time to which it refers.
    pub window: QuotaWindow,
    /// How many measured units are one shown unit: milliseconds of a second, millionths of a dollar.
    pub scale: u32,
    /// Advice for a user who has used it up.
    advice: &'static str,
    /// Measures what the user `$1` uses; `$2` is where the window begins: a time in milliseconds since the Unix epoch, or
    /// the number of a day. `None` if one statement cannot measure it.
    pub(crate) sql: Option<&'static str>,
}

/// The commands that retry a run, each with its run. A child run is retried by its parent run.
macro_rules! retries_sql {
    () => {
        "command join run on run.id = command.run and run.parent is null and command.action like '{\"retry\"%'"
    };
}
pub(crate) use retries_sql;

/// Every quota. The daily ones are counted in `daily_usage`, the others follow from the other tables.
pub const QUOTA_TABLE: [QuotaInfo; 10] = [
    QuotaInfo {
        quota: Quota::ConcurrentRuns,
        name: "concurrent_runs",
        unit: "runs",
        window: QuotaWindow::Now,
        scale: 1,
        advice: "wait until a run ends, or cancel one",
        // One statement does not tell which processes are alive.
        sql: None,
    },
    QuotaInfo {
        quota: Quota::StartsPerMinute,
        name: "starts_per_minute",
        unit: "starts",
        window: QuotaWindow::Minute,
        scale: 1,
        advice: "try again later",
        // Each retry starts a run again. The id of a run may be older than its start, because an idempotency key reserves it.
        sql: Some(concat!(
            "select (select count(*) from run where user_id = $1 and created_at > $2 and parent is null) + \
             (select count(*) from ",
            retries_sql!(),
            " where command.sent_at > $2 and run.user_id = $1)"
        )),
    },
    QuotaInfo {
        quota: Quota::Definitions,
        name: "definitions",
        unit: "definitions",
        window: QuotaWindow::Now,
        scale: 1,
        advice: "delete definitions",
        sql: Some(
            "select count(*) from definition where user_id = $1 or substr(user_id, 1, length($1) + 1) = $1 || '\u{1}'",
        ),
    },
    QuotaInfo {
        quota: Quota::Schedules,
        name: "schedules",
        unit: "schedules",
        window: QuotaWindow::Now,
        scale: 1,
        advice: "delete schedules",
        sql: Some(
            "select count(*) from schedule where user_id = $1 or substr(user_id, 1, length($1) + 1) = $1 || '\u{1}'",
        ),
    },
    QuotaInfo {
        quota: Quota::DatabaseBytes,
        name: "database_bytes",
        unit: "bytes",
        window: QuotaWindow::Now,
        scale: 1,
        advice: "delete runs, memory or definitions; the size is measured again after a minute",
        sql: Some(
            "select cast((select coalesce(sum(coalesce(octet_length(event.data), 0) \
              + coalesce(octet_length(blob.content), 0) + octet_length(event.path) + 40), 0) \
              from run join event on event.id >= run.number * 4294967296 and event.id < (run.number + 1) * 4294967296 \
              left join blob on blob.hash = event.output where run.user_id = $1) \
              + (select coalesce(sum(octet_length(content)), 0) from definition_version \
              where user_id = $1 or substr(user_id, 1, length($1) + 1) = $1 || '\u{1}') \
              + (select coalesce(sum(octet_length(content)), 0) from bundle \
              where hash in (select bundle from run where user_id = $1)) \
              + (select coalesce(sum(octet_length(action) + 40), 0) from command \
              where run in (select id from run where user_id = $1)) \
              + (select coalesce(sum(octet_length(key) + octet_length(value)), 0) from memory \
              where namespace = $1 or substr(namespace, 1, length($1) + 1) = $1 || '\u{1}') \
              + (select coalesce(sum(octet_length(id) + octet_length(workflow) + octet_length(inputs) + 40), 0) \
              from schedule where user_id = $1 or substr(user_id, 1, length($1) + 1) = $1 || '\u{1}') \
              + (select coalesce(sum(octet_length(id) + octet_length(workflow) + 40), 0) from hook \
              where user_id = $1 or substr(user_id, 1, length($1) + 1) = $1 || '\u{1}') \
              + (select coalesce(sum(octet_length(title) + octet_length(body) + octet_length(metadata) + 40), 0) \
              from notification where user_id = $1) \
              + (select coalesce(sum(octet_length(content) + octet_length(purpose) + 40), 0) \
              from block_card where user_id = $1 or substr(user_id, 1, length($1) + 1) = $1 || '\u{1}') \
              + (select coalesce(sum(octet_length(key) + octet_length(request) + 40), 0) \
              from idempotency_key where user_id = $1) \
              as bigint)",
        ),
    },
    QuotaInfo {
        quota: Quota::MemoryBytes,
        name: "memory_bytes",
        unit: "bytes",
        window: QuotaWindow::Now,
        scale: 1,
        advice: "delete keys",
        sql: None,
    },
    QuotaInfo {
        quota: Quota::FileBytes,
        name: "file_bytes",
        unit: "bytes",
        window: QuotaWindow::Now,
        scale: 1,
        advice: "replace files with smaller ones, or ask the operator to delete some",
        sql: None,
    },
    QuotaInfo {
        quota: Quota::SandboxTime,
        name: "sandbox_seconds_per_day",
        unit: "seconds",
        window: QuotaWindow::Day,
        scale: 1_000,
        advice: "continue after midnight UTC",
        sql: Some(
            "select cast(coalesce(sum(sandbox_ms), 0) as bigint) from daily_usage where user_id = $1 and day = $2",
        ),
    },
    QuotaInfo {
        quota: Quota::Tokens,
        name: "tokens_per_day",
        unit: "tokens",
        window: QuotaWindow::Day,
        scale: 1,
        advice: "continue after midnight UTC",
        sql: Some("select cast(coalesce(sum(tokens), 0) as bigint) from daily_usage where user_id = $1 and day = $2"),
    },
    QuotaInfo {
        quota: Quota::Cost,
        name: "usd_per_day",
        unit: "dollars",
        window: QuotaWindow::Day,
        scale: 1_000_000,
        advice: "continue after midnight UTC",
        sql: Some(
            "select cast(coalesce(sum(micro_usd), 0) as bigint) from daily_usage where user_id = $1 and day = $2",
        ),
    },
];

impl Quota {
    /// Its row of the table.
    pub fn info(self) -> &'static QuotaInfo {
        // The rows are in the order of the variants.
        &QUOTA_TABLE[self as usize]
    }

    /// The quota with this name.
    pub fn parse(name: &str) -> Option<Quota> {
        QUOTA_TABLE.iter().find(|info| info.name == name).map(|info| info.quota)
    }
}

impl QuotaInfo {
    /// A measured amount in the unit of the quota.
    pub fn to_unit(&self, amount: u64) -> f64 {
        amount as f64 / f64::from(self.scale)
    }

    /// An amount of the configuration as it is measured.
    pub fn from_unit(&self, amount: f64) -> u64 {
        (amount * f64::from(self.scale)).round() as u64
    }

    /// When the window that contains `now` ends, in milliseconds since the Unix epoch; `None` if that depends on the user.
    pub fn window_end(&self, now: u64) -> Option<u64> {
        match self.window {
            QuotaWindow::Now => None,
            QuotaWindow::Minute => Some(now + MINUTE_MS),
            QuotaWindow::Day => Some((now / DAY_MS + 1) * DAY_MS),
        }
    }
}

/// Limits by quota, as they are measured.
pub type QuotaLimits = BTreeMap<Quota, u64>;

/// The configured quotas. Nothing is limited by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// The limits of every user.
    pub every_user: QuotaLimits,
    /// Limits of single users, which replace those of every user.
    pub users: HashMap<String, QuotaLimits>,
}

impl Quotas {
    /// The limit of a user.
    pub fn find_limit(&self, user: &str, quota: Quota) -> Option<u64> {
        self.users.get(user).and_then(|own| own.get(&quota)).or_else(|| self.every_user.get(&quota)).copied()
    }

    /// Size of a user's memory that writes may not exceed, in bytes: the quota, or `default_bytes` if none is set.
    pub fn find_memory_limit(&self, user: &str, default_bytes: u64) -> u64 {
        self.find_limit(user, Quota::MemoryBytes).unwrap_or(default_bytes)
    }

    /// Whether what a user uses each day is counted.
    pub fn counts_days_of(&self, user: &str) -> bool {
        let mut daily = QUOTA_TABLE.iter().filter(|info| info.window == QuotaWindow::Day);
        daily.any(|info| self.find_limit(user, info.quota).is_some())
    }

    /// Whether any user has this quota.
    pub fn is_limited(&self, quota: Quota) -> bool {
        self.every_user.contains_key(&quota) || self.users.values().any(|own| own.contains_key(&quota))
    }
}

/// A quota that is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// The user.
    pub user: String,
    /// The quota.
    pub quota: Quota,
    /// The amount that is used, as it is measured: [`QuotaInfo::to_unit`] converts it.
    pub used: u64,
    /// The amount that may be used, as it is measured.
    pub limit: u64,
    /// When more can be used, in milliseconds since the Unix epoch; `None` if that is not known.
    pub until: Option<u64>,
}

impl std::fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let QuotaInfo { name, unit, advice, .. } = self.quota.info();
        let [used, limit] = [self.used, self.limit].map(|amount| self.quota.info().to_unit(amount));
        write!(f, "the user {} has used {used} of {limit} {unit} (quota {name}); {advice}", self.user)
    }
}

/// The use of a user in a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DailyUsage {
    /// Time that the sandbox computed, in milliseconds.
    pub sandbox_ms: u64,
    /// Tokens of prompts and answers.
    pub tokens: u64,
    /// Cost of model calls, in millionths of a dollar.
    pub micro_usd: u64,
}

impl DailyUsage {
    /// The sum of two uses.
    pub fn add_usage(self, other: DailyUsage) -> DailyUsage {
        self.combine_amounts(other, u64::saturating_add)
    }

    /// This use without a part of it.
    pub fn subtract_usage(self, part: DailyUsage) -> DailyUsage {
        self.combine_amounts(part, u64::saturating_sub)
    }

    fn combine_amounts(self, other: DailyUsage, combine: impl Fn(u64, u64) -> u64) -> DailyUsage {
        DailyUsage {
            sandbox_ms: combine(self.sandbox_ms, other.sandbox_ms),
            tokens: combine(self.tokens, other.tokens),
            micro_usd: combine(self.micro_usd, other.micro_usd),
        }
    }
}

/// Quotas that a start of a run may exceed.
pub const START_QUOTAS: [Quota; 2] = [Quota::ConcurrentRuns, Quota::StartsPerMinute];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_quotas() {
        for info in &QUOTA_TABLE {
            assert_eq!(info.quota.info().name, info.name);
            assert_eq!(Quota::parse(info.name), Some(info.quota));
        }
    }

    #[test]
    fn a_user_has_own_limits_before_those_of_every_user() {
        let limits = |limit| QuotaLimits::from([(Quota::Tokens, limit)]);
        let quotas = Quotas { every_user: limits(5), users: HashMap::from([("ann".to_owned(), limits(9))]) };
        let found = ["ann", "bob"].map(|user| quotas.find_limit(user, Quota::Tokens));
        assert_eq!(found, [Some(9), Some(5)]);
        assert_eq!(quotas.find_limit("ann", Quota::Cost), None);
        assert!(quotas.counts_days_of("bob") && !Quotas::default().counts_days_of("bob"));
    }

    #[test]
    fn units_are_converted() {
        assert_eq!(Quota::Cost.info().from_unit(0.25), 250_000);
        let exceeded =
            QuotaExceeded { user: "ann".into(), quota: Quota::SandboxTime, used: 2500, limit: 2000, until: None };
        assert!(exceeded.to_string().contains("2.5 of 2 seconds (quota sandbox_seconds_per_day)"), "{exceeded}");
        assert_eq!(Quota::Cost.info().window_end(DAY_MS + 5), Some(2 * DAY_MS));
    }
}
