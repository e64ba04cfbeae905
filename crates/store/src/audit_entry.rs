//! An entry of the audit log: who makes which change, and how it is added in the transaction of the change.

use flowloom_core::id::RunId;

use crate::db::{DbConnection, params};
use crate::error::StoreError;

/// The author of a change, and the place that it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// Id of the API key; `None` for the operator and for runs.
    pub key_id: Option<String>,
    /// Name of the API key.
    pub key_name: Option<String>,
    /// The user of the key or of the run; `None` for the operator.
    pub user: Option<String>,
    /// `command line`, `server`, `run` and its id, or the address of the client.
    pub source: String,
}

impl Actor {
    /// The operator on the command line.
    pub fn command_line() -> Actor {
        Actor { source: "command line".to_owned(), ..Actor::default() }
    }

    /// A server, on behalf of the operator who configured it.
    pub fn server() -> Actor {
        Actor { source: "server".to_owned(), ..Actor::default() }
    }

    /// A conversation, on behalf of a user.
    pub fn of_conversation(user: &str) -> Actor {
        Actor { user: Some(user.to_owned()), source: "conversation".to_owned(), ..Actor::default() }
    }

    /// Whether a key authenticated the author, who is then not the operator.
    pub fn has_key(&self) -> bool {
        self.key_id.is_some()
    }

    /// A step of a run.
    pub fn run(run: RunId, user: &str) -> Actor {
        Actor { user: Some(user.to_owned()), source: format!("run {run}"), ..Actor::default() }
    }
}

/// Sorts of changes that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditAction {
    CreateKey,
    RotateKey,
    RevokeKey,
    PutDefinition,
    DeleteDefinition,
    WriteMemory,
    BindSecrets,
    PutSchedule,
    PauseSchedule,
    ResumeSchedule,
    DeleteSchedule,
    PutHook,
    DeleteHook,
    SendCommand,
    DeleteRun,
}

impl AuditAction {
    /// Name of the action, in the database and for people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            AuditAction::CreateKey => "key.create",
            AuditAction::RotateKey => "key.rotate",
            AuditAction::RevokeKey => "key.revoke",
            AuditAction::PutDefinition => "definition.put",
            AuditAction::DeleteDefinition => "definition.delete",
            AuditAction::WriteMemory => "memory.write",
            AuditAction::BindSecrets => "secrets.bind",
            AuditAction::PutSchedule => "schedule.put",
            AuditAction::PauseSchedule => "schedule.pause",
            AuditAction::ResumeSchedule => "schedule.resume",
            AuditAction::DeleteSchedule => "schedule.delete",
            AuditAction::PutHook => "hook.put",
            AuditAction::DeleteHook => "hook.delete",
            AuditAction::SendCommand => "run.command",
            AuditAction::DeleteRun => "run.delete",
        }
    }
}

/// Result of a change that was made, unless the change has a more precise one.
pub(crate) const DONE: &str = "done";

/// A change to record.
#[derive(Clone, Debug)]
pub(crate) struct AuditedChange {
    pub(crate) action: AuditAction,
    /// User who owns the object; `None` if it has no owner.
    pub(crate) owner: Option<String>,
    /// The object, for example `workflow orders`. Never a secret.
    pub(crate) object: String,
    /// Further facts as JSON.
    pub(crate) detail: Option<String>,
}

impl AuditedChange {
    pub(crate) fn new(action: AuditAction, owner: Option<String>, object: String) -> AuditedChange {
        AuditedChange { action, owner, object, detail: None }
    }

    /// Adds facts to it. They must not contain a secret, nor what a person or a model wrote.
    pub(crate) fn with_detail(self, detail: serde_json::Value) -> AuditedChange {
        AuditedChange { detail: Some(detail.to_string()), ..self }
    }

    /// Adds the entry in the transaction of the change.
    pub(crate) fn record_entry(
        &self,
        connection: &DbConnection,
        by: &Actor,
        at: u64,
        result: &str,
    ) -> Result<(), StoreError> {
        let sql = "insert into audit (at, key_id, key_name, actor_user, source, action, user_id, object, detail, result) \
                   values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let Actor { key_id, key_name, user, source } = by;
        let action = self.action.name();
        let params =
            params![at, key_id, key_name, user, source, action, &self.owner, &self.object, &self.detail, result];
        connection.execute_unchecked(sql, params)
    }
}
