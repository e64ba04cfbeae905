//! Webhooks: addresses that start a run when they are called. Of a secret, only its hash or its name is stored.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

use crate::Store;
use crate::db::{Connection, Error, Row, params};

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRow {
    /// Id of the hook, part of its address.
    pub id: String,
    /// User that owns the runs it starts.
    pub holder: String,
    /// Id of the workflow.
    pub workflow: String,
    /// SHA-256 of the secret that callers send, in hex.
    pub secret_hash: Option<String>,
    /// Name of the secret that callers sign requests with.
    pub secret_name: Option<String>,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: u64,
}

const COLUMNS: &str = "id, holder, workflow, secret_hash, secret_name, created_at";

impl Store {
    /// Creates or replaces the hook with this id. Fails with `NotThere` if the id belongs to another user.
    pub async fn put_hook(&self, new: HookRow) -> Result<(), StepError> {
        let put = move |connection: &Connection| {
            let HookRow { id, holder, workflow, secret_hash, secret_name, created_at } = &new;
            let sql = "insert into hook values ($1, $2, $3, $4, $5, $6) on conflict (id) do update set \
                       workflow = excluded.workflow, secret_hash = excluded.secret_hash, \
                       secret_name = excluded.secret_name where hook.holder = excluded.holder";
            connection.change(sql, params![id, holder, workflow, secret_hash, secret_name, *created_at], missing(id))
        };
        self.writer.submit(Box::new(put)).await
    }

    /// The hooks of one user, or of all users, ordered by id.
    pub fn hooks(&self, holder: Option<&str>) -> Result<Vec<HookRow>, StepError> {
        let sql = format!("select {COLUMNS} from hook where (holder = $1 or $1 is null) order by id");
        self.read_with(|db| db.query(&sql, params![holder], row_of))
    }

    /// The hook with this id, if it exists.
    pub fn hook(&self, id: &str) -> Result<Option<HookRow>, StepError> {
        let sql = format!("select {COLUMNS} from hook where id = $1");
        self.read_with(|db| db.first(&sql, params![id], row_of))
    }

    /// Deletes a hook. Fails with `NotThere` if the user has no hook with this id.
    pub async fn delete_hook(&self, holder: &str, id: &str) -> Result<(), StepError> {
        let (holder, id) = (holder.to_owned(), id.to_owned());
        let delete = move |connection: &Connection| match connection
            .execute("delete from hook where holder = $1 and id = $2", params![&holder, &id])?
        {
            0 => Err(StepError::new(Code::NotThere, format!("there is no hook {id}")).into()),
            _ => Ok(()),
        };
        self.writer.submit(Box::new(delete)).await
    }
}

fn missing(id: &str) -> StepError {
    StepError::new(Code::NotThere, format!("there is no hook {id}"))
}

fn row_of(row: &Row<'_>) -> Result<HookRow, Error> {
    Ok(HookRow {
        id: row.get(0)?,
        holder: row.get(1)?,
        workflow: row.get(2)?,
        secret_hash: row.get(3)?,
        secret_name: row.get(4)?,
        created_at: row.count(5)?,
    })
}
