//! The inbox of each run: commands, and the decisions about them. A command is stored in a transaction that also reads
//! whether a worker drives the run. The worker releases the run in a transaction that checks the inbox. So whichever
//! commits first, someone applies the command: the worker, or the process that received the command.

mod child_runs;
mod mailboxes;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{ParentStep, Resolution};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_runtime::JournalError;
use flowloom_runtime::command::{CommandAction, CommandOutcome, CommandRecord, DecidedCommand, RunCommand};
use parking_lot::Mutex;

use serde_json::json;

use crate::audit_entry::{Actor, AuditAction, AuditedChange};
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::keyed_command::KeyedCommand;
use crate::quota_check::QuotaChecker;
use crate::store::Store;
use crate::worker::HAS_WORKER_SQL;
pub use child_runs::CausedCommand;
pub(crate) use child_runs::{
    CancelledChildren, IS_OUTERMOST_SQL, ParentLease, cancel_children, cancel_command, check_parent, find_cancelled,
    is_cancelled_by_parent, reject_retries, reject_retry_in, reopens_without_command, resume_command,
};
pub use mailboxes::Mailboxes;

/// Interval at which a process that waits for a decision reads it, in case it misses the notification.
const DECISION_POLL_INTERVAL: Duration = Duration::from_millis(100);

const COMMAND_COLUMNS: &str = "id, sender, action, sent_at, outcome, code, reason, decided_at";

/// The result of storing a command.
#[derive(Clone, Debug, PartialEq)]
pub struct PostedCommand {
    /// The command, and the decision about it if there is one already.
    pub record: CommandRecord,
    /// Whether a worker had the lease of the run, or of a run around it, when the command was stored. If it is alive, it
    /// decides about the command.
    pub has_worker: bool,
    /// The epoch of the run's lease when the command was stored.
    pub epoch: u64,
}

impl Store {
    /// Stores a command to a run at the time `at`. A command with a known id is the same command, sent again. A command to
    /// a run that has ended is rejected and not stored. Fails with `RunNotFound`, and with `CommandReused` if the id
    /// belongs to another command of the run. If the run is a suspended child run, the runs around it are asked to continue.
    pub async fn post_command(&self, run: RunId, command: RunCommand, at: u64) -> Result<PostedCommand, StoreError> {
        self.store_command(self.new_post(run, command, at)).await
    }

    /// Same as [`Store::post_command`] for a command of a person, which the audit log records. Fails as that does.
    pub async fn post_command_by(
        &self,
        run: RunId,
        command: RunCommand,
        at: u64,
        by: &Actor,
    ) -> Result<PostedCommand, StoreError> {
        self.store_command(CommandPost { by: Some(by.clone()), ..self.new_post(run, command, at) }).await
    }

    /// Same as [`Store::post_command_by`] for a command of a call under an idempotency key. The key is bound in the same
    /// transaction, unless the command is rejected immediately. Fails with `KeyBound` if the same call was faster
    /// elsewhere.
    pub async fn post_keyed_command(
        &self,
        run: RunId,
        command: RunCommand,
        at: u64,
        by: &Actor,
        call: KeyedCommand,
    ) -> Result<PostedCommand, StoreError> {
        let post = self.new_post(run, command, at);
        self.store_command(CommandPost { by: Some(by.clone()), call: Some(call), ..post }).await
    }

    /// Stores the command with which the step `parent` retries a child run that it has started. Fails as
    /// [`Store::post_command`] does, and with `OwnershipLost` if the step may not do so any more, because its run has ended or
    /// is driven under another lease.
    pub async fn post_retry_by_step(
        &self,
        run: RunId,
        command: RunCommand,
        at: u64,
        parent: ParentStep,
    ) -> Result<PostedCommand, StoreError> {
        self.store_command(CommandPost { parent: Some(parent), ..self.new_post(run, command, at) }).await
    }

    fn new_post(&self, run: RunId, command: RunCommand, at: u64) -> CommandPost {
        CommandPost { run, command, at, parent: None, by: None, call: None, quotas: self.quotas.clone() }
    }

    async fn store_command(&self, post: CommandPost) -> Result<PostedCommand, StoreError> {
        let run = post.run;
        let (posted, caused) = match &self.runs {
            Some(runs) => {
                let posted = runs.post_command(run, post.command, post.at, post.parent.as_ref())?;
                if let (Some(call), None) = (post.call, &posted.0.record.outcome) {
                    self.writer.submit_job(Box::new(move |db: &DbConnection| call.bind_key(db))).await?;
                }
                posted
            }
            None => {
                let slot = Arc::new(Mutex::new(None));
                let filled = slot.clone();
                let job = move |db: &DbConnection| {
                    let posted = post.write(db)?;
                    *filled.lock() = Some(posted);
                    Ok(())
                };
                self.writer.submit_job(Box::new(job)).await?;
                let posted = slot.lock().take();
                posted.ok_or(StoreError::Closed)?
            }
        };
        flowloom_runtime::failpoint::hit("command_store_after");
        caused.into_iter().for_each(|caused| self.mailboxes.deliver_command(caused));
        if posted.record.outcome.is_none() {
            let (epoch, command) = (posted.epoch, posted.record.command.clone());
            self.mailboxes.deliver_command(CausedCommand { run, epoch, command });
        }
        Ok(posted)
    }

    /// A command to a run; `None` if there is none with this id. Fails if the database cannot be read.
    pub fn find_command(&self, run: RunId, id: &str) -> Result<Option<CommandRecord>, StoreError> {
        match &self.runs {
            Some(runs) => Ok(runs.find_command(run, id)),
            None => self.read_with(|db| read_command(db, run, id)),
        }
    }

    /// Waits until there is a decision about a command that was stored, at most for `timeout`; `None` if there is none
    /// by then. Fails if the database cannot be read.
    pub async fn wait_for_decision(
        &self,
        run: RunId,
        posted: &CommandRecord,
        timeout: Duration,
    ) -> Result<Option<CommandOutcome>, StoreError> {
        if let Some(outcome) = &posted.outcome {
            return Ok(Some(outcome.clone()));
        }
        let decided = async {
            loop {
                let notified = self.mailboxes.notify_decision(run);
                if let Some(CommandRecord { outcome: Some(outcome), .. }) =
                    self.find_command(run, &posted.command.id)?
                {
                    return Ok(outcome);
                }
                // A process that is not notified reads again.
                let _ = tokio::time::timeout(DECISION_POLL_INTERVAL, notified).await;
            }
        };
        tokio::time::timeout(timeout, decided).await.ok().transpose()
    }

    /// The pending commands of a run, in the order in which they were sent.
    pub(crate) fn read_pending_commands(&self, run: RunId) -> Result<Vec<RunCommand>, StoreError> {
        match &self.runs {
            Some(runs) => Ok(runs.pending_commands(run)),
            None => self.read_with(|db| read_pending_commands(db, run)),
        }
    }
}

/// A command that is about to be stored.
struct CommandPost {
    run: RunId,
    command: RunCommand,
    at: u64,
    /// The step that sends it, if it is not a person or a timer.
    parent: Option<ParentStep>,
    /// The person who sends it, if the audit log records it.
    by: Option<Actor>,
    /// The call that sends it, if it has an idempotency key.
    call: Option<KeyedCommand>,
    quotas: QuotaChecker,
}

impl CommandPost {
    /// Stores the command, and returns it with the commands that it causes.
    fn write(&self, db: &DbConnection) -> Result<(PostedCommand, Vec<CausedCommand>), StoreError> {
        let CommandPost { run, command, at, parent, by, call, quotas } = self;
        let id = run.to_string();
        let ancestors = child_runs::lock_ancestors(db, *run)?;
        let sql = format!(
            "select number, status, {HAS_WORKER_SQL}, finished_at is not null, epoch, user_id from run where id = $1"
        );
        let receiver = db.query_first_for_update(&sql, params![&id], read_receiver)?;
        let Receiver { number, has_worker, ended, epoch, user } = receiver.ok_or(JournalError::RunNotFound(*run))?;
        if let Some(parent) = parent {
            child_runs::check_step_lease(&ancestors, parent)?;
        }
        if let Some(call) = call {
            call.check_unused(db)?;
        }
        if let Some(record) = read_command(db, *run, &command.id)? {
            return match record.is_repeated_by(command) {
                true => Ok((PostedCommand { record, has_worker, epoch }, Vec::new())),
                false => Err(JournalError::CommandReused(command.id.clone()).into()),
            };
        }
        if let Some(status) = ended.filter(|_| !command.action.needs_ended_run()) {
            let record = CommandRecord::decide_late(command.clone(), *at, status);
            return Ok((PostedCommand { record, has_worker, epoch }, Vec::new()));
        }
        if ended.is_some()
            && parent.is_none()
            && let Some(record) = child_runs::reject_retry_within(&ancestors, command, *at)
        {
            return Ok((PostedCommand { record, has_worker, epoch }, Vec::new()));
        }
        if !has_worker && let Some(record) = reject_second_decision(&read_pending_commands(db, *run)?, command, *at) {
            return Ok((PostedCommand { record, has_worker, epoch }, Vec::new()));
        }
        if ended.is_some() && ancestors.is_empty() {
            // It starts the run again.
            quotas.check_start(db, &user, *at)?;
        }
        if let Some(call) = call {
            call.bind_key(db)?;
        }
        flowloom_runtime::failpoint::hit("command_store_before");
        insert_command(db, *run, number, command, *at)?;
        if let Some(by) = by {
            audit_command(*run, user, command).record_entry(db, by, *at, STORED)?;
        }
        let (mut caused, mut has_worker) = (Vec::new(), has_worker);
        if !has_worker {
            (caused, has_worker) = child_runs::resume_ancestors(db, &ancestors, *run, command, *at)?;
        }
        let record = CommandRecord::new_pending(command.clone(), *at);
        Ok((PostedCommand { record, has_worker, epoch }, caused))
    }
}

/// Result of a command in the audit log: the worker of the run decides about it later.
const STORED: &str = "stored";

/// The entry of a command: the decision and the step, without the text of an answer.
fn audit_command(run: RunId, user: String, command: &RunCommand) -> AuditedChange {
    let (path, how) = match &command.action {
        CommandAction::Answer { path, .. } => (Some(path.as_str()), None),
        CommandAction::Resolve { path, how } => (
            Some(path.as_str()),
            Some(match how {
                Resolution::Value(_) => "value",
                Resolution::Resend => "resend",
                Resolution::Fail => "fail",
            }),
        ),
        CommandAction::Retry { from } => (from.as_ref().map(Path::as_str), None),
        CommandAction::Cancel {} | CommandAction::Resume { .. } | CommandAction::Unknown {} => (None, None),
    };
    let detail = json!({"command": command.action.name(), "id": command.id, "path": path, "how": how});
    AuditedChange::new(AuditAction::SendCommand, Some(user), format!("run {run}")).with_detail(detail)
}

/// The rejection of a command about a step that no worker drives, if one about the same step is pending: only the first has
/// an effect.
pub(crate) fn reject_second_decision(pending: &[RunCommand], command: &RunCommand, at: u64) -> Option<CommandRecord> {
    let path = command.action.path().filter(|_| command.action.decides_step())?;
    pending.iter().find(|other| other.action.decides_step() && other.action.path() == Some(path))?;
    let message = format!("an earlier decision about {path} is stored but not applied yet");
    Some(CommandRecord::new_rejected(command.clone(), at, StepFailure::new(Code::NothingToDo, message)))
}

/// The row of the run that receives a command.
struct Receiver {
    number: i64,
    has_worker: bool,
    /// Its status, if it has ended.
    ended: Option<Status>,
    epoch: u64,
    user: String,
}

fn read_receiver(row: &DbRow<'_>) -> Result<Receiver, StoreError> {
    let status = Status::parse(&row.get::<String>(1)?).unwrap_or(Status::Failed);
    Ok(Receiver {
        number: row.get(0)?,
        has_worker: row.get(2)?,
        ended: row.get::<bool>(3)?.then_some(status),
        epoch: row.get_count(4)?,
        user: row.get(5)?,
    })
}

/// Inserts a pending command to a run, given by its id and number. Returns the epoch of the run's lease, or `None` if the
/// run has received a command with its id.
fn insert_command(
    db: &DbConnection,
    run: RunId,
    number: i64,
    command: &RunCommand,
    at: u64,
) -> Result<Option<u64>, StoreError> {
    let action = serde_json::to_string(&command.action).map_err(StoreError::Unserializable)?;
    let insert =
        "insert into command (run, id, sender, action, sent_at) values ($1, $2, $3, $4, $5) on conflict do nothing";
    if db.execute_sql(insert, params![&run.to_string(), &command.id, &command.sender, &action, at])? == 0 {
        return Ok(None);
    }
    let count = "update run set pending_commands = pending_commands + 1 where number = $1 returning epoch";
    let epoch = db.query_first(count, params![number], |row| row.get_count(0))?;
    db.notify_workers(run)?;
    Ok(epoch)
}

/// Stores decisions about pending commands of a run. Returns how many there were.
pub(crate) fn write_decisions(
    db: &DbConnection,
    run: RunId,
    decided: &[DecidedCommand],
    at: u64,
) -> Result<u64, StoreError> {
    let id = run.to_string();
    let mut count = 0;
    for DecidedCommand { id: command, outcome } in decided {
        let (outcome, code, reason) = match outcome {
            CommandOutcome::Applied => ("applied", None, None),
            CommandOutcome::Rejected(error) => ("rejected", Some(error.code.to_string()), Some(error.message.as_str())),
        };
        let code = code.as_deref();
        let sql = "update command set outcome = $1, code = $2, reason = $3, decided_at = $4 \
                   where run = $5 and id = $6 and outcome is null";
        count += db.execute_sql(sql, params![outcome, code, reason, at, &id, command])?;
    }
    Ok(count)
}

/// Decides about the pending commands of a run that ends with `status`.
pub(crate) fn decide_pending(db: &DbConnection, run: RunId, status: Status, at: u64) -> Result<(), StoreError> {
    let decided: Vec<_> = read_pending_commands(db, run)?
        .into_iter()
        .filter_map(|command| {
            let rejected = CommandRecord::decide_late(command, at, status);
            Some(DecidedCommand { id: rejected.command.id, outcome: rejected.outcome? })
        })
        .collect();
    write_decisions(db, run, &decided, at).map(drop)
}

fn read_command(db: &DbConnection, run: RunId, id: &str) -> Result<Option<CommandRecord>, StoreError> {
    let sql = format!("select {COMMAND_COLUMNS} from command where run = $1 and id = $2");
    db.query_first(&sql, params![&run.to_string(), id], parse_command)
}

fn read_pending_commands(db: &DbConnection, run: RunId) -> Result<Vec<RunCommand>, StoreError> {
    let sql = format!("select {COMMAND_COLUMNS} from command where run = $1 and outcome is null order by number");
    db.query_rows(&sql, params![&run.to_string()], |row| parse_command(row).map(|record| record.command))
}

fn parse_command(row: &DbRow<'_>) -> Result<CommandRecord, StoreError> {
    let (id, sender, action): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
    // A command of a newer program is rejected by the worker that receives it.
    let action = serde_json::from_str(&action).unwrap_or(CommandAction::Unknown {});
    let (code, reason): (Option<String>, Option<String>) = (row.get(5)?, row.get(6)?);
    let outcome = row.get::<Option<String>>(4)?.map(|outcome| match outcome.as_str() {
        "applied" => CommandOutcome::Applied,
        _ => {
            let code = code.as_deref().and_then(Code::parse).unwrap_or(Code::NothingToDo);
            CommandOutcome::Rejected(StepFailure::new(code, reason.unwrap_or_default()))
        }
    });
    Ok(CommandRecord {
        command: RunCommand { id, sender, action },
        sent_at: row.get_count(3)?,
        outcome,
        decided_at: row.get::<Option<i64>>(7)?.map(|at| at as u64),
    })
}
