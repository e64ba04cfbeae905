//! Who calls: API keys and what they allow.

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

/// What every key begins with, so that secret scanners know it.
const PREFIX: &str = "fl_";

/// What a key allows. Each allows what stands before it, too, but for `run`, which does not need `read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
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
    pub(crate) const ALL: [Scope; 4] = [Scope::Read, Scope::Run, Scope::Write, Scope::Admin];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }

    /// Reads `read,run`.
    pub(crate) fn parse(text: &str) -> Result<Vec<Scope>, StepError> {
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

/// 256 random bits of the system's, as 64 hex digits.
pub(super) fn random() -> String {
    let mut bytes = [0; 32];
    // A system without random bytes has no safe keys, and starts no runs either.
    getrandom::fill(&mut bytes).unwrap_or_else(|error| panic!("the system gives no random bytes: {error}"));
    hex(&bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is kept of a secret.
pub(super) fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// Who calls, and what they may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The user on whose behalf the call is made; `None` for a key that may act for any.
    pub(crate) user: Option<String>,
    /// The id of the key.
    pub(super) key: Option<Arc<str>>,
    scopes: Vec<Scope>,
}

impl Caller {
    /// Whoever uses this process itself.
    pub(crate) fn own(user: &str) -> Caller {
        Caller { user: Some(user.to_owned()), ..Caller::anyone() }
    }

    /// Who calls a server that asks for no key.
    fn anyone() -> Caller {
        Caller { user: None, key: None, scopes: vec![Scope::Admin] }
    }

    /// Refuses a caller who lacks a scope.
    pub(crate) fn may(&self, scope: Scope) -> Result<(), Problem> {
        let allows =
            |held: &Scope| *held == scope || *held == Scope::Admin || (scope == Scope::Read && *held == Scope::Write);
        match self.scopes.iter().any(allows) {
            true => Ok(()),
            false => Err(Problem::new(Code::ScopeMissing, format!("this needs a key with the scope {}", scope.name()))),
        }
    }

    /// Whose objects the call makes.
    pub(crate) fn holder(&self) -> &str {
        self.user.as_deref().unwrap_or("local")
    }

    /// On whose behalf the call is made, which says `named`: a key that belongs to a user is that user's.
    pub(crate) fn acts_for(&self, named: Option<String>) -> Result<String, Problem> {
        match (&self.user, named) {
            (Some(user), Some(other)) if *user != other => Err(Problem::not_there("user", &other)),
            (Some(user), _) => Ok(user.clone()),
            (None, other) => Ok(other.unwrap_or_else(|| self.holder().to_owned())),
        }
    }

    /// Whether an object of `holder` is the caller's.
    pub(crate) fn owns(&self, holder: &str) -> bool {
        self.user.as_deref().is_none_or(|user| user == holder)
    }
}

impl FromRequestParts<Arc<Server>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Arc<Server>) -> Result<Caller, Problem> {
        // The guard has asked already.
        if let Some(known) = parts.extensions.get::<Caller>() {
            return Ok(known.clone());
        }
        let peer = parts.extensions.get().map(|ConnectInfo::<SocketAddr>(peer)| Who::Address(peer.ip()));
        let given = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|text| text.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
        match given {
            // What is compared is a hash of 244 random bits, looked up by an index: its time says nothing of the key.
            Some(secret) => match server.app.store.key(&hash(secret))? {
                Some(row) => {
                    let key = Some(row.id.as_str().into());
                    server.rates.take(Who::Key(row.id))?;
                    Ok(Caller { user: row.holder, key, scopes: Scope::parse(&row.scopes)? })
                }
                // Who has no good key is counted by address, so that nobody tries many.
                None => {
                    peer.map_or(Ok(()), |peer| server.rates.take(peer))?;
                    // Clients of other systems send some key always. One that looks like ours was meant to be one.
                    if server.is_open && !secret.starts_with(PREFIX) {
                        return Ok(Caller::anyone());
                    }
                    Err(Problem::new(Code::KeyUnknown, "the key is not known, or was revoked"))
                }
            },
            None => {
                peer.map_or(Ok(()), |peer| server.rates.take(peer))?;
                match server.is_open {
                    true => Ok(Caller::anyone()),
                    false => Err(Problem::new(Code::KeyMissing, "give a key: Authorization: Bearer fl_…")),
                }
            }
        }
    }
}
