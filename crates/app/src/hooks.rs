//! Webhooks: addresses that start a run when they are called.

use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::HookRow;

use crate::keys::{hash_secret, random_hex};

/// Prefix of generated secrets, for secret scanners.
const PREFIX: &str = "flh_";

/// Builds the stored form of a webhook, and the generated secret, if any.
pub fn new_hook_row(
    user: String,
    id: String,
    workflow: String,
    secret_name: Option<String>,
) -> (HookRow, Option<String>) {
    let secret = secret_name.is_none().then(|| format!("{PREFIX}{}", random_hex()));
    let secret_hash = secret.as_deref().map(hash_secret);
    (HookRow { id, user, workflow, secret_hash, secret_name, created_at: SystemClock.now_ms() }, secret)
}
