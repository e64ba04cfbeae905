//! Webhooks: addresses that start a run when they are called.

use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::HookRow;

use crate::keys::{hash, random};

/// What every generated secret begins with, so that secret scanners know it.
const PREFIX: &str = "flh_";

/// A hook as the store keeps it, and its secret if one is made.
pub fn row(holder: String, id: String, workflow: String, secret_name: Option<String>) -> (HookRow, Option<String>) {
    let secret = secret_name.is_none().then(|| format!("{PREFIX}{}", random()));
    let secret_hash = secret.as_deref().map(hash);
    (HookRow { id, holder, workflow, secret_hash, secret_name, created_at: SystemClock.now_ms() }, secret)
}
