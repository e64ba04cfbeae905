//! `[quotas]` of the configuration: how much each user may use.

use std::collections::BTreeMap;
use std::fmt;

use flowloom_store::{QUOTA_TABLE, Quota, QuotaLimits, Quotas};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::{ConfigError, TableProblem};

/// `[quotas]` and `[quotas.users.NAME]`: amounts by name.
#[derive(Clone, Debug, Default)]
pub(super) struct QuotaSettings {
    users: BTreeMap<String, BTreeMap<String, f64>>,
    every_user: BTreeMap<String, f64>,
}

impl<'de> Deserialize<'de> for QuotaSettings {
    /// Not derived, because flattened values lose their places.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QuotaSettings, D::Error> {
        deserializer.deserialize_map(QuotaVisitor)
    }
}

struct QuotaVisitor;

impl<'de> Visitor<'de> for QuotaVisitor {
    type Value = QuotaSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<QuotaSettings, A::Error> {
        let mut settings = QuotaSettings::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "users" => settings.users = map.next_value()?,
                _ => {
                    settings.every_user.insert(key, map.next_value()?);
                }
            }
        }
        Ok(settings)
    }
}

impl QuotaSettings {
    /// Fails with `ConfigInvalid` if a name is unknown or an amount is no amount.
    pub(super) fn validate(self) -> Result<Quotas, ConfigError> {
        let user = |(name, limits): (String, BTreeMap<String, f64>)| {
            let limits = parse_limits(&format!("quotas.users.{name}"), &limits)?;
            Ok((name, limits))
        };
        Ok(Quotas {
            every_user: parse_limits("quotas", &self.every_user)?,
            users: self.users.into_iter().map(user).collect::<Result<_, ConfigError>>()?,
        })
    }
}

fn parse_limits(table: &str, limits: &BTreeMap<String, f64>) -> Result<QuotaLimits, ConfigError> {
    let limit = |(name, amount): (&String, &f64)| {
        let expected = || QUOTA_TABLE.iter().map(|info| info.name).collect();
        let quota = Quota::parse(name).ok_or_else(|| {
            ConfigError::in_table(table, TableProblem::Quota { name: name.clone(), expected: expected() })
        })?;
        match amount.is_finite() && *amount >= 0.0 {
            true => Ok((quota, quota.info().from_unit(*amount))),
            false => Err(ConfigError::in_table(table, TableProblem::QuotaAmount { quota: quota.info().name })),
        }
    };
    limits.iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Quotas, String> {
        let settings: QuotaSettings = toml::from_str(text).expect("TOML");
        settings.validate().map_err(|error| error.to_string())
    }

    #[test]
    fn quotas_are_read_for_every_user_and_for_single_ones() {
        let text = "tokens_per_day = 1000\nusd_per_day = 0.5\n[users.ann]\ntokens_per_day = 5\n";
        let quotas = parse(text).expect("valid");
        let limits = ["ann", "bob"].map(|user| quotas.find_limit(user, Quota::Tokens));
        assert_eq!(limits, [Some(5), Some(1000)]);
        assert_eq!(quotas.find_limit("ann", Quota::Cost), Some(500_000));
        assert_eq!(parse("").expect("valid"), Quotas::default());
    }

    #[test]
    fn unknown_names_and_amounts_are_refused() {
        assert!(parse("token_per_day = 1").is_err_and(|error| error.contains("tokens_per_day")));
        assert!(parse("[users.ann]\nusd_per_day = -1").is_err_and(|error| error.contains("[quotas.users.ann]")));
    }
}
