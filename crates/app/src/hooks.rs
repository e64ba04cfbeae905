//! Webhooks: addresses that start a run when they are called.

use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::HookRow;
use flowloom_tools::ToolError;

use crate::config::Config;
use crate::error::AppError;
use crate::keys::{hash_secret, random_hex};
use crate::secrets::check_webhook_secret;

/// Prefix of generated secrets, for secret scanners.
const PREFIX: &str = "flh_";

/// A webhook to create.
pub struct NewHook {
    /// Its user.
    pub user: String,
    /// Its id.
    pub id: String,
    /// The workflow that it starts.
    pub workflow: String,
    /// The name of the secret with which callers sign; without one, a secret is generated that callers send.
    pub secret_name: Option<String>,
}

impl NewHook {
    /// Builds the stored form of the webhook, and the generated secret, if any. Fails if webhooks of its user may not
    /// use the secret that it names.
    pub fn into_row(self, config: &Config) -> Result<(HookRow, Option<String>), AppError> {
        let NewHook { user, id, workflow, secret_name } = self;
        if let Some(name) = &secret_name {
            check_webhook_secret(config, &user, name).map_err(ToolError::from)?;
        }
        let secret = secret_name.is_none().then(|| format!("{PREFIX}{}", random_hex()));
        let secret_hash = secret.as_deref().map(hash_secret);
        Ok((HookRow { id, user, workflow, secret_hash, secret_name, created_at: SystemClock.now_ms() }, secret))
    }
}
