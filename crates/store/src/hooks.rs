//! Webhooks: addresses that start a run when they are called. Of a secret, only its hash or its name is stored.

use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::store::Store;

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRow {
    /// Id of the hook, part of its address.
    pub id: String,
    /// User that owns the runs it starts.
    pub user: String,
    /// Id of the workflow.
    pub workflow: String,
    /// SHA-256 of the secret that callers send, in hex.
    pub secret_hash: Option<String>,
    /// Name of the secret that callers sign requests with.
    pub secret_name: Option<String>,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: u64,
}

const HOOK_COLUMNS: &str = "id, user_id, workflow, secret_hash, secret_name, created_at";

impl Store {
    /// Creates or replaces the hook with this id. Fails with `NotThere` if the id belongs to another user.
    pub async fn put_hook(&self, new: HookRow) -> Result<(), StoreError> {
        let put = move |connection: &DbConnection| {
            let HookRow { id, user, workflow, secret_hash, secret_name, created_at } = &new;
            let sql = "insert into hook values ($1, $2, $3, $4, $5, $6) on conflict (id) do update set \
                       workflow = excluded.workflow, secret_hash = excluded.secret_hash, \
                       secret_name = excluded.secret_name where hook.user_id = excluded.user_id";
            connection.execute_required(
                sql,
                params![id, user, workflow, secret_hash, secret_name, *created_at],
                hook_not_found(id),
            )
        };
        self.writer.submit_job(Box::new(put)).await
    }

    /// The hooks of one user, or of all users, ordered by id.
    pub fn list_hooks(&self, user: Option<&str>) -> Result<Vec<HookRow>, StoreError> {
        let sql = format!("select {HOOK_COLUMNS} from hook where (user_id = $1 or $1 is null) order by id");
        self.read_with(|db| db.query_rows(&sql, params![user], parse_hook_row))
    }

    /// The hook with this id, if it exists.
    pub fn get_hook(&self, id: &str) -> Result<Option<HookRow>, StoreError> {
        let sql = format!("select {HOOK_COLUMNS} from hook where id = $1");
        self.read_with(|db| db.query_first(&sql, params![id], parse_hook_row))
    }

    /// Deletes a hook. Fails with `NotThere` if the user has no hook with this id.
    pub async fn delete_hook(&self, user: &str, id: &str) -> Result<(), StoreError> {
        let (user, id) = (user.to_owned(), id.to_owned());
        let delete = move |connection: &DbConnection| match connection
            .execute_sql("delete from hook where user_id = $1 and id = $2", params![&user, &id])?
        {
            0 => Err(hook_not_found(&id)),
            _ => Ok(()),
        };
        self.writer.submit_job(Box::new(delete)).await
    }
}

fn parse_hook_row(row: &DbRow<'_>) -> Result<HookRow, StoreError> {
    Ok(HookRow {
        id: row.get(0)?,
        user: row.get(1)?,
        workflow: row.get(2)?,
        secret_hash: row.get(3)?,
        secret_name: row.get(4)?,
        created_at: row.get_count(5)?,
    })
}

fn hook_not_found(id: &str) -> StoreError {
    StoreError::NotFound { kind: "hook", id: id.to_owned() }
}
