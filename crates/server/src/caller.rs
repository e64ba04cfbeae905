//! Who calls: API keys and what they allow.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use flowloom_app::keys::{PREFIX, Scope, hash};
use flowloom_core::code::Code;

use crate::problem::Problem;
use crate::rate::Who;
use crate::state::Server;

/// Who calls, and what they may do.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The user on whose behalf the call is made; `None` for a key that may act for any.
    pub(crate) user: Option<String>,
    /// The id of the key.
    pub(crate) key: Option<Arc<str>>,
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

impl FromRequestParts<Server> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Caller, Problem> {
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
