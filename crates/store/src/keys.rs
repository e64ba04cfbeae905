//! API keys. Only the hash of a key is stored, so read access to the database does not allow calling the server.

use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::store::Store;

/// An API key as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// Id of the key; not secret.
    pub id: String,
    /// SHA-256 of the key, in hex.
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
}

const KEY_COLUMNS: &str = "id, hash, name, scopes, user_id, created_at, revoked_at";

impl Store {
    /// Stores a new key.
    pub async fn put_key(&self, key: KeyRow) -> Result<(), StoreError> {
        let insert = move |connection: &DbConnection| {
            let sql = "insert into api_key values ($1, $2, $3, $4, $5, $6, null)";
            let params = params![&key.id, &key.hash, &key.name, &key.scopes, &key.user, key.created_at];
            connection.execute_unchecked(sql, params)
        };
        self.writer.submit_job(Box::new(insert)).await
    }

    /// All keys, oldest first, including revoked ones.
    pub fn list_keys(&self) -> Result<Vec<KeyRow>, StoreError> {
        let sql = format!("select {KEY_COLUMNS} from api_key order by created_at, id");
        self.read_with(|db| db.query_rows(&sql, &[], parse_key_row))
    }

    /// The key with this hash, unless it was revoked.
    pub fn get_key(&self, hash: &str) -> Result<Option<KeyRow>, StoreError> {
        let sql = format!("select {KEY_COLUMNS} from api_key where hash = $1 and revoked_at is null");
        self.read_with(|db| db.query_first(&sql, params![hash], parse_key_row))
    }

    /// Revokes a key. Fails with `KeyUnknown` if there is no unrevoked key with this id.
    pub async fn revoke_key(&self, id: &str, at: u64) -> Result<(), StoreError> {
        let id = id.to_owned();
        let revoke = move |connection: &DbConnection| {
            let sql = "update api_key set revoked_at = $1 where id = $2 and revoked_at is null";
            let missing = StoreError::KeyNotFound(id.clone());
            connection.execute_required(sql, params![at, &id], missing)
        };
        self.writer.submit_job(Box::new(revoke)).await
    }
}

fn parse_key_row(row: &DbRow<'_>) -> Result<KeyRow, StoreError> {
    Ok(KeyRow {
        id: row.get(0)?,
        hash: row.get(1)?,
        name: row.get(2)?,
        scopes: row.get(3)?,
        user: row.get(4)?,
        created_at: row.get_count(5)?,
        revoked_at: row.get::<Option<i64>>(6)?.map(|at| at as u64),
    })
}
