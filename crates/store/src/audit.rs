//! The audit log: who changed keys, definitions, memory, schedules, webhooks and secret bindings, and who decided about runs, when
//! and from where. An entry is stored in the
//! transaction of its change. Entries are only added; triggers of the database refuse to change or delete them.

use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Clock as _;

pub use crate::audit_entry::Actor;
pub(crate) use crate::audit_entry::{AuditAction, AuditedChange, DONE};
use crate::db::{DbConnection, DbRow, WriteJob, params};
use crate::error::StoreError;
use crate::store::Store;

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Number of the entry; later entries have higher ones.
    pub number: u64,
    /// Time of the change, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The actor, and the source of the request.
    pub actor: Actor,
    /// The action, for example `definition.put`.
    pub action: String,
    /// User who owns the object.
    pub user: Option<String>,
    /// The object, for example `workflow orders`.
    pub object: String,
    /// Further facts as JSON.
    pub detail: Option<String>,
    /// `done`, `created`, `updated` or `deleted`; or the error code with which the change was refused.
    pub result: String,
}

/// Selects entries of the audit log.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Only changes of objects of this user.
    pub user: Option<String>,
    /// Only changes since this time, in milliseconds since the Unix epoch.
    pub since: u64,
    /// Only entries with lower numbers.
    pub before: Option<u64>,
    /// Maximum number of entries.
    pub limit: u32,
}

impl Store {
    /// Entries of the audit log, newest first. Fails if the database cannot be read.
    pub fn list_audit(&self, filter: &AuditFilter) -> Result<Vec<AuditRow>, StoreError> {
        let sql = "select number, at, key_id, key_name, actor_user, source, action, user_id, object, detail, result \
                   from audit where (user_id = $1 or $1 is null) and at >= $2 and (number < $3 or $3 is null) \
                   order by number desc limit $4";
        let before = filter.before.map(|number| number as i64);
        self.read_with(|db| {
            db.query_rows(sql, params![&filter.user, filter.since, before, filter.limit], parse_audit_row)
        })
    }

    /// Records the bindings of the configured secrets, as JSON without values, if they differ from the last recorded
    /// ones. Fails if the database cannot be written.
    pub async fn record_secret_bindings(&self, bindings: String, at: u64) -> Result<(), StoreError> {
        let record = move |connection: &DbConnection| {
            connection.serialize_changes("audit")?;
            let sql = "select detail from audit where action = $1 order by number desc limit 1";
            let action = AuditAction::BindSecrets;
            let before: Option<String> = connection.query_first(sql, params![action.name()], |row| row.get(0))?;
            if before.as_deref().unwrap_or("{}") == bindings {
                return Ok(());
            }
            let change = AuditedChange::new(action, None, "the table [secrets] of the configuration".to_owned());
            let change = AuditedChange { detail: Some(bindings.clone()), ..change };
            change.record_entry(connection, &Actor::server(), at, DONE)
        };
        self.writer.submit_job(Box::new(record)).await
    }

    /// Records that a file with a definition in the served folder is written or deleted. Called before that, so that no
    /// change is without an entry. Fails if the database cannot be written.
    pub async fn record_file_change(&self, id: &str, is_deleted: bool, by: Actor, at: u64) -> Result<(), StoreError> {
        let action = if is_deleted { AuditAction::DeleteDefinition } else { AuditAction::PutDefinition };
        let change = AuditedChange::new(action, None, format!("file of the flow {id}"));
        let record = move |connection: &DbConnection| change.record_entry(connection, &by, at, DONE);
        self.writer.submit_job(Box::new(record)).await
    }

    /// Makes a change, and records it in the same transaction.
    pub(crate) async fn submit_change(
        &self,
        mut make: impl FnMut(&DbConnection) -> Result<(), StoreError> + Send + 'static,
        change: AuditedChange,
        by: &Actor,
    ) -> Result<(), StoreError> {
        let (at, actor, made) = (SystemClock.now_ms(), by.clone(), change.clone());
        let job = move |db: &DbConnection| {
            make(db)?;
            made.record_entry(db, &actor, at, DONE)
        };
        self.submit_audited(Box::new(job), vec![change], by, at).await
    }

    /// Runs a job that makes changes and records them. If the job is refused, that is recorded instead.
    pub(crate) async fn submit_audited(
        &self,
        job: WriteJob,
        attempted: Vec<AuditedChange>,
        by: &Actor,
        at: u64,
    ) -> Result<(), StoreError> {
        let done = self.writer.submit_job(job).await;
        if let Err(error) = &done
            && !error.is_unavailable()
        {
            let (by, code) = (by.clone(), error.code().to_string());
            let record = move |connection: &DbConnection| {
                attempted.iter().try_for_each(|change| change.record_entry(connection, &by, at, &code))
            };
            // The refusal is returned even if it cannot be recorded.
            let _ = self.writer.submit_job(Box::new(record)).await;
        }
        done
    }
}

fn parse_audit_row(row: &DbRow<'_>) -> Result<AuditRow, StoreError> {
    let actor = Actor { key_id: row.get(2)?, key_name: row.get(3)?, user: row.get(4)?, source: row.get(5)? };
    Ok(AuditRow {
        number: row.get_count(0)?,
        at: row.get_count(1)?,
        actor,
        action: row.get(6)?,
        user: row.get(7)?,
        object: row.get(8)?,
        detail: row.get(9)?,
        result: row.get(10)?,
    })
}
