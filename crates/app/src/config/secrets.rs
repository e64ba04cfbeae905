//! The tables `[secrets.NAME]` of the configuration: what a secret may be used for.

use std::collections::BTreeMap;

use flowloom_tools::egress::HostPort;
use serde::{Deserialize, Serialize};

use super::error::{ConfigError, TableProblem};

/// `[secrets.NAME]`: where a secret may be sent, and who may use it. Its value is in the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretSettings {
    /// The hosts to which it may be sent, as `host` or `host:port`; a leading `*.` stands for all subdomains. Empty: any
    /// host.
    pub hosts: Vec<String>,
    /// The users whose definitions may use it. The operator's own definitions need no entry.
    pub users: Vec<String>,
    /// The only workflows that may use it, by id or path; empty: all.
    pub workflows: Vec<String>,
    /// Whether webhooks may be signed with it.
    pub webhooks: bool,
}

impl SecretSettings {
    /// Whether it may be sent to a host.
    pub(crate) fn allows_host(&self, place: &HostPort) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|entry| matches_host(entry, place))
    }

    /// Whether webhooks of a user may be signed with it; `None` is the operator.
    pub fn allows_webhook(&self, user: Option<&str>) -> bool {
        self.webhooks && user.is_none_or(|user| self.users.iter().any(|listed| listed == user))
    }

    /// Fails with `ConfigInvalid` if an entry of `hosts` is not a host.
    fn validate_hosts(self, name: &str) -> Result<SecretSettings, ConfigError> {
        let hosts: Result<Vec<String>, ConfigError> = self
            .hosts
            .iter()
            .map(|entry| {
                normalize_entry(entry).ok_or_else(|| {
                    ConfigError::in_table(format!("secrets.{name}"), TableProblem::NotAHost(entry.clone()))
                })
            })
            .collect();
        Ok(SecretSettings { hosts: hosts?, ..self })
    }
}

/// Fails with `ConfigInvalid` if the settings of a secret are wrong.
pub(super) fn validate_secrets(
    settings: BTreeMap<String, SecretSettings>,
) -> Result<BTreeMap<String, SecretSettings>, ConfigError> {
    settings.into_iter().map(|(name, secret)| secret.validate_hosts(&name).map(|secret| (name, secret))).collect()
}

/// An entry of `hosts` as URLs spell it; `None` if it is not a host.
fn normalize_entry(entry: &str) -> Option<String> {
    let entry = entry.trim();
    let (wildcard, host) = entry.strip_prefix("*.").map_or(("", entry), |host| ("*.", host));
    // Without a port, any will do to parse the host.
    let has_port = HostPort::parse(host).is_ok();
    let parsed = HostPort::parse(&if has_port { host.to_owned() } else { format!("{host}:443") }).ok()?;
    Some(if has_port { format!("{wildcard}{parsed}") } else { format!("{wildcard}{}", parsed.host()) })
}

fn matches_host(entry: &str, place: &HostPort) -> bool {
    let (host, with_port) = (place.host(), place.to_string());
    match entry.strip_prefix("*.") {
        Some(parent) => {
            let is_below = |name: &str| name.strip_suffix(parent).is_some_and(|start| start.ends_with('.'));
            is_below(host) || is_below(&with_port)
        }
        None => entry == host || entry == with_port,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound_to(hosts: &[&str]) -> SecretSettings {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        SecretSettings { hosts, ..SecretSettings::default() }.validate_hosts("SHOP").expect("valid hosts")
    }

    #[test]
    fn a_host_is_compared_as_urls_spell_it() {
        let shop = bound_to(&["Shop.Example", "127.0.0.1:8080", "*.api.example", "[::1]:9000"]);
        let allows = |place: &str| shop.allows_host(&HostPort::parse(place).expect("host and port"));
        for place in ["shop.example:443", "shop.example:8443", "127.0.0.1:8080", "eu.api.example:443", "[::1]:9000"] {
            assert!(allows(place), "{place}");
        }
        for place in
            ["evil.example:443", "shop.example.evil:443", "127.0.0.1:8081", "api.example:443", "xapi.example:80"]
        {
            assert!(!allows(place), "{place}");
        }
    }

    #[test]
    fn what_is_not_a_host_is_rejected() {
        for entry in ["https://shop.example", "shop.example/path", "", "a b"] {
            let settings = SecretSettings { hosts: vec![entry.to_owned()], ..SecretSettings::default() };
            assert!(settings.validate_hosts("SHOP").is_err(), "{entry:?}");
        }
    }

    #[test]
    fn webhooks_need_their_own_permission() {
        let mut shop = SecretSettings { users: vec!["ann".to_owned()], ..SecretSettings::default() };
        assert!(!shop.allows_webhook(None) && !shop.allows_webhook(Some("ann")));
        shop.webhooks = true;
        assert!(shop.allows_webhook(None) && shop.allows_webhook(Some("ann")) && !shop.allows_webhook(Some("bob")));
    }
}
