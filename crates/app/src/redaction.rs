//! Which secrets are removed from what the runs of a user record and show.
//!
//! A user sees which parts were removed from a text that they chose. So the names of secrets are shown only to users
//! who may use them, and short secrets of others, which could be found by trying all values, are not looked for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use flowloom_runtime::redact::{Redactor, Redactors};
use flowloom_store::{Database, SHARED_USER};
use flowloom_tools::{HiddenSecret, SecretRedactor};
use parking_lot::Mutex;

use crate::config::{Config, SecretSettings};
use crate::secrets::{list_secret_names, read_secret};
use crate::wiring::build_default_models;

/// The redactor for the log, which names the secrets for the operator; `None` if there is nothing to redact.
pub fn build_log_redactor(config: &Config) -> Option<Arc<dyn Redactor>> {
    build_redactor(config, SHARED_USER)
}

/// The redactor for what all users may read, which names no secret; `None` if there is nothing to redact.
pub(crate) fn build_nameless_redactor(config: &Config) -> Option<Arc<dyn Redactor>> {
    // No user has the empty name.
    build_redactor(config, "")
}

fn build_redactor(config: &Config, user: &str) -> Option<Arc<dyn Redactor>> {
    let redactors = UserRedactors::new(config);
    (!redactors.is_empty()).then(|| redactors.redactor_for(user))
}

/// The redactors of this process.
pub(crate) struct UserRedactors {
    /// Secrets by name.
    values: Vec<(String, String)>,
    settings: BTreeMap<String, SecretSettings>,
    /// Redactors by which of the secrets their users may use. Users with the same secrets share one.
    built: Mutex<HashMap<Vec<bool>, Arc<SecretRedactor>>>,
}

impl UserRedactors {
    /// The redactors for all secrets that are set, the keys of model providers, the variables that blocks see, and the password of
    /// the database.
    pub(crate) fn new(config: &Config) -> UserRedactors {
        let secrets = list_secret_names().into_iter().filter_map(|name| read_secret(&name).map(|value| (name, value)));
        let read_variable = |name: String| std::env::var(&name).ok().map(|value| (name, value));
        let providers = build_default_models(config).list_providers();
        let keys = providers.into_iter().filter_map(|provider| provider.key_env).filter_map(read_variable);
        let blocks = config.sandbox.env.iter().cloned().filter_map(read_variable);
        let database = config.database.value.as_ref().and_then(Database::password);
        let database = database.map(|password| ("DATABASE_PASSWORD".to_owned(), password));
        let values = secrets.chain(keys).chain(blocks).chain(database).collect();
        UserRedactors { values, settings: config.secrets.clone(), built: Mutex::default() }
    }

    /// Whether there is nothing to redact.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The secrets that are hidden from the texts of a user.
    pub(crate) fn list_hidden(&self, user: &str) -> Vec<HiddenSecret> {
        let hidden = self.values.iter().map(|(name, value)| {
            let name = self.is_known_to(name, user).then(|| name.clone());
            HiddenSecret { name, value: value.clone() }
        });
        hidden.filter(HiddenSecret::is_redacted).collect()
    }

    /// Whether a user may know of a secret.
    fn is_known_to(&self, name: &str, user: &str) -> bool {
        let is_listed = |settings: &SecretSettings| settings.users.iter().any(|listed| listed == user);
        user == SHARED_USER || self.settings.get(name).is_some_and(is_listed)
    }
}

impl Redactors for UserRedactors {
    fn redactor_for(&self, user: &str) -> Arc<dyn Redactor> {
        let known: Vec<bool> = self.values.iter().map(|(name, _)| self.is_known_to(name, user)).collect();
        let mut built = self.built.lock();
        let build = |known: &[bool]| {
            let secrets = self.values.iter().zip(known).map(|((name, value), is_known)| HiddenSecret {
                name: is_known.then(|| name.clone()),
                value: value.clone(),
            });
            Arc::new(SecretRedactor::new(secrets))
        };
        built.entry(known).or_insert_with_key(|known| build(known)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build_redactors() -> UserRedactors {
        let secret = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let settings = SecretSettings { users: vec!["ann".to_owned()], ..SecretSettings::default() };
        UserRedactors {
            values: vec![
                secret("PIN", "483920"),
                secret("LONG", "a-long-secret-of-ann"),
                secret("OPS", "ops-secret-value-1"),
            ],
            settings: BTreeMap::from(["PIN", "LONG"].map(|name| (name.to_owned(), settings.clone()))),
            built: Mutex::default(),
        }
    }

    #[test]
    fn names_and_short_values_are_those_of_the_user() {
        let redactors = build_redactors();
        let redact = |user: &str| {
            let text = "483920 a-long-secret-of-ann ops-secret-value-1";
            redactors.redactor_for(user).redact_text(text).into_owned()
        };
        assert_eq!(redact(SHARED_USER), "${secret.PIN} ${secret.LONG} ${secret.OPS}");
        assert_eq!(redact("ann"), "${secret.PIN} ${secret.LONG} ${secret}");
        assert_eq!(redact("bob"), "483920 ${secret} ${secret}");
        assert_eq!(redact("eve"), redact("bob"));
        assert_eq!(redactors.built.lock().len(), 3);
    }
}
