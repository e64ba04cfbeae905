//! API keys: what they allow, and how one is made and rotated.

use flowloom_store::{KeyRotation, KeyRow, SHARED_USER};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Prefix of API keys, for secret scanners.
pub const PREFIX: &str = "fl_";

/// A scope has an unknown name.
#[derive(Debug, thiserror::Error)]
#[error("unknown scope {0:?}; expected read, run, write or admin")]
pub struct UnknownScope(String);

/// Maximum length of the name of a key, in characters.
const MAX_NAME_CHARS: usize = 256;

/// Why a key cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum InvalidKey {
    /// It was to act for the user who has what all users share.
    #[error(
        "a key cannot act for the user {SHARED_USER}: the definitions of this user are the operator's own and shared with \
         everyone; leave out the user for a key of the operator, or name another user"
    )]
    SharedUser,
    /// Its name does not identify it.
    #[error("the name of a key has 1 to {MAX_NAME_CHARS} characters and no control characters")]
    Name,
    /// It permits nothing.
    #[error("a key needs at least one scope: read, run, write or admin")]
    NoScope,
}

/// Permission of a key. `write` includes `read`; `admin` includes everything; `run` does not include `read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Looking.
    Read,
    /// Start runs and answer their questions.
    Run,
    /// Change workflows.
    Write,
    /// All permissions.
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

    /// Parses a list such as `read,run`. Fails with `UsageInvalid`.
    pub fn parse(text: &str) -> Result<Vec<Scope>, UnknownScope> {
        let scope = |name: &str| {
            Scope::ALL.into_iter().find(|scope| scope.name() == name).ok_or_else(|| UnknownScope(name.to_owned()))
        };
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(scope).collect()
    }
}

/// A key to create.
pub struct NewKey {
    /// The name given by the person who created the key.
    pub name: String,
    /// The scopes that the key has.
    pub scopes: Vec<Scope>,
    /// The user it acts for; `None` for any user.
    pub user: Option<String>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at: Option<u64>,
}

impl NewKey {
    /// Creates the key. Returns the secret and the row to store, which contains only its hash. Fails if it has no
    /// proper name, permits nothing, or is for the user [`SHARED_USER`].
    pub fn create(self, now_ms: u64) -> Result<(String, KeyRow), InvalidKey> {
        let is_name = !self.name.trim().is_empty()
            && self.name.chars().count() <= MAX_NAME_CHARS
            && !self.name.chars().any(char::is_control);
        match () {
            () if !is_name => return Err(InvalidKey::Name),
            () if self.scopes.is_empty() => return Err(InvalidKey::NoScope),
            () if self.user.as_deref() == Some(SHARED_USER) => return Err(InvalidKey::SharedUser),
            () => {}
        }
        let secret = random_secret();
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.name()).collect();
        let row = KeyRow {
            id: uuid::Uuid::now_v7().to_string(),
            hash: hash_secret(&secret),
            name: self.name,
            scopes: scopes.join(","),
            user: self.user,
            created_at: now_ms,
            expires_at: self.expires_at,
            ..KeyRow::default()
        };
        Ok((secret, row))
    }
}

/// A new secret for a key, and the change to store. The present secret works until `old_until`.
pub fn rotate_secret(old_until: u64, expires_at: Option<u64>) -> (String, KeyRotation) {
    let secret = random_secret();
    let rotation = KeyRotation { hash: hash_secret(&secret), old_until, expires_at };
    (secret, rotation)
}

fn random_secret() -> String {
    format!("{PREFIX}{}", random_hex())
}

/// 256 random bits from the operating system, as 64 hex digits.
pub fn random_hex() -> String {
    let mut bytes = [0; 32];
    // Without random bytes there are no safe keys, and no runs can be started either.
    getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("the system gives no random bytes: {error}"));
    encode_hex(&bytes)
}

fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The stored hash of a secret.
pub fn hash_secret(secret: &str) -> String {
    encode_hex(&Sha256::digest(secret.as_bytes()))
}
