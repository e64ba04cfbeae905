//! The table `[egress]` of the configuration.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// `[egress]`: the addresses that may be reached, and properties of hosts.
#[derive(Clone, Debug, Default)]
pub struct EgressSettings {
    /// Hosts (`host:port`) that are allowed in addition to public ones.
    pub allow: Vec<String>,
    pub(crate) ports: Option<Vec<u16>>,
    /// Settings of hosts, by `host` or `host:port`.
    pub(crate) hosts: BTreeMap<String, EgressHostSettings>,
}

/// `[egress."HOST"]`: properties of a host.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EgressHostSettings {
    /// Whether the server recognises a repeated request by its `Idempotency-Key`, so that it may be sent again.
    pub(crate) idempotency_key: bool,
}

impl<'de> Deserialize<'de> for EgressSettings {
    /// Not derived, because a misspelt setting must not count as a host.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EgressSettings, D::Error> {
        deserializer.deserialize_map(EgressVisitor)
    }
}

struct EgressVisitor;

impl<'de> Visitor<'de> for EgressVisitor {
    type Value = EgressSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EgressSettings, A::Error> {
        let mut settings = EgressSettings::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "allow" => settings.allow = map.next_value()?,
                "ports" => settings.ports = Some(map.next_value()?),
                host if host == "localhost" || host.contains(['.', ':']) => {
                    settings.hosts.insert(key, map.next_value()?);
                }
                _ => {
                    let message = format!(
                        "unknown field `{key}`, expected `allow`, `ports`, or a host such as `[egress.\"api.example\"]`"
                    );
                    return Err(A::Error::custom(message));
                }
            }
        }
        Ok(settings)
    }
}
