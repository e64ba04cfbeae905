//! Commands that a child run and its parent run cause in each other's inbox. A step drives the child run that it started,
//! so a command to a suspended child run also asks its parent run to continue, and so on up to the run that a worker
//! drives. A run that ends, and a step that fails or is abandoned, cancel their child runs. All of this is part of the transaction
//! of the command or event that causes it.

use std::collections::HashSet;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, ParentStep, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_runtime::child_run::retry_sender;
use flowloom_runtime::command::{CommandAction, CommandOutcome, CommandRecord, DecidedCommand, RunCommand};
use flowloom_runtime::journal::Batch;
use flowloom_runtime::remote::DriveState;
use flowloom_runtime::{JournalError, RunError};

use super::{insert_command, read_pending_commands, write_decisions};
use crate::db::{DbConnection, DbRow, params};
use crate::error::StoreError;
use crate::run_tree::find_next_position;
use crate::store::Store;
use crate::worker::HAS_WORKER_SQL;

/// The sender of the commands that cancel child runs.
const PARENT_SENDER: &str = "the parent run";

/// SQL condition of a run that no step drives: it has no unfinished parent run, or its step was abandoned and has cancelled
/// it.
pub(crate) const IS_OUTERMOST_SQL: &str = "(parent is null or not exists (select 1 from run parent_run \
     where parent_run.id = run.parent and parent_run.finished_at is null) or exists (select 1 from command \
     where command.run = run.id and outcome is null and sender = 'the parent run'))";

/// A pending command that is delivered to the worker of its run when the transaction that stored it is committed.
#[derive(Clone, Debug)]
pub struct CausedCommand {
    /// The run that receives it.
    pub run: RunId,
    /// The epoch of the run's lease when the command was stored.
    pub epoch: u64,
    /// The command.
    pub command: RunCommand,
}

/// The row of a run around a child run.
pub(super) struct AncestorRun {
    id: RunId,
    number: i64,
    lease: ParentLease,
}

/// The lease of a run, one of whose steps starts, drives or retries a child run.
pub(crate) struct ParentLease {
    pub(crate) has_worker: bool,
    pub(crate) has_ended: bool,
    pub(crate) epoch: u64,
}

impl ParentLease {
    /// Fails with `OwnershipLost` if the step `parent` may not start, drive or retry child runs, because its run has ended or
    /// is driven under another lease: another worker drives them, or no event of the run would cancel them.
    pub(crate) fn check_step(&self, parent: &ParentStep) -> Result<(), JournalError> {
        let is_held = !self.has_ended && parent.epoch.is_none_or(|epoch| self.has_worker && self.epoch == epoch);
        if is_held { Ok(()) } else { Err(JournalError::OwnershipLost) }
    }
}

/// Locks the run of the step `parent`. Fails as [`ParentLease::check_step`] does.
pub(crate) fn check_parent(db: &DbConnection, parent: &ParentStep) -> Result<(), StoreError> {
    let sql = format!("select {HAS_WORKER_SQL}, finished_at is not null, epoch from run where id = $1");
    let read =
        |row: &DbRow<'_>| Ok(ParentLease { has_worker: row.get(0)?, has_ended: row.get(1)?, epoch: row.get_count(2)? });
    let lease = db.query_first_for_update(&sql, params![&parent.run.to_string()], read)?;
    Ok(lease.map_or(Ok(()), |lease| lease.check_step(parent))?)
}

/// Fails with `OwnershipLost` if the step `parent` may not retry a child run, which the runs `ancestors` are around.
pub(super) fn check_step_lease(ancestors: &[AncestorRun], parent: &ParentStep) -> Result<(), StoreError> {
    Ok(ancestors.first().ok_or(JournalError::OwnershipLost)?.lease.check_step(parent)?)
}

/// The rejection of a command with which a person retries a child run; `None` if the run around it has ended.
pub(super) fn reject_retry_within(ancestors: &[AncestorRun], command: &RunCommand, at: u64) -> Option<CommandRecord> {
    let outermost = ancestors.iter().take_while(|around| !around.lease.has_ended).last()?;
    Some(reject_retry_in(outermost.id, command, at))
}

/// The rejection of a command that retries a child run of the unfinished run `around`.
pub(crate) fn reject_retry_in(around: RunId, command: &RunCommand, at: u64) -> CommandRecord {
    CommandRecord::new_rejected(command.clone(), at, RunError::ParentNotEnded(around).into())
}

impl Store {
    /// The run that must be driven so that `run` continues: the outermost unfinished run around it, or `run` itself. No run
    /// around a child run drives it if its step was abandoned and has cancelled it. Fails if the database cannot be read.
    pub fn find_driving_run(&self, run: RunId) -> Result<RunId, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.find_driving_run(run));
        }
        self.read_with(|db| {
            let sql = "select p.id from run c join run p on p.id = c.parent \
                       where c.id = $1 and p.finished_at is null and not exists (select 1 from command \
                       where command.run = c.id and outcome is null and sender = $2)";
            let (mut found, mut next) = (run, Some(run));
            while let Some(run) = next {
                found = run;
                next = db.query_first(sql, params![&run.to_string(), PARENT_SENDER], read_id)?.flatten();
            }
            Ok(found)
        })
    }

    /// The number of child runs of the outermost run around `run`, with theirs. Fails if the database cannot be read.
    pub fn count_tree_runs(&self, run: RunId) -> Result<u64, StoreError> {
        match &self.runs {
            Some(runs) => Ok(runs.count_tree_runs(run)),
            None => self.read_with(|db| Ok(find_next_position(db, run)?.number - 1)),
        }
    }

    /// The child runs of a run, with theirs. Fails if the database cannot be read.
    pub fn list_runs_within(&self, run: RunId) -> Result<Vec<RunId>, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.list_runs_within(run));
        }
        let sql = "with recursive within (id) as (select id from run where parent = $1 union all \
                   select run.id from run join within on run.parent = within.id) select id from within order by id";
        let rows = self.read_with(|db| db.query_rows(sql, params![&run.to_string()], read_id))?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// Whether no worker has the lease of a run, and no command to it is pending. Fails if the database cannot be read.
    pub fn is_at_rest(&self, run: RunId) -> Result<bool, StoreError> {
        Ok(self.read_drive_state(run)? == DriveState::AtRest)
    }

    /// Whether a worker has the lease of a run, or a command to it is pending. A run that is not stored yet is driven.
    /// Fails if the database cannot be read.
    pub fn read_drive_state(&self, run: RunId) -> Result<DriveState, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.read_drive_state(run));
        }
        let sql = "select worker is not null, pending_commands > 0 from run where id = $1";
        let read = |row: &DbRow<'_>| Ok(DriveState::new(row.get(0)?, row.get(1)?));
        let found = self.read_with(|db| db.query_first(sql, params![&run.to_string()], read))?;
        Ok(found.unwrap_or(DriveState::Driven))
    }

    /// The unfinished runs within a run whose parent run has ended; none if the run has not. Fails if the database cannot
    /// be read.
    pub fn list_orphaned_runs(&self, run: RunId) -> Result<Vec<RunId>, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.list_orphaned_runs(run));
        }
        let sql = "with recursive ended (id) as (select id from run where id = $1 and finished_at is not null \
                   union all select run.id from run join ended on run.parent = ended.id where run.finished_at is not null) \
                   select run.id from run join ended on run.parent = ended.id where run.finished_at is null order by run.id";
        let rows = self.read_with(|db| db.query_rows(sql, params![&run.to_string()], read_id))?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// A command with this id to a run or to one of its child runs, with the run that received it; `None` if there is
    /// none. Fails if the database cannot be read.
    pub fn find_command_within(&self, run: RunId, id: &str) -> Result<Option<(RunId, CommandRecord)>, StoreError> {
        if let Some(runs) = &self.runs {
            return Ok(runs.find_command_within(run, id));
        }
        self.read_with(|db| {
            let sql = "with recursive within (run) as (select id from run where id = $1 union all \
                       select run.id from run join within on run.parent = within.run) \
                       select command.run from command join within on command.run = within.run where command.id = $2 \
                       order by command.run = $1 desc, command.run limit 1";
            let Some(run) = db.query_first(sql, params![&run.to_string(), id], read_id)?.flatten() else {
                return Ok(None);
            };
            Ok(super::read_command(db, run, id)?.map(|record| (run, record)))
        })
    }
}

fn read_id(row: &DbRow<'_>) -> Result<Option<RunId>, StoreError> {
    Ok(RunId::parse(&row.get::<String>(0)?))
}

/// Reads and locks the runs around a run, innermost first. They are locked from the outside in, as every transaction does
/// that concerns several of them.
pub(super) fn lock_ancestors(db: &DbConnection, run: RunId) -> Result<Vec<AncestorRun>, StoreError> {
    let mut ids = Vec::new();
    let mut next = read_parent(db, run)?;
    while let Some(parent) = next {
        ids.push(parent);
        next = read_parent(db, parent)?;
    }
    let sql = format!("select number, {HAS_WORKER_SQL}, finished_at is not null, epoch from run where id = $1");
    let mut ancestors = Vec::with_capacity(ids.len());
    for id in ids.into_iter().rev() {
        let read = |row: &DbRow<'_>| {
            let lease = ParentLease { has_worker: row.get(1)?, has_ended: row.get(2)?, epoch: row.get_count(3)? };
            Ok(AncestorRun { id, number: row.get(0)?, lease })
        };
        ancestors.extend(db.query_first_for_update(&sql, params![&id.to_string()], read)?);
    }
    ancestors.reverse();
    Ok(ancestors)
}

fn read_parent(db: &DbConnection, run: RunId) -> Result<Option<RunId>, StoreError> {
    let sql = "select parent from run where id = $1";
    let parent = db.query_first(sql, params![&run.to_string()], |row| row.get::<Option<String>>(0))?.flatten();
    Ok(parent.and_then(|parent| RunId::parse(&parent)))
}

/// Asks the runs around a child run that no worker drives to continue, because the child run has received `command`: up to
/// the first one that a worker drives. Returns the commands, and whether there is such a run.
pub(super) fn resume_ancestors(
    db: &DbConnection,
    ancestors: &[AncestorRun],
    child: RunId,
    command: &RunCommand,
    at: u64,
) -> Result<(Vec<CausedCommand>, bool), StoreError> {
    let mut caused = Vec::new();
    for ancestor in ancestors {
        if ancestor.lease.has_ended {
            break;
        }
        let resume = resume_command(child, command);
        if let Some(epoch) = insert_command(db, ancestor.id, ancestor.number, &resume, at)? {
            caused.push(CausedCommand { run: ancestor.id, epoch, command: resume });
        }
        if ancestor.lease.has_worker {
            return Ok((caused, true));
        }
    }
    Ok((caused, false))
}

/// The command to a run around the run `child`, which has received `command`.
pub(crate) fn resume_command(child: RunId, command: &RunCommand) -> RunCommand {
    RunCommand {
        id: format!("child-{child}-{}", command.id),
        sender: command.sender.clone(),
        action: CommandAction::RESUME,
    }
}

/// The command with which a record of the parent run cancels a child run. A child run that is retried with its parent run
/// can be cancelled again, so each record has a command of its own.
pub(crate) fn cancel_command(record: &Record) -> RunCommand {
    let (id, sender) = (format!("parent-ended-{}", record.seq), PARENT_SENDER.to_owned());
    RunCommand { id, sender, action: CommandAction::Cancel {} }
}

/// Whether a command is one that [`cancel_command`] makes.
pub(crate) fn is_cancelled_by_parent(command: &RunCommand) -> bool {
    command.sender == PARENT_SENDER
}

/// Which child runs a record of their parent run cancels.
pub(crate) enum CancelledChildren<'a> {
    /// All of them.
    All,
    /// Those of one step.
    OfStep(&'a Path),
    /// Those that none of these steps drives on. A step that is performed again drives on the last one that it has started.
    NotDrivenBy(HashSet<&'a Path>),
}

impl CancelledChildren<'_> {
    /// Whether a child run is one of them. `is_last` is whether its step has started none after it.
    pub(crate) fn includes_child(&self, step: &Path, is_last: bool) -> bool {
        match self {
            CancelledChildren::All => true,
            CancelledChildren::OfStep(path) => *path == step,
            CancelledChildren::NotDrivenBy(steps) => !(is_last && steps.contains(step)),
        }
    }
}

/// The child runs that a record cancels; `None` if it cancels none.
pub(crate) fn find_cancelled(record: &Record) -> Option<CancelledChildren<'_>> {
    match &record.event {
        Event::RunFinished { .. } => Some(CancelledChildren::All),
        // A step that fails at a time limit may have had no time to look at its child run.
        Event::StepAborted { .. } | Event::StepFailed { .. } => Some(CancelledChildren::OfStep(&record.path)),
        // A person may have retried a child run while its parent run had ended. Steps that are repeated from a step on start
        // others.
        Event::RunReopened { from, reset, continued, .. } => {
            let driving = if from.is_none() { reset.as_slice() } else { &[] };
            Some(CancelledChildren::NotDrivenBy(driving.iter().chain(continued).collect()))
        }
        _ => None,
    }
}

/// The rejections of the commands that must not retry a child run after this record of its parent run: those of steps that
/// were abandoned, and, if the parent run was reopened, those of persons, too.
pub(crate) fn reject_retries(pending: Vec<RunCommand>, record: &Record) -> Vec<DecidedCommand> {
    let (sender, is_reopened) = (retry_sender(record.run), matches!(record.event, Event::RunReopened { .. }));
    let retries = pending.into_iter().filter(|command| matches!(command.action, CommandAction::Retry { .. }));
    let rejected = retries.filter_map(|command| {
        let error = match command.sender == sender {
            true => StepFailure::new(Code::NothingToDo, "the step that retries the run was abandoned"),
            false if is_reopened => RunError::ParentNotEnded(record.run).into(),
            false => return None,
        };
        Some(DecidedCommand { id: command.id, outcome: CommandOutcome::Rejected(error) })
    });
    rejected.collect()
}

/// Whether a batch reopens a run by commands that are not pending any more, because the step that sent them was abandoned. A
/// batch that creates the run is a whole journal, whose commands were decided where it was written.
pub(crate) fn reopens_without_command(batch: &Batch, is_pending: impl Fn(&DecidedCommand) -> bool) -> bool {
    let is_reopened = |record: &Arc<Record>| matches!(record.event, Event::RunReopened { .. });
    let is_created = batch.records.first().is_some_and(|first| matches!(first.event, Event::RunCreated(_)));
    !is_created && batch.records.iter().any(is_reopened) && !batch.decided.iter().any(is_pending)
}

/// Cancels the unfinished child runs that a record cancels, and rejects the commands that would retry the others.
pub(crate) fn cancel_children(db: &DbConnection, record: &Record) -> Result<Vec<CausedCommand>, StoreError> {
    let Some(which) = find_cancelled(record) else { return Ok(Vec::new()) };
    let mut caused = Vec::new();
    for UnfinishedChild { id: child, number, step, is_last } in read_unfinished_children(db, record.run, &which)? {
        if !which.includes_child(&step, is_last) {
            continue;
        }
        let lock = "select finished_at is not null from run where id = $1";
        let has_ended = db.query_first_for_update(lock, params![&child.to_string()], |row| row.get::<bool>(0))?;
        if has_ended == Some(true) {
            let rejected = reject_retries(read_pending_commands(db, child)?, record);
            let count = write_decisions(db, child, &rejected, record.at)?;
            let sql = "update run set pending_commands = pending_commands - $1 where number = $2";
            db.execute_unchecked(sql, params![count, number])?;
            continue;
        }
        let cancel = cancel_command(record);
        if let Some(epoch) = insert_command(db, child, number, &cancel, record.at)? {
            caused.push(CausedCommand { run: child, epoch, command: cancel });
        }
    }
    Ok(caused)
}

/// A child run that has not ended, or that has a command.
struct UnfinishedChild {
    id: RunId,
    number: i64,
    step: Path,
    /// Whether its step has started none after it, as far as [`CancelledChildren::includes_child`] asks for it.
    is_last: bool,
}

/// The child runs of `parent` among which are those that `which` includes.
fn read_unfinished_children(
    db: &DbConnection,
    parent: RunId,
    which: &CancelledChildren<'_>,
) -> Result<Vec<UnfinishedChild>, StoreError> {
    let unfinished = "finished_at is null or pending_commands > 0";
    let read = |row: &DbRow<'_>| {
        let (id, number, is_last) = (RunId::parse(&row.get::<String>(0)?), row.get(1)?, row.get(3)?);
        let step = row.get::<Option<String>>(2)?.and_then(|path| Path::parse(&path)).unwrap_or_else(Path::root);
        Ok(id.map(|id| UnfinishedChild { id, number, step, is_last }))
    };
    let parent = parent.to_string();
    let children = match which {
        CancelledChildren::All => {
            let sql = format!("select id, number, parent_path, true from run where parent = $1 and ({unfinished})");
            db.query_rows(&sql, params![&parent], read)?
        }
        CancelledChildren::OfStep(path) => {
            let sql = format!(
                "select id, number, parent_path, true from run where parent = $1 and parent_path = $2 and ({unfinished})"
            );
            db.query_rows(&sql, params![&parent, path.as_str()], read)?
        }
        CancelledChildren::NotDrivenBy(_) => {
            let sql = format!(
                "select id, number, parent_path, is_last from (select id, number, parent_path, finished_at, pending_commands, \
                 coalesce(tree_number, 0) = max(coalesce(tree_number, 0)) over (partition by parent_path) as is_last \
                 from run where parent = $1) child where {unfinished}"
            );
            db.query_rows(&sql, params![&parent], read)?
        }
    };
    Ok(children.into_iter().flatten().collect())
}
