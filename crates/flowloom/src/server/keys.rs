//! API keys: authentication of callers, and scopes.

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_store::KeyRow;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::net::SocketAddr;
use std::sync::Arc;

use super::Server;
use super::problem::Problem;
use super::rate::Who;

/// Prefix of API keys, for secret scanners.
const PREFIX: &str = "fl_";

/// Permission of a key. `write` includes `read`; `admin` includes everything; `run` does not include `read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// Read everything.
    Read,
    /// Start runs and answer their questions.
    Run,
    /// Change workflows.
    Write,
    /// All permissions.
    Admin,
}

impl Scope {
    pub(crate) const ALL: [Scope; 4] = [Scope::Read, Scope::Run, Scope::Write, Scope::Admin];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }

    /// Parses a list such as `read,run`. Fails with `UsageInvalid`.
    pub(crate) fn parse(text: &str) -> Result<Vec<Scope>, StepError> {
        let scope = |name: &str| {
            Scope::ALL.into_iter().find(|scope| scope.name() == name).ok_or_else(|| {
                StepError::new(
                    Code::UsageInvalid,
                    format!("unknown scope {name:?}; expected read, run, write or admin"),
                )
            })
        };
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(scope).collect()
    }
}

/// Creates a key. Returns the secret and the row to store, which contains only its hash.
pub(crate) fn create(name: &str, scopes: &[Scope], holder: Option<String>, now_ms: u64) -> (String, KeyRow) {
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

/// 256 random bits from the operating system, as 64 hex digits.
pub(super) fn random() -> String {
    let mut bytes = [0; 32];
    // Without random bytes there are no safe keys, and no runs can be started either.
    getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("the system gives no random bytes: {error}"));
    hex(&bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The stored hash of a secret.
pub(super) fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// The authenticated caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The user on whose behalf the request is made; `None` for a key that may act for any user.
    pub(crate) user: Option<String>,
    /// Id of the API key.
    pub(super) key: Option<Arc<str>>,
    scopes: Vec<Scope>,
}

impl Caller {
    /// The caller for requests made by this process itself.
    pub(crate) fn own(user: &str) -> Caller {
        Caller { user: Some(user.to_owned()), ..Caller::anyone() }
    }

    /// The caller of a server that requires no key.
    fn anyone() -> Caller {
        Caller { user: None, key: None, scopes: vec![Scope::Admin] }
    }

    /// Fails with `ScopeMissing` if the caller lacks a scope.
    pub(crate) fn may(&self, scope: Scope) -> Result<(), Problem> {
        let allows =
            |held: &Scope| *held == scope || *held == Scope::Admin || (scope == Scope::Read && *held == Scope::Write);
        match self.scopes.iter().any(allows) {
            true => Ok(()),
            false => Err(Problem::new(
                Code::ScopeMissing,
                format!("this request requires a key with the scope {}", scope.name()),
            )),
        }
    }

    /// The user who owns objects that the request creates.
    pub(crate) fn holder(&self) -> &str {
        self.user.as_deref().unwrap_or("local")
    }

    /// Resolves the user of a request that names `named`. Fails with `NotThere` if the key belongs to another user.
    pub(crate) fn acts_for(&self, named: Option<String>) -> Result<String, Problem> {
        match (&self.user, named) {
            (Some(user), Some(other)) if *user != other => Err(Problem::not_there("user", &other)),
            (Some(user), _) => Ok(user.clone()),
            (None, other) => Ok(other.unwrap_or_else(|| self.holder().to_owned())),
        }
    }

    /// Whether the caller may access objects of the given user.
    pub(crate) fn owns(&self, holder: &str) -> bool {
        self.user.as_deref().is_none_or(|user| user == holder)
    }
}

impl FromRequestParts<Arc<Server>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<Server>) -> Result<Caller, Problem> {
        // The guard has authenticated the request already.
        if let Some(known) = parts.extensions.get::<Caller>() {
            return Ok(known.clone());
        }
        let peer = parts.extensions.get().map(|ConnectInfo::<SocketAddr>(peer)| Who::Address(peer.ip()));
        let given = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|text| text.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
        match given {
            // The lookup compares hashes of 256 random bits through an index; its timing reveals nothing about the key.
            Some(secret) => match server.app.store.key(&hash(secret))? {
                Some(row) => {
                    let key = Some(row.id.as_str().into());
                    server.rates.take(Who::Key(row.id))?;
                    Ok(Caller { user: row.holder, key, scopes: Scope::parse(&row.scopes)? })
                }
                // Requests without a valid key are counted by address, which limits guessing.
                None => {
                    peer.map_or(Ok(()), |peer| server.rates.take(peer))?;
                    // Clients of other systems always send some key. A key with our prefix was meant to be valid.
                    if server.is_open && !secret.starts_with(PREFIX) {
                        return Ok(Caller::anyone());
                    }
                    Err(Problem::new(Code::KeyUnknown, "the API key is unknown or revoked"))
                }
            },
            None => {
                peer.map_or(Ok(()), |peer| server.rates.take(peer))?;
                match server.is_open {
                    true => Ok(Caller::anyone()),
                    false => Err(Problem::new(Code::KeyMissing, "an API key is required: Authorization: Bearer fl_…")),
                }
            }
        }
    }
}
