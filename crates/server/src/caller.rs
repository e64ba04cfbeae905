//! API keys: authentication of callers, and scopes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath};
use axum::http::HeaderName;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use flowloom_app::keys::{PREFIX, Scope, hash_secret};
use flowloom_app::user_names::check_user_name;
use flowloom_core::code::Code;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;
use flowloom_store::{Actor, KeyRow, SHARED_USER};

use crate::metrics::METRICS_PATH;
use crate::peer::PeerOwner;
use crate::problem::Problem;
use crate::rate::RateKey;
use crate::state::Server;

/// Headers that a proxy adds, in addition to all that begin with `x-forwarded-`. Who made the request that it forwards
/// is not known.
const PROXY_HEADERS: [&str; 8] = [
    "forwarded",
    "via",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
];

/// Whether a proxy adds a header with this name.
fn is_of_proxy(name: &HeaderName) -> bool {
    name.as_str().starts_with("x-forwarded-") || PROXY_HEADERS.contains(&name.as_str())
}

/// The key with a secret; `None` if there is none. During an outage of the database, a key that has read the metrics before
/// may continue to do so.
fn find_key(parts: &Parts, server: &Server, secret_hash: &str) -> Result<Option<KeyRow>, Problem> {
    let found = server.host.app.store.get_key(secret_hash);
    if parts.extensions.get::<MatchedPath>().is_none_or(|route| route.as_str() != METRICS_PATH) {
        return Ok(found?);
    }
    match found {
        Ok(row) => {
            server.metrics_keys.update_key(secret_hash, row.as_ref());
            Ok(row)
        }
        Err(error) if error.code().is_store_outage() => match server.metrics_keys.find_key(secret_hash) {
            None => Err(error.into()),
            known => Ok(known),
        },
        Err(error) => Err(error.into()),
    }
}

/// The authenticated caller of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The user on whose behalf the request is made; `None` for a key that may act for any user.
    pub(crate) user: Option<String>,
    /// The API key.
    pub(crate) key: Option<UsedKey>,
    /// Address of the client; `None` for requests made by this process itself.
    peer: Option<IpAddr>,
    scopes: Vec<Scope>,
}

/// The API key of a request.
#[derive(Clone, Debug)]
pub(crate) struct UsedKey {
    id: String,
    name: String,
    /// Hash of the secret that the request contained. A key may have two secrets for a time.
    pub(crate) secret_hash: Arc<str>,
}

impl UsedKey {
    /// Id of the key.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The name of the key.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Caller {
    /// The caller for requests made by this process itself.
    pub(crate) fn local(user: &str) -> Caller {
        Caller { user: Some(user.to_owned()), ..Caller::anonymous() }
    }

    /// The caller of a server that requires no key.
    fn anonymous() -> Caller {
        Caller { user: None, key: None, peer: None, scopes: vec![Scope::Admin] }
    }

    /// The caller of a server without keys. Fails with `PeerRefused` unless it is the server's user or root, on this
    /// machine and not through a proxy.
    fn without_key(parts: &Parts) -> Result<Caller, Problem> {
        let forwards = parts.headers.keys().find(|name| is_of_proxy(name));
        let is_trusted = parts.extensions.get::<PeerOwner>().is_some_and(|owner| owner.is_trusted());
        let why = match (forwards, is_trusted) {
            (None, true) => return Ok(Caller::anonymous()),
            (Some(name), _) => format!("the header {name} shows that a proxy forwards this request"),
            (None, false) => "this request does not come from the server's user or from root".to_owned(),
        };
        let fix = "create a key with flowloom keys create, restart the server, and send the key as \
                   Authorization: Bearer fl_…";
        Err(Problem::new(Code::PeerRefused, format!("{why}, and the server has no API keys; {fix}")))
    }

    /// The caller who has the secret of a key, unless the secret has expired.
    fn with_key(server: &Server, row: KeyRow, hash: String) -> Result<Caller, Problem> {
        let now = SystemClock.now_ms();
        if row.is_expired(now) {
            let message = format!("the API key {} has expired; create a new one with flowloom keys create", row.id);
            return Err(Problem::new(Code::KeyExpired, message));
        }
        if !row.accepts(&hash, now) {
            return Err(unknown_key());
        }
        server.key_uses.record_use(&server.host.app.store, &row, now);
        let scopes = Scope::parse(&row.scopes)?;
        server.rates.take_token(RateKey::Key(row.id.clone()))?;
        let key = UsedKey { id: row.id, name: row.name, secret_hash: hash.into() };
        Ok(Caller { user: row.user, key: Some(key), peer: None, scopes })
    }

    /// The caller as the audit log names it.
    pub(crate) fn to_actor(&self) -> Actor {
        let key = self.key.as_ref();
        let source = match (self.peer, key) {
            (None, None) => return Actor::command_line(),
            (peer, _) => peer.map_or_else(|| "server".to_owned(), |peer| peer.to_string()),
        };
        let (key_id, key_name) = (key.map(|key| key.id.clone()), key.map(|key| key.name.clone()));
        Actor { key_id, key_name, user: self.user.clone(), source }
    }

    /// Authenticates the caller of a request from an address.
    fn identify_caller(parts: &Parts, server: &Server, address: Option<IpAddr>) -> Result<Caller, Problem> {
        let peer = address.map(RateKey::of_address);
        let given = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|text| text.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, key)| key.trim());
        match given {
            Some(secret) => {
                let hash = hash_secret(secret);
                // The lookup compares hashes of 256 random bits through an index; its timing reveals nothing about the key.
                if let Some(row) = find_key(parts, server, &hash)? {
                    return Caller::with_key(server, row, hash);
                }
                // Requests without a valid key are counted by address, which limits guessing.
                peer.map_or(Ok(()), |peer| server.rates.take_token(peer))?;
                // Clients of other systems always send some key. A key with our prefix was meant to be valid.
                match server.is_open && !secret.starts_with(PREFIX) {
                    true => Caller::without_key(parts),
                    false => Err(unknown_key()),
                }
            }
            None => {
                peer.map_or(Ok(()), |peer| server.rates.take_token(peer))?;
                match server.is_open {
                    true => Caller::without_key(parts),
                    false => Err(Problem::new(Code::KeyMissing, "an API key is required: Authorization: Bearer fl_…")),
                }
            }
        }
    }

    /// Fails with `ScopeMissing` if the caller lacks a scope.
    pub(crate) fn require_scope(&self, scope: Scope) -> Result<(), Problem> {
        // Such a key was created by an earlier version. What it stored would be the operator's own.
        let is_shared = self.key.is_some() && self.user.as_deref() == Some(SHARED_USER);
        if is_shared && matches!(scope, Scope::Write | Scope::Admin) {
            let message = format!(
                "this key acts for the user {SHARED_USER}, whose definitions are shared with everyone, so it can only read and \
                 run; create a key without a user for the operator, or with another user"
            );
            return Err(Problem::new(Code::ScopeMissing, message));
        }
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

    /// Fails with `ScopeMissing` if the caller lacks a scope, or acts for one user: `purpose` concerns all of them.
    pub(crate) fn require_scope_for_all(&self, scope: Scope, purpose: &str) -> Result<(), Problem> {
        self.require_scope(scope)?;
        match &self.user {
            None => Ok(()),
            Some(user) => Err(Problem::new(
                Code::ScopeMissing,
                format!("this key acts for {user}; use one without a user to {purpose}"),
            )),
        }
    }

    /// The user who owns objects that the request creates.
    pub(crate) fn user_id(&self) -> &str {
        self.user.as_deref().unwrap_or(SHARED_USER)
    }

    /// The user to whom definitions in the caller's requests belong: each caller with a key is a tenant. `None` for the
    /// operator, who needs none.
    pub(crate) fn tenant(&self) -> Option<String> {
        self.key.as_ref().map(|_| self.user_id().to_owned())
    }

    /// Resolves the user of a request that names `named`. Fails with `NotThere` if the key belongs to another user.
    pub(crate) fn resolve_user(&self, named: Option<String>) -> Result<String, Problem> {
        match (&self.user, named) {
            (Some(user), Some(other)) if *user != other => Err(Problem::not_found("user", &other)),
            (Some(user), _) => Ok(user.clone()),
            (None, Some(other)) => check_named_user(&other),
            (None, None) => Ok(self.user_id().to_owned()),
        }
    }

    /// The user whose objects a list contains; `None` for those of all users. Fails if the caller may not act for `named`.
    pub(crate) fn select_user(&self, named: Option<String>) -> Result<Option<String>, Problem> {
        match named {
            Some(named) => self.resolve_user(Some(named)).map(Some),
            None => Ok(self.user.clone()),
        }
    }

    /// Whether the caller may access objects of the given user.
    pub(crate) fn can_access(&self, user: &str) -> bool {
        self.user.as_deref().is_none_or(|own| own == user)
    }
}

/// The name of a user whom a request names. Fails with `RequestInvalid` if it cannot be one.
pub(crate) fn check_named_user(name: &str) -> Result<String, Problem> {
    check_user_name(name).map_err(|error| Problem::new(Code::RequestInvalid, error.to_string()))
}

fn unknown_key() -> Problem {
    Problem::new(Code::KeyUnknown, "the API key is unknown or revoked")
}

impl FromRequestParts<Server> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Caller, Problem> {
        // The guard has authenticated the request already.
        if let Some(known) = parts.extensions.get::<Caller>() {
            return Ok(known.clone());
        }
        let address = parts.extensions.get().map(|ConnectInfo::<SocketAddr>(peer)| peer.ip());
        let caller = Caller::identify_caller(parts, server, address)?;
        Ok(Caller { peer: address, ..caller })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_of_the_shared_user_changes_nothing() {
        let key = |user: &str| Caller {
            user: Some(user.to_owned()),
            key: Some(UsedKey { id: "k".to_owned(), name: "k".to_owned(), secret_hash: "h".into() }),
            peer: None,
            scopes: vec![Scope::Run, Scope::Write],
        };
        let allowed = |caller: &Caller| [Scope::Run, Scope::Write].map(|scope| caller.require_scope(scope).is_ok());
        assert_eq!((allowed(&key("ann")), allowed(&key(SHARED_USER))), ([true, true], [true, false]));
        assert!(Caller::local(SHARED_USER).require_scope(Scope::Write).is_ok());
    }
}
