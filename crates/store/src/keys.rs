//! API keys. Only the hash of a key's secret is stored, so read access to the database does not allow calling the server.

use serde_json::json;

use crate::audit::{Actor, AuditAction, AuditedChange, DONE};
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::store::Store;

/// An API key as listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRow {
    /// Id of the key; not secret.
    pub id: String,
    /// SHA-256 of its secret, in hex.
    pub hash: String,
    /// Purpose of the key.
    pub name: String,
    /// Scopes, separated by commas.
    pub scopes: String,
    /// User it acts for; `None` if it may act for any user.
    pub user: Option<String>,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// Revocation time, in milliseconds since the Unix epoch.
    pub revoked_at: Option<u64>,
    /// Time from which it is no longer valid, in milliseconds since the Unix epoch.
    pub expires_at: Option<u64>,
    /// Time of the last recorded use, in milliseconds since the Unix epoch.
    pub last_used_at: Option<u64>,
    /// The secret before the last rotation.
    pub old_secret: Option<OldSecret>,
}

/// A secret that was replaced and still works for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSecret {
    /// SHA-256 of the secret, in hex.
    pub hash: String,
    /// Time from which it is no longer valid, in milliseconds since the Unix epoch.
    pub until: u64,
}

impl KeyRow {
    /// Whether the key has expired at the time `now`, in milliseconds since the Unix epoch.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Whether a secret with this hash authenticates at the time `now`.
    pub fn accepts(&self, hash: &str, now: u64) -> bool {
        let is_old = || self.old_secret.as_ref().is_some_and(|old| old.hash == hash && now < old.until);
        self.revoked_at.is_none() && !self.is_expired(now) && (self.hash == hash || is_old())
    }
}

/// A new secret for a key.
#[derive(Clone, Debug)]
pub struct KeyRotation {
    /// SHA-256 of the new secret, in hex.
    pub hash: String,
    /// Time until which the old secret works, in milliseconds since the Unix epoch.
    pub old_until: u64,
    /// The new expiry time, in milliseconds since the Unix epoch; `None` keeps the present one.
    pub expires_at: Option<u64>,
}

const KEY_COLUMNS: &str =
    "id, hash, name, scopes, user_id, created_at, revoked_at, expires_at, last_used_at, old_hash, old_until";

impl Store {
    /// Stores a new key. Fails if there is a key with this id or secret, or if the database cannot be written.
    pub async fn put_key(&self, key: KeyRow, by: &Actor) -> Result<(), StoreError> {
        let change = key_change(AuditAction::CreateKey, &key.id, key.user.clone());
        let change = change.with_detail(json!({"name": key.name, "scopes": key.scopes, "expires_at": key.expires_at}));
        let (attempted, actor, at) = (vec![change.clone()], by.clone(), key.created_at);
        let insert = move |connection: &DbConnection| {
            let sql = "insert into api_key (id, hash, name, scopes, user_id, created_at, expires_at) \
                       values ($1, $2, $3, $4, $5, $6, $7)";
            let KeyRow { id, hash, name, scopes, user, created_at, expires_at, .. } = &key;
            let expires_at = expires_at.map(|at| at as i64);
            connection.execute_unchecked(sql, params![id, hash, name, scopes, user, *created_at, expires_at])?;
            change.record_entry(connection, &actor, at, DONE)
        };
        self.submit_audited(Box::new(insert), attempted, by, at).await
    }

    /// All keys, oldest first, including revoked and expired ones. Fails if the database cannot be read.
    pub fn list_keys(&self) -> Result<Vec<KeyRow>, StoreError> {
        let sql = format!("select {KEY_COLUMNS} from api_key order by created_at, id");
        self.read_with(|db| db.query_rows(&sql, &[], parse_key_row))
    }

    /// Whether servers that start now require a key: an expired key counts, a revoked one does not. Fails if the
    /// database cannot be read.
    pub fn requires_key(&self) -> Result<bool, StoreError> {
        Ok(self.list_keys()?.iter().any(|key| key.revoked_at.is_none()))
    }

    /// The key with this secret, by its hash, unless it was revoked. It may have expired; see [`KeyRow::accepts`].
    /// Fails if the database cannot be read.
    pub fn get_key(&self, hash: &str) -> Result<Option<KeyRow>, StoreError> {
        let sql =
            format!("select {KEY_COLUMNS} from api_key where (hash = $1 or old_hash = $1) and revoked_at is null");
        self.read_with(|db| db.query_first(&sql, params![hash], parse_key_row))
    }

    /// The key with this id or name that was not revoked. Fails with `KeyUnknown`, or with `UsageInvalid` if several
    /// have the name.
    pub fn find_key(&self, named: &str) -> Result<KeyRow, StoreError> {
        let mut keys = self.list_keys()?;
        keys.retain(|key| key.revoked_at.is_none() && (key.id == named || key.name == named));
        if keys.len() > 1 {
            let ids = keys.into_iter().map(|key| key.id).collect();
            return Err(StoreError::KeyAmbiguous { name: named.to_owned(), ids });
        }
        keys.pop().ok_or_else(|| StoreError::KeyNotFound(named.to_owned()))
    }

    /// Revokes a key. Fails with `KeyUnknown` if there is no unrevoked key with this id.
    pub async fn revoke_key(&self, id: &str, by: &Actor, at: u64) -> Result<(), StoreError> {
        self.change_key(id, AuditAction::RevokeKey, by, at, move |connection, id| {
            let sql = "update api_key set revoked_at = $1 where id = $2 and revoked_at is null";
            connection.execute_required(sql, params![at, id], StoreError::KeyNotFound(id.to_owned()))
        })
        .await
    }

    /// Gives a key a new secret. The present one works until `old_until`; one that was replaced before works no longer.
    /// Fails with `KeyUnknown` if there is no unrevoked key with this id.
    pub async fn rotate_key(&self, id: &str, new: KeyRotation, by: &Actor, at: u64) -> Result<(), StoreError> {
        self.change_key(id, AuditAction::RotateKey, by, at, move |connection, id| {
            let sql = "update api_key set old_hash = hash, old_until = $1, hash = $2, \
                       expires_at = coalesce($3, expires_at) where id = $4 and revoked_at is null";
            let expires_at = new.expires_at.map(|at| at as i64);
            let missing = StoreError::KeyNotFound(id.to_owned());
            connection.execute_required(sql, params![new.old_until, &new.hash, expires_at, id], missing)
        })
        .await
    }

    /// Changes the key with this id and records the change.
    async fn change_key(
        &self,
        id: &str,
        action: AuditAction,
        by: &Actor,
        at: u64,
        change: impl Fn(&DbConnection, &str) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), StoreError> {
        let (id, actor) = (id.to_owned(), by.clone());
        let attempted = vec![key_change(action, &id, None)];
        let job = move |connection: &DbConnection| {
            change(connection, &id)?;
            let sql = "select user_id from api_key where id = $1";
            let owner: Option<Option<String>> = connection.query_first(sql, params![&id], |row| row.get(0))?;
            key_change(action, &id, owner.flatten()).record_entry(connection, &actor, at, DONE)
        };
        self.submit_audited(Box::new(job), attempted, by, at).await
    }

    /// Records that a key was used, in the background: no caller waits for it, and a failure is ignored.
    pub fn record_key_use(&self, id: &str, at: u64) {
        let id = id.to_owned();
        let record = move |connection: &DbConnection| {
            let sql =
                "update api_key set last_used_at = $1 where id = $2 and (last_used_at is null or last_used_at < $1)";
            connection.execute_unchecked(sql, params![at, &id])
        };
        drop(self.writer.submit_job(Box::new(record)));
    }
}

fn key_change(action: AuditAction, id: &str, owner: Option<String>) -> AuditedChange {
    AuditedChange::new(action, owner, format!("key {id}"))
}

fn parse_key_row(row: &DbRow<'_>) -> Result<KeyRow, StoreError> {
    let time = |column| Ok::<_, StoreError>(row.get::<Option<i64>>(column)?.map(|at| at as u64));
    let (old_hash, old_until): (Option<String>, _) = (row.get(9)?, time(10)?);
    Ok(KeyRow {
        id: row.get(0)?,
        hash: row.get(1)?,
        name: row.get(2)?,
        scopes: row.get(3)?,
        user: row.get(4)?,
        created_at: row.get_count(5)?,
        revoked_at: time(6)?,
        expires_at: time(7)?,
        last_used_at: time(8)?,
        old_secret: old_hash.zip(old_until).map(|(hash, until)| OldSecret { hash, until }),
    })
}
