//! API keys: what they allow, and how one is made.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_store::KeyRow;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What every key begins with, so that secret scanners know it.
pub const PREFIX: &str = "fl_";

/// What a key allows. Each allows what stands before it, too, but for `run`, which does not need `read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Looking.
    Read,
    /// Starting runs, and answering them.
    Run,
    /// Changing workflows.
    Write,
    /// Everything.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 4] = [Scope::Read, Scope::Run, Scope::Write, Scope::Admin];

    /// Its name, as `Scope::parse` reads it.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }

    /// Reads `read,run`.
    pub fn parse(text: &str) -> Result<Vec<Scope>, StepError> {
        let scope = |name: &str| {
            Scope::ALL.into_iter().find(|scope| scope.name() == name).ok_or_else(|| {
                StepError::new(
                    Code::UsageInvalid,
                    format!("there is no scope {name:?}; there are read, run, write and admin"),
                )
            })
        };
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(scope).collect()
    }
}

/// A new key and what is kept of it.
pub fn create(name: &str, scopes: &[Scope], holder: Option<String>, now_ms: u64) -> (String, KeyRow) {
    let secret = format!("{PREFIX}{}", random());
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.name()).collect();
    let row = KeyRow {
        id: uuid::Uuid::now_v7().to_string(),
        hash: hash(&secret),
        name: name.to_owned(),
        scopes: scopes.join(","),
        holder,
        created_at: now_ms,
        revoked_at: None,
    };
    (secret, row)
}

/// 256 random bits of the system's, as 64 hex digits.
pub fn random() -> String {
    let mut bytes = [0; 32];
    // A system without random bytes has no safe keys, and starts no runs either.
    getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("the system gives no random bytes: {error}"));
    hex(&bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is kept of a secret.
pub fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}
