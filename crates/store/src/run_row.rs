//! A row of the list of runs, and the filter of that list.

use std::collections::HashSet;

use flowloom_core::event::{ParentStep, RunProject};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;
use flowloom_core::trigger::RunTrigger;

use crate::checksum::{RunColumns, StatusColumns};
use crate::db::DbRow;
use crate::error::{Corruption, StoreError};

/// A run as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The run's id.
    pub id: RunId,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: u64,
    /// End time, in milliseconds since the Unix epoch; `None` while the run is unfinished.
    pub finished_at: Option<u64>,
    /// Format of the definition.
    pub format: String,
    /// Name of the definition.
    pub name: String,
    /// Id of the workflow, if the run was started from a stored one.
    pub workflow: Option<String>,
    /// User that owns the run.
    pub user: String,
    /// Key of the conversation in the user's memory, if the run is a turn of one.
    pub thread_key: Option<String>,
    /// The step that started it, if it is a child run.
    pub parent: Option<ParentStep>,
    /// The configuration under which it was started.
    pub project: Option<RunProject>,
    /// The run that it was forked from.
    pub forked_from: Option<RunId>,
    /// The trigger of the run, without the id of the call.
    pub trigger: Option<RunTrigger>,
    /// Name of the stored status.
    pub status: String,
    /// Whether a living process drives the run.
    pub is_driven: bool,
    /// Whether a command to the suspended run is pending that this process leaves to one with the configuration of the run.
    pub is_left: bool,
}

impl RunRow {
    /// Name of the status. A run that must continue and has no living worker was interrupted: it is stored as running, or it
    /// is suspended, and this process leaves its commands to another one.
    pub fn current_status(&self) -> &str {
        if self.is_interrupted() { Status::Interrupted.name() } else { &self.status }
    }

    fn is_interrupted(&self) -> bool {
        self.is_left || self.status == Status::Running.name() && !self.is_driven
    }

    /// Whether the run is suspended until it receives a command.
    pub(crate) fn is_suspended(&self) -> bool {
        SUSPENDED_STATUSES.iter().any(|status| status.name() == self.status)
    }

    /// Whether the run was started through the interface of a trigger, by its schedule or webhook if it names one.
    pub(crate) fn is_started_by(&self, trigger: &RunTrigger) -> bool {
        let own = self.trigger.as_ref().filter(|own| own.kind == trigger.kind);
        own.is_some_and(|own| trigger.id.is_none() || trigger.id == own.id)
    }
}

/// Reads rows of runs, twice if one of them seems to be interrupted. A run that starts or ends between the look at its row
/// and the look at its worker seems so once; one that was interrupted seems so both times.
pub(crate) fn read_settled_rows(read: impl Fn() -> Result<Vec<RunRow>, StoreError>) -> Result<Vec<RunRow>, StoreError> {
    let rows = read()?;
    let interrupted: HashSet<RunId> = rows.iter().filter(|row| row.is_interrupted()).map(|row| row.id).collect();
    if interrupted.is_empty() {
        return Ok(rows);
    }
    let mut rows = read()?;
    for row in rows.iter_mut().filter(|row| row.is_interrupted()) {
        let is_interrupted = interrupted.contains(&row.id);
        (row.is_driven, row.is_left) = (!is_interrupted, row.is_left && is_interrupted);
    }
    Ok(rows)
}

/// Filter for a list of runs. Fields that are `None` match every run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs of this user.
    pub user: Option<String>,
    /// Runs with this current status.
    pub status: Option<String>,
    /// Runs of definitions with this name.
    pub name: Option<String>,
    /// Runs of the workflow with this id, or of definitions with this name that have no id.
    pub workflow: Option<String>,
    /// Turns of the conversation stored under this key.
    pub thread_key: Option<String>,
    /// Runs of definitions in this format.
    pub format: Option<String>,
    /// Forks of this run.
    pub forked_from: Option<RunId>,
    /// Runs that were started through this interface and, if the trigger has an id, by this schedule or webhook.
    pub trigger: Option<RunTrigger>,
    /// Runs created before this one.
    pub before: Option<RunId>,
    /// Runs created at this time or later, in milliseconds since the Unix epoch.
    pub since: Option<u64>,
    /// Maximum number of runs returned.
    pub limit: u32,
    /// Number of matching runs to skip.
    pub offset: u32,
}

/// Columns of a run that [`StoredRunRow::read`] reads, in this order.
pub(crate) const RUN_COLUMNS: &str = "id, created_at, finished_at, format, name, status, worker, user_id, workflow, \
                                      thread_key, bundle, checksum, status_seq, status_checksum, number, \
                                      parent, parent_path, project, config, forked_from, pending_commands, trigger_kind, trigger_id";

/// Statuses of runs that are not driven until they receive a command.
pub(crate) const SUSPENDED_STATUSES: [Status; 3] = [Status::Waiting, Status::Uncertain, Status::Quarantined];

/// A row of the table `run` whose checksums are right.
pub(crate) struct StoredRunRow {
    pub(crate) row: RunRow,
    pub(crate) worker: Option<String>,
    pub(crate) bundle: String,
    /// Position of the last event when the status was set.
    pub(crate) status_seq: u64,
    /// Whether a command to the run is pending.
    pub(crate) has_commands: bool,
}

impl StoredRunRow {
    /// Reads and verifies a row. Fails with `StoreCorrupt` if it is damaged.
    pub(crate) fn read(row: &DbRow<'_>) -> Result<StoredRunRow, StoreError> {
        let number = row.get(14)?;
        let damaged = || StoreError::Corrupt(Corruption::RunRow { number });
        let id = row.get::<String>(0).ok().as_deref().and_then(RunId::parse).ok_or_else(damaged)?;
        let corrupt = |what: Corruption| StoreError::Corrupt(what);
        let stored = StoredRunRow::read_columns(row, id).map_err(|_| corrupt(Corruption::Run(id)))?;
        if stored.as_columns().checksum() != row.get::<i64>(11)? {
            return Err(corrupt(Corruption::Run(id)));
        }
        let StoredRunRow { row: RunRow { status, finished_at, .. }, .. } = &stored;
        let columns = StatusColumns { status, finished_at: *finished_at, seq: stored.status_seq };
        if columns.checksum(id) != row.get::<i64>(13)? || Status::parse(status).is_none() {
            return Err(corrupt(Corruption::RunStatus(id)));
        }
        Ok(stored)
    }

    fn read_columns(row: &DbRow<'_>, id: RunId) -> Result<StoredRunRow, StoreError> {
        let read = RunRow {
            id,
            created_at: row.get_count(1)?,
            finished_at: row.get::<Option<i64>>(2)?.map(|at| at as u64),
            format: row.get(3)?,
            name: row.get(4)?,
            workflow: row.get(8)?,
            user: row.get(7)?,
            thread_key: row.get(9)?,
            parent: read_parent(row)?,
            project: row.get::<Option<String>>(17)?.zip(row.get(18)?).map(|(name, config)| RunProject { name, config }),
            forked_from: row.get::<Option<String>>(19)?.as_deref().and_then(RunId::parse),
            trigger: read_trigger(row)?,
            status: row.get(5)?,
            is_driven: false,
            is_left: false,
        };
        Ok(StoredRunRow {
            row: read,
            worker: row.get(6)?,
            bundle: row.get(10)?,
            status_seq: row.get_count(12)?,
            has_commands: row.get_count(20)? > 0,
        })
    }

    fn as_columns(&self) -> RunColumns<'_> {
        let RunRow { id, created_at, format, name, workflow, user, thread_key, parent, .. } = &self.row;
        let RunRow { project, forked_from, trigger, .. } = &self.row;
        RunColumns {
            id: *id,
            created_at: *created_at,
            format,
            name,
            user,
            bundle: &self.bundle,
            workflow: workflow.as_deref(),
            thread_key: thread_key.as_deref(),
            parent: parent.as_ref(),
            project: project.as_ref(),
            forked_from: *forked_from,
            trigger: trigger.as_ref(),
        }
    }
}

fn read_parent(row: &DbRow<'_>) -> Result<Option<ParentStep>, StoreError> {
    let (run, path): (Option<String>, Option<String>) = (row.get(15)?, row.get(16)?);
    let run = run.as_deref().and_then(RunId::parse);
    let path = path.as_deref().and_then(Path::parse);
    Ok(run.zip(path).map(|(run, path)| ParentStep { run, path, epoch: None }))
}

fn read_trigger(row: &DbRow<'_>) -> Result<Option<RunTrigger>, StoreError> {
    let (kind, id): (Option<String>, Option<String>) = (row.get(21)?, row.get(22)?);
    Ok(kind.map(|kind| RunTrigger { kind: kind.into(), id, call: None, background: false }))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn running_row(number: u64, is_driven: bool) -> RunRow {
        RunRow {
            id: RunId::new(number, [0; 10]),
            created_at: 0,
            finished_at: None,
            format: "flow".into(),
            name: "flow".into(),
            workflow: None,
            user: "local".into(),
            thread_key: None,
            parent: None,
            project: None,
            forked_from: None,
            trigger: None,
            status: Status::Running.name().into(),
            is_driven,
            is_left: false,
        }
    }

    fn succeeded_row(number: u64) -> RunRow {
        RunRow { status: Status::Succeeded.name().into(), finished_at: Some(1), ..running_row(number, false) }
    }

    /// The rows that result if the database and the list of workers show these rows one after the other.
    fn read_statuses(readings: [Vec<RunRow>; 2]) -> Vec<String> {
        let readings = RefCell::new(readings.into_iter());
        let rows = read_settled_rows(|| Ok(readings.borrow_mut().next().expect("read at most twice")));
        rows.expect("read").iter().map(|row| row.current_status().to_owned()).collect()
    }

    #[test]
    fn a_run_that_ends_while_it_is_read_is_not_interrupted() {
        assert_eq!(read_statuses([vec![running_row(1, false)], vec![succeeded_row(1)]]), ["succeeded"]);
    }

    #[test]
    fn a_run_that_starts_while_others_are_read_again_is_not_interrupted() {
        let first = vec![running_row(1, false)];
        let second = vec![running_row(2, false), running_row(1, false)];
        assert_eq!(read_statuses([first, second]), ["running", "interrupted"]);
    }

    #[test]
    fn runs_that_are_driven_are_read_once() {
        assert_eq!(read_statuses([vec![running_row(1, true), succeeded_row(2)], Vec::new()]), ["running", "succeeded"]);
    }
}
