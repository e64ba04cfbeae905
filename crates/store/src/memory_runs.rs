//! Runs stored in this process's memory and lost with it: for trials, and for benchmarks without a disk. Everything
//! else of a store (keys, memories, workflows) is still in the database.

mod children;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use flowloom_core::event::{Event, ParentStep, Record, RunCreated};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::trigger::RunTrigger;
use flowloom_runtime::JournalError;
use flowloom_runtime::command::{CommandRecord, RunCommand};
use flowloom_runtime::inbox::MemoryInbox;
use flowloom_runtime::journal::{Batch, Lease, LeaseState, scope_user};
use flowloom_runtime::remote::DriveState;
use parking_lot::{Mutex, MutexGuard};

use crate::commands::{CausedCommand, PostedCommand, reject_retry_in, reject_second_decision, reopens_without_command};
use crate::error::StoreError;
use crate::event_effects::status_after;
use crate::open_questions::OpenQuestions;
use crate::question_expiry::{ExpiryChange, QuestionExpiry, WaitingQuestion, find_expiry_change};
use crate::run_row::{RunFilter, RunRow};

/// Maximum number of finished runs to retain; the oldest are removed first.
const MAX_FINISHED_RUNS: usize = 1000;

/// The runs of this process.
#[derive(Default)]
pub struct MemoryRuns {
    state: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    runs: BTreeMap<RunId, MemoryRun>,
    /// The child runs of each run that has some, by the step that started them, in that order.
    children: HashMap<RunId, BTreeMap<Path, Vec<RunId>>>,
    /// The number of child runs of outermost runs, with theirs.
    tree_sizes: HashMap<RunId, u64>,
    finished: VecDeque<RunId>,
    expiries: BTreeSet<(QuestionExpiry, Path)>,
    /// The questions of runs that have ended. They are listed again when the run is reopened.
    suspended_expiries: BTreeSet<(QuestionExpiry, Path)>,
}

struct MemoryRun {
    row: RunRow,
    epoch: u64,
    records: Vec<Arc<Record>>,
    inbox: MemoryInbox,
    is_driven: bool,
}

impl MemoryRuns {
    fn lock_state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock()
    }

    /// Claims a run under a new epoch, for the step `parent` if there is one. Fails if there is no such run, or if the step may
    /// not drive it any more.
    pub fn claim_run(&self, run: RunId, parent: Option<&ParentStep>) -> Result<Lease, StoreError> {
        let mut state = self.lock_state();
        if let Some(parent) = parent {
            state.check_step(parent)?;
        }
        let stored = state.runs.get_mut(&run).ok_or(JournalError::RunNotFound(run))?;
        stored.epoch += 1;
        stored.is_driven = true;
        Ok(Lease { run, epoch: stored.epoch })
    }

    /// Releases a lease without checking the inbox.
    pub fn release_run(&self, lease: Lease) {
        let mut state = self.lock_state();
        if let Some(stored) = state.runs.get_mut(&lease.run).filter(|stored| stored.epoch == lease.epoch) {
            stored.is_driven = false;
        }
    }

    /// Appends a batch. Returns the commands to child runs that it causes, too. Fails if the lease is lost, if the run was
    /// created before or its step may not start it, or if the run has an event at one of these positions.
    pub fn append_batch(&self, lease: Lease, batch: &Batch) -> Result<(LeaseState, Vec<CausedCommand>), StoreError> {
        // All runs share the lock, so as little as possible happens under it.
        let new_run = match batch.records.first().map(|record| (record, &record.event)) {
            Some((record, Event::RunCreated(created))) => Some(MemoryRun::new(record, created, lease)),
            _ => None,
        };
        let mut state = self.lock_state();
        let appended = state.append_batch(lease, batch, new_run);
        let removed = state.remove_oldest_finished();
        drop(state);
        drop(removed);
        appended
    }

    /// Stores a command, of the step `parent` if there is one. Returns the commands to the runs around it that it causes, too.
    /// Fails if there is no such run, if the step may not retry it, or if the id belongs to another command of the run.
    pub fn post_command(
        &self,
        run: RunId,
        command: RunCommand,
        at: u64,
        parent: Option<&ParentStep>,
    ) -> Result<(PostedCommand, Vec<CausedCommand>), StoreError> {
        let mut state = self.lock_state();
        let stored = state.runs.get(&run).ok_or(JournalError::RunNotFound(run))?;
        let is_new = stored.inbox.find_command(&command.id).is_none();
        if let Some(parent) = parent {
            state.check_step(parent)?;
        } else if is_new
            && stored.row.finished_at.is_some()
            && command.action.needs_ended_run()
            && let Some(around) = state.find_unfinished_around(run)
        {
            let (has_worker, epoch) = (stored.is_driven, stored.epoch);
            let record = reject_retry_in(around, &command, at);
            return Ok((PostedCommand { record, has_worker, epoch }, Vec::new()));
        }
        let stored = state.runs.get_mut(&run).ok_or(JournalError::RunNotFound(run))?;
        let second = reject_second_decision(&stored.inbox.pending_commands(), &command, at);
        if let Some(record) = second.filter(|_| is_new && !stored.is_driven) {
            return Ok((PostedCommand { record, has_worker: false, epoch: stored.epoch }, Vec::new()));
        }
        let record = stored.inbox.post_command(command.clone(), at)?;
        let (epoch, mut caused, mut has_worker) = (stored.epoch, Vec::new(), stored.is_driven);
        if is_new && record.outcome.is_none() && !has_worker {
            (caused, has_worker) = state.resume_ancestors(run, &command, at);
        }
        Ok((PostedCommand { record, has_worker, epoch }, caused))
    }

    /// The run that must be driven so that `run` continues.
    pub fn find_driving_run(&self, run: RunId) -> RunId {
        let state = self.lock_state();
        let is_unfinished = |run: &RunId| state.runs.get(run).is_some_and(|stored| stored.row.finished_at.is_none());
        let outwards = std::iter::successors(Some(run), |run| state.find_driving_parent(*run).filter(is_unfinished));
        outwards.last().unwrap_or(run)
    }

    /// Whether a worker has the lease of a run, or a command to it is pending. A run that is not stored yet is driven.
    pub fn read_drive_state(&self, run: RunId) -> DriveState {
        let to_state =
            |stored: &MemoryRun| DriveState::new(stored.is_driven, !stored.inbox.pending_commands().is_empty());
        self.lock_state().runs.get(&run).map_or(DriveState::Driven, to_state)
    }

    /// The number of child runs of the outermost run around `run`, with theirs.
    pub(crate) fn count_tree_runs(&self, run: RunId) -> u64 {
        let state = self.lock_state();
        state.tree_sizes.get(&state.find_outermost(run)).copied().unwrap_or_default()
    }

    /// The child runs of a run, with theirs.
    pub fn list_runs_within(&self, run: RunId) -> Vec<RunId> {
        let state = self.lock_state();
        let (mut open, mut found) = (vec![run], Vec::new());
        while let Some(parent) = open.pop() {
            let children = state.list_children(parent);
            let start = found.len();
            found.extend(children);
            open.extend(&found[start..]);
        }
        found.sort_unstable();
        found
    }

    /// The unfinished runs within a run whose parent run has ended; none if the run has not.
    pub fn list_orphaned_runs(&self, run: RunId) -> Vec<RunId> {
        let state = self.lock_state();
        let (mut ended, mut orphans) = (vec![run], Vec::new());
        ended.retain(|run| !state.is_unfinished(*run));
        while let Some(parent) = ended.pop() {
            let children = state.list_children(parent);
            let (unfinished, finished): (Vec<_>, Vec<_>) = children.partition(|child| state.is_unfinished(*child));
            ended.extend(finished);
            orphans.extend(unfinished);
        }
        orphans
    }

    /// A command with this id to a run or to one of its child runs, with the run that received it.
    pub(crate) fn find_command_within(&self, run: RunId, id: &str) -> Option<(RunId, CommandRecord)> {
        self.lock_state().find_command_within(run, id)
    }

    /// A command to a run.
    pub fn find_command(&self, run: RunId, id: &str) -> Option<CommandRecord> {
        self.lock_state().runs.get(&run)?.inbox.find_command(id).cloned()
    }

    /// The pending commands of a run.
    pub fn pending_commands(&self, run: RunId) -> Vec<RunCommand> {
        self.lock_state().runs.get(&run).map(|stored| stored.inbox.pending_commands()).unwrap_or_default()
    }

    /// The records of a run after sequence number `after`. Fails if there is no such run.
    pub fn read_records(&self, run: RunId, after: u64) -> Result<Vec<Arc<Record>>, StoreError> {
        let state = self.lock_state();
        let stored = state.runs.get(&run).ok_or(JournalError::RunNotFound(run))?;
        // Sequence numbers start at 1 and have no gaps.
        Ok(stored.records.iter().skip(usize::try_from(after).unwrap_or(usize::MAX)).cloned().collect())
    }

    /// Whether the conversation of a run has a later turn.
    pub(crate) fn has_later_turn(&self, run: RunId) -> bool {
        let state = self.lock_state();
        let Some(MemoryRun { row: own, .. }) = state.runs.get(&run).filter(|own| own.row.thread_key.is_some()) else {
            return false;
        };
        let mut later = state.runs.range((Bound::Excluded(run), Bound::Unbounded)).map(|(_, later)| &later.row);
        later.any(|later| {
            let project = |row: &RunRow| row.project.as_ref().map(|project| project.name.clone());
            (&later.user, &later.thread_key) == (&own.user, &own.thread_key) && project(later) == project(own)
        })
    }

    /// Questions that have expired by `now`, the earliest first; at most `limit`.
    pub fn list_expired_questions(&self, now: u64, limit: u32) -> Vec<QuestionExpiry> {
        let state = self.lock_state();
        let expired = state.expiries.iter().map(|(expiry, _)| *expiry).take_while(|expiry| expiry.expires_at <= now);
        expired.take(limit as usize).collect()
    }

    /// Questions with a time limit that wait, those that expire first first; at most `limit`.
    pub fn list_waiting_questions(&self, limit: u32) -> Vec<WaitingQuestion> {
        let state = self.lock_state();
        let last_event = |run: &RunId| state.runs.get(run)?.records.last().map(|last| last.at);
        let waiting = state.expiries.iter().map(|(expiry, _)| WaitingQuestion {
            expiry: *expiry,
            last_event_at: last_event(&expiry.run).unwrap_or_default(),
        });
        waiting.take(limit as usize).collect()
    }

    /// Removes the question of a run that has ended from the lists until the run is reopened.
    pub fn suspend_expiry(&self, expiry: QuestionExpiry) {
        let state = &mut *self.lock_state();
        if state.runs.get(&expiry.run).is_some_and(|run| run.row.finished_at.is_some()) {
            state.suspended_expiries.extend(state.expiries.extract_if(.., |(known, _)| *known == expiry));
        }
    }

    /// Forgets when a question expires.
    pub fn forget_expiry(&self, expiry: QuestionExpiry) {
        self.lock_state().expiries.retain(|(known, _)| *known != expiry);
    }

    /// Deletes a run that has ended, with its child runs; `false` if it is in use, or belongs to a run that is kept.
    pub(crate) fn delete_run(&self, run: RunId) -> bool {
        let mut state = self.lock_state();
        let has_parent = state.find_parent(run).is_some_and(|parent| state.runs.contains_key(&parent));
        let within = state.list_within(run);
        let is_over = |run: &RunId| {
            let found = state.runs.get(run).filter(|run| run.row.finished_at.is_some() && !run.is_driven);
            found.is_some_and(|run| run.inbox.pending_commands().is_empty())
        };
        if has_parent || !within.iter().all(is_over) {
            return false;
        }
        state.finished.retain(|finished| !within.contains(finished));
        within.into_iter().for_each(|run| drop(state.remove_run(run)));
        true
    }

    /// The row of a run.
    pub fn get_run(&self, run: RunId) -> Option<RunRow> {
        self.lock_state().runs.get(&run).map(|stored| stored.row.clone())
    }

    /// The owner of the memory of a run.
    pub(crate) fn memory_owner(&self, run: RunId) -> Option<String> {
        let state = self.lock_state();
        let row = &state.runs.get(&run)?.row;
        Some(scope_user(row.project.as_ref().map_or("", |project| &project.name), &row.user))
    }

    /// Creation time of the oldest unfinished run; ids are ordered by creation.
    pub(crate) fn oldest_unfinished_at(&self) -> Option<u64> {
        let state = self.lock_state();
        let is_due = |row: &RunRow| row.finished_at.is_none() && !matches!(&*row.status, "waiting" | "uncertain");
        state.runs.values().find(|stored| is_due(&stored.row)).map(|stored| stored.row.created_at)
    }

    /// The open questions of all runs.
    pub(crate) fn count_open_questions(&self) -> OpenQuestions {
        let state = self.lock_state();
        let mut open = OpenQuestions::default();
        let unfinished = state.runs.values().filter(|stored| stored.row.finished_at.is_none());
        unfinished.for_each(|stored| open.add_run(&stored.records));
        open
    }

    /// Runs that match a filter, newest first.
    pub(crate) fn list_runs_matching(&self, filter: &RunFilter) -> Vec<RunRow> {
        let is = |wanted: &Option<String>, has: &String| wanted.as_ref().is_none_or(|wanted| wanted == has);
        let state = self.lock_state();
        let rows = state.runs.values().rev().map(|stored| &stored.row);
        let rows = rows.filter(|row| filter.before.is_none_or(|before| row.id < before));
        let rows = rows.filter(|row| filter.since.is_none_or(|since| row.created_at >= since));
        let rows = rows.filter(|row| {
            let workflow = row.workflow.as_ref().unwrap_or(&row.name);
            is(&filter.user, &row.user)
                && is(&filter.status, &row.status)
                && is(&filter.name, &row.name)
                && is(&filter.workflow, workflow)
                && is(&filter.format, &row.format)
                && (filter.thread_key.is_none() || filter.thread_key == row.thread_key)
                && (filter.forked_from.is_none() || filter.forked_from == row.forked_from)
                && filter.trigger.as_ref().is_none_or(|trigger| row.is_started_by(trigger))
        });
        rows.skip(filter.offset as usize).take(filter.limit as usize).cloned().collect()
    }
}

impl MemoryState {
    fn append_batch(
        &mut self,
        lease: Lease,
        batch: &Batch,
        new_run: Option<MemoryRun>,
    ) -> Result<(LeaseState, Vec<CausedCommand>), StoreError> {
        let records = batch.records.as_slice();
        if let Some(new_run) = new_run {
            if self.runs.contains_key(&lease.run) {
                return Err(JournalError::OwnershipLost.into());
            }
            if let Some(parent) = &new_run.row.parent {
                self.check_step(parent)?;
                let of_run = self.children.entry(parent.run).or_default();
                of_run.entry(parent.path.clone()).or_default().push(lease.run);
                *self.tree_sizes.entry(self.find_outermost(parent.run)).or_default() += 1;
            }
            self.runs.insert(lease.run, new_run);
        }
        let stored = self
            .runs
            .get_mut(&lease.run)
            .filter(|stored| stored.is_driven && stored.epoch == lease.epoch)
            .ok_or(JournalError::OwnershipLost)?;
        if let Some(known) = records.iter().find(|record| record.seq <= stored.records.len() as u64) {
            return Err(StoreError::EventExists { run: lease.run, seq: known.seq });
        }
        if reopens_without_command(batch, |decided| stored.inbox.is_pending(&decided.id)) {
            return Err(JournalError::OwnershipLost.into());
        }
        for record in records {
            if let Some(status) = status_after(&record.event) {
                status.name().clone_into(&mut stored.row.status);
            }
            match find_expiry_change(record) {
                Some(ExpiryChange::Added(expiry)) => drop(self.expiries.insert((expiry, record.path.clone()))),
                Some(ExpiryChange::Closed(path)) => {
                    self.expiries.retain(|(expiry, of)| expiry.run != lease.run || of != path);
                }
                Some(ExpiryChange::Reopened) => {
                    let of_run = |(expiry, _): &(QuestionExpiry, Path)| expiry.run == lease.run;
                    self.expiries.extend(self.suspended_expiries.extract_if(.., of_run));
                }
                None => {}
            }
            match &record.event {
                Event::RunFinished { .. } => {
                    stored.row.finished_at = Some(record.at);
                    self.finished.push_back(lease.run);
                }
                Event::RunReopened { .. } => {
                    stored.row.finished_at = None;
                    self.finished.retain(|finished| *finished != lease.run);
                }
                _ => {}
            }
        }
        let at = records.last().map_or(stored.row.created_at, |record| record.at);
        let lease_state = stored.inbox.apply_batch(batch, at);
        stored.is_driven = lease_state == LeaseState::Held;
        stored.records.extend_from_slice(records);
        let caused = records.iter().flat_map(|record| self.cancel_children(record)).collect();
        Ok((lease_state, caused))
    }

    /// Removes the oldest finished run if there are too many.
    fn remove_oldest_finished(&mut self) -> Option<MemoryRun> {
        if self.finished.len() <= MAX_FINISHED_RUNS {
            return None;
        }
        let oldest = self.finished.pop_front()?;
        self.remove_run(oldest)
    }

    fn remove_run(&mut self, run: RunId) -> Option<MemoryRun> {
        self.children.remove(&run);
        self.tree_sizes.remove(&run);
        self.expiries.retain(|(expiry, _)| expiry.run != run);
        self.suspended_expiries.retain(|(expiry, _)| expiry.run != run);
        self.runs.remove(&run)
    }

    /// A run and the runs within it.
    fn list_within(&self, run: RunId) -> Vec<RunId> {
        let mut within = vec![run];
        let mut index = 0;
        while let Some(run) = within.get(index) {
            let children = self.list_children(*run);
            within.extend(children);
            index += 1;
        }
        within
    }

    fn is_unfinished(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|stored| stored.row.finished_at.is_none())
    }
}

impl MemoryRun {
    fn new(record: &Record, created: &RunCreated, lease: Lease) -> MemoryRun {
        let (row, records) = (new_run_row(record, created), Vec::with_capacity(8));
        MemoryRun { row, epoch: lease.epoch, records, inbox: MemoryInbox::default(), is_driven: true }
    }
}

fn new_run_row(record: &Record, created: &RunCreated) -> RunRow {
    RunRow {
        id: record.run,
        created_at: record.at,
        finished_at: None,
        format: created.format.name().to_owned(),
        name: created.name.clone(),
        workflow: created.workflow.clone(),
        user: created.user.clone(),
        thread_key: created.thread_key.clone(),
        parent: created.parent.clone(),
        project: created.project.clone(),
        forked_from: created.fork.as_ref().map(|fork| fork.run),
        trigger: created.trigger.as_ref().map(RunTrigger::listed_part),
        status: "queued".to_owned(),
        is_driven: false,
        is_left: false,
    }
}
