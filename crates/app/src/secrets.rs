//! The secrets of this process: their values in the environment, and who may use them where.

use std::collections::BTreeMap;

use flowloom_runtime::effects::DefinitionIdentity;
use flowloom_store::SHARED_USER;
use flowloom_tools::secrets::{Destination, Requester, SecretPurpose};
use flowloom_tools::{SecretError, Secrets};

use crate::config::{Config, SecretSettings};

/// The prefix of the environment variables that hold secrets.
const VARIABLE_PREFIX: &str = "FLOWLOOM_SECRET_";

/// The secret `name`, from the environment variable `FLOWLOOM_SECRET_<NAME>`; `None` if it is unset or empty.
pub fn read_secret(name: &str) -> Option<String> {
    std::env::var(format!("{VARIABLE_PREFIX}{name}")).ok().filter(|value| !value.is_empty())
}

/// Fails unless webhooks of `user` may be signed with a secret.
pub(crate) fn check_webhook_secret(config: &Config, user: &str, name: &str) -> Result<(), SecretError> {
    let tenant = Some(user).filter(|user| *user != SHARED_USER);
    match config.secrets.get(name).is_some_and(|settings| settings.allows_webhook(tenant)) {
        true => Ok(()),
        false => Err(SecretError::NotForWebhooks { name: name.to_owned(), user: tenant.map(str::to_owned) }),
    }
}

/// The secret with which callers of a webhook of `user` sign; `None` if it is not set, or webhooks may not use it.
pub fn read_webhook_secret(config: &Config, user: &str, name: &str) -> Option<String> {
    check_webhook_secret(config, user, name).ok()?;
    read_secret(name)
}

/// The names of all secrets that are set, sorted.
pub fn list_secret_names() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        name.strip_prefix(VARIABLE_PREFIX).filter(|_| !value.is_empty()).map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Secrets from the environment, used as `[secrets.NAME]` permits.
pub(crate) struct EnvironmentSecrets {
    settings: BTreeMap<String, SecretSettings>,
}

impl EnvironmentSecrets {
    pub(crate) fn new(config: &Config) -> EnvironmentSecrets {
        EnvironmentSecrets { settings: config.secrets.clone() }
    }

    /// Fails unless the settings of the secret permit the purpose.
    fn check_purpose(&self, name: &str, purpose: &SecretPurpose<'_>) -> Result<(), SecretError> {
        let unrestricted = SecretSettings::default();
        let settings = self.settings.get(name).unwrap_or(&unrestricted);
        check_destination(name, settings, purpose)?;
        match purpose.requester {
            Requester::Definition(definition) => check_definition(name, settings, definition),
            Requester::Configuration => Ok(()),
        }
    }
}

impl Secrets for EnvironmentSecrets {
    fn read_secret(&self, name: &str, purpose: &SecretPurpose<'_>) -> Result<String, SecretError> {
        self.check_purpose(name, purpose)?;
        read_secret(name).ok_or_else(|| SecretError::NotSet { name: name.to_owned() })
    }
}

/// Fails unless the destination is one of the secret's hosts. The configuration may hand any secret to a program.
fn check_destination(name: &str, settings: &SecretSettings, purpose: &SecretPurpose<'_>) -> Result<(), SecretError> {
    let destination = match (purpose.destination, purpose.requester) {
        (Destination::Host(place), _) if settings.allows_host(place) => return Ok(()),
        (Destination::Machine, Requester::Configuration) => return Ok(()),
        (Destination::Machine, Requester::Definition(_)) if settings.hosts.is_empty() => return Ok(()),
        (Destination::Host(place), _) => place.to_string(),
        (Destination::Machine, Requester::Definition(_)) => "a file or a program of this machine".to_owned(),
    };
    Err(SecretError::OtherHost { name: name.to_owned(), destination, hosts: settings.hosts.clone() })
}

/// Fails unless a definition may use the secret.
fn check_definition(name: &str, settings: &SecretSettings, definition: &DefinitionIdentity) -> Result<(), SecretError> {
    let name = name.to_owned();
    if let Some(user) = definition.tenant.as_ref().filter(|user| !settings.users.contains(user)) {
        return Err(SecretError::OtherUser { name, user: user.clone() });
    }
    if settings.hosts.is_empty() && (definition.tenant.is_some() || definition.is_steered) {
        return Err(SecretError::NoHosts { name });
    }
    if !settings.workflows.is_empty() && !settings.workflows.iter().any(|workflow| definition.is_named(workflow)) {
        let workflow = definition.id.clone().unwrap_or_else(|| definition.file.clone());
        return Err(SecretError::OtherWorkflow { name, workflow, workflows: settings.workflows.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
