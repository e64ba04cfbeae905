//! Addresses that start a run when they are called. What is kept of a secret is its hash, or its name.

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

use crate::Store;
use crate::db::{Connection, Error, Row, params};

/// A hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRow {
    /// Its id, which is in its address.
    pub id: String,
    /// Whose runs it starts.
    pub holder: String,
    /// The id of the workflow.
    pub workflow: String,
    /// SHA-256 of the secret that callers send, in hex.
    pub secret_hash: Option<String>,
    /// The name of the secret that callers sign with.
    pub secret_name: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created_at: u64,
}

const COLUMNS: &str = "id, holder, workflow, secret_hash, secret_name, created_at";

impl Store {
    /// Puts a hook in the place of the one with its id; `NotThere` if that is another's.
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

    /// The hooks of one user, or of all, by id.
    pub fn hooks(&self, holder: Option<&str>) -> Result<Vec<HookRow>, StepError> {
        let sql = format!("select {COLUMNS} from hook where (holder = $1 or $1 is null) order by id");
        self.read_with(|db| db.query(&sql, params![holder], row_of))
    }

    /// The hook with this id.
    pub fn hook(&self, id: &str) -> Result<Option<HookRow>, StepError> {
        let sql = format!("select {COLUMNS} from hook where id = $1");
        self.read_with(|db| db.first(&sql, params![id], row_of))
    }

    /// Takes a hook away; `NotThere` if there is none of this id and user.
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
