//! Keys of a server's callers. What is kept of a key is its hash: who reads the database cannot call with it.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use rusqlite::{OptionalExtension, Row, params};

use crate::Store;
use crate::failure::failed;

/// A key as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// Its id, which is no secret.
    pub id: String,
    /// SHA-256 of the key, in hex.
    pub hash: String,
    /// What it is for.
    pub name: String,
    /// What it allows, separated by commas.
    pub scopes: String,
    /// The user it belongs to; `None` if it may act for any.
    pub holder: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created_at: u64,
    /// When it was revoked.
    pub revoked_at: Option<u64>,
}

const COLUMNS: &str = "id, hash, name, scopes, holder, created_at, revoked_at";

impl Store {
    /// Keeps a new key.
    pub async fn put_key(&self, key: KeyRow) -> Result<(), StepError> {
        let insert = move |connection: &rusqlite::Connection| {
            let sql = "insert into api_key values (?, ?, ?, ?, ?, ?, null)";
            let created = key.created_at as i64;
            connection.execute(sql, params![key.id, key.hash, key.name, key.scopes, key.holder, created])?;
            Ok(Ok(()))
        };
        self.writer.submit(Box::new(insert)).await
    }

    /// Every key, the oldest first; revoked ones too.
    pub fn keys(&self) -> Result<Vec<KeyRow>, StepError> {
        let reader = self.reader();
        let sql = format!("select {COLUMNS} from api_key order by created_at, id");
        let mut statement = reader.prepare_cached(&sql).map_err(failed)?;
        let rows = statement.query_map([], row).map_err(failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// The key with this hash, unless it was revoked.
    pub fn key(&self, hash: &str) -> Result<Option<KeyRow>, StepError> {
        let reader = self.reader();
        let sql = format!("select {COLUMNS} from api_key where hash = ? and revoked_at is null");
        let mut statement = reader.prepare_cached(&sql).map_err(failed)?;
        statement.query_row([hash], row).optional().map_err(failed)
    }

    /// Revokes a key.
    pub async fn revoke_key(&self, id: &str, at: u64) -> Result<(), StepError> {
        let id = id.to_owned();
        let revoke = move |connection: &rusqlite::Connection| {
            let sql = "update api_key set revoked_at = ? where id = ? and revoked_at is null";
            Ok(match connection.execute(sql, params![at as i64, id])? {
                0 => Err(StepError::new(Code::KeyUnknown, format!("there is no key {id} that could be revoked"))),
                _ => Ok(()),
            })
        };
        self.writer.submit(Box::new(revoke)).await
    }
}

fn row(row: &Row<'_>) -> rusqlite::Result<KeyRow> {
    Ok(KeyRow {
        id: row.get(0)?,
        hash: row.get(1)?,
        name: row.get(2)?,
        scopes: row.get(3)?,
        holder: row.get(4)?,
        created_at: row.get::<_, i64>(5)? as u64,
        revoked_at: row.get::<_, Option<i64>>(6)?.map(|at| at as u64),
    })
}
