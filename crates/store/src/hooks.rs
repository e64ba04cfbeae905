//! Webhooks: addresses that start a run when they are called. Of a secret, only its hash or its name is stored.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::audit::{Actor, AuditAction, AuditedChange};
use crate::db::{DbConnection, DbRow, Param, params};
use crate::error::StoreError;
use crate::store::Store;
use crate::users::SHARED_USER;

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

impl HookRow {
    /// The path and query of its address on a server. The secret does not distinguish two hooks whose callers sign with
    /// the same one, so the user is named.
    pub fn address(&self) -> String {
        match self.user.as_str() {
            SHARED_USER => format!("/hooks/{}", self.id),
            user => format!("/hooks/{}?user={}", self.id, utf8_percent_encode(user, QUERY_ESCAPES)),
        }
    }
}

/// The characters that are escaped in a value of a query.
const QUERY_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The end of a hook's id in the table, where the name of its user follows. Ids themselves cannot contain it.
///
/// Every user has ids of their own, so that no user learns which ids others use. Hooks from before that have keys
/// without a user; they keep them.
const USER_SEPARATOR: char = '/';

fn table_key(user: &str, id: &str) -> String {
    format!("{id}{USER_SEPARATOR}{user}")
}

impl Store {
    /// Creates or replaces a user's hook with this id. Fails if the user's data has reached its quota, or if the
    /// database cannot be written.
    pub async fn put_hook(&self, new: HookRow, by: &Actor) -> Result<(), StoreError> {
        self.check_database_quota(&new.user, 0, new.created_at)?;
        let user = self.owner_of(&new.user);
        let change = AuditedChange::new(AuditAction::PutHook, Some(new.user.clone()), format!("webhook {}", new.id));
        let change = change.with_detail(json!({"workflow": new.workflow, "is_signed": new.secret_name.is_some()}));
        let put = move |connection: &DbConnection| {
            let HookRow { id, workflow, secret_hash, secret_name, created_at, .. } = &new;
            let replaced = connection.execute_sql(
                "update hook set workflow = $1, secret_hash = $2, secret_name = $3 where id = $4 and user_id = $5",
                params![workflow, secret_hash, secret_name, id, &user],
            )?;
            if replaced > 0 {
                return Ok(());
            }
            let sql = "insert into hook values ($1, $2, $3, $4, $5, $6) on conflict (id) do update set \
                       workflow = excluded.workflow, secret_hash = excluded.secret_hash, \
                       secret_name = excluded.secret_name";
            let key = table_key(&user, id);
            connection.execute_sql(sql, params![&key, &user, workflow, secret_hash, secret_name, *created_at])?;
            Ok(())
        };
        self.submit_change(put, change, by).await
    }

    /// The hooks of one user, or of all users, ordered by id. Fails if the database cannot be read.
    pub fn list_hooks(&self, user: Option<&str>) -> Result<Vec<HookRow>, StoreError> {
        let sql = format!("select {HOOK_COLUMNS} from hook where (user_id = $1 or $1 is null) order by id");
        let owner = user.map(|user| self.owner_of(user));
        self.select_hooks(&sql, params![&owner])
    }

    /// The hooks with this id, of one user or of all users. Those of the user `local` come first, then older ones.
    /// Fails if the database cannot be read.
    pub fn find_hooks(&self, id: &str, user: Option<&str>) -> Result<Vec<HookRow>, StoreError> {
        let sql = format!(
            "select {HOOK_COLUMNS} from hook where (id = $1 or id = $1 || '{USER_SEPARATOR}' || user_id) \
             and (user_id = $2 or $2 is null)"
        );
        let owner = user.map(|user| self.owner_of(user));
        let mut found = self.select_hooks(&sql, params![id, &owner])?;
        found.sort_by_key(|hook| (hook.user != SHARED_USER, hook.created_at));
        Ok(found)
    }

    /// The hooks of this project that a query finds.
    fn select_hooks(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<HookRow>, StoreError> {
        let rows = self.read_with(|db| db.query_rows(sql, params, parse_hook_row))?;
        let own = |row: HookRow| Some(HookRow { user: self.own_user(&row.user)?, ..row });
        Ok(rows.into_iter().filter_map(own).collect())
    }

    /// Deletes a hook. Fails with `NotThere` if the user has no hook with this id.
    pub async fn delete_hook(&self, user: &str, id: &str, by: &Actor) -> Result<(), StoreError> {
        let change = AuditedChange::new(AuditAction::DeleteHook, Some(user.to_owned()), format!("webhook {id}"));
        let (user, id) = (self.owner_of(user), id.to_owned());
        let delete = move |connection: &DbConnection| match connection.execute_sql(
            "delete from hook where user_id = $1 and (id = $2 or id = $3)",
            params![&user, &id, &table_key(&user, &id)],
        )? {
            0 => Err(hook_not_found(&id)),
            _ => Ok(()),
        };
        self.submit_change(delete, change, by).await
    }
}

fn parse_hook_row(row: &DbRow<'_>) -> Result<HookRow, StoreError> {
    let key: String = row.get(0)?;
    Ok(HookRow {
        id: key.split(USER_SEPARATOR).next().unwrap_or_default().to_owned(),
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
