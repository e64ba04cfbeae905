//! The child runs of the calls in a record. The record of a retried run has calls that continued the child run of an earlier
//! attempt, and that of a fork has calls whose child run belongs to another run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_runtime::ResetAttempts;
use flowloom_runtime::child_run::find_child_run_id;
use flowloom_store::Store;

use crate::error::AppError;

/// Finds the child runs of calls, and reads each record for that only once.
pub(crate) struct ChildRunFinder<'s> {
    store: &'s Store,
    callers: HashMap<RunId, Option<CallingRun>>,
}

/// The calls of a run, as its record shows them.
struct CallingRun {
    reset: ResetAttempts,
    /// The attempts whose outcomes belong to the run that this one was forked from.
    reused: HashSet<(Path, u32)>,
    forked_from: Option<RunId>,
}

impl CallingRun {
    fn new(records: &[Arc<Record>]) -> CallingRun {
        let is_reused = |record: &&Arc<Record>| {
            matches!(record.event, Event::StepFinished { reused: true, .. } | Event::StepFailed { reused: true, .. })
        };
        let reused = records.iter().filter(is_reused).map(|record| (record.path.clone(), record.attempt));
        let forked_from = match records.first().map(|record| &record.event) {
            Some(Event::RunCreated(created)) => created.fork.as_ref().map(|fork| fork.run),
            _ => None,
        };
        CallingRun { reset: ResetAttempts::new(records), reused: reused.collect(), forked_from }
    }
}

impl<'s> ChildRunFinder<'s> {
    /// A finder of runs in a store.
    pub(crate) fn new(store: &'s Store) -> ChildRunFinder<'s> {
        ChildRunFinder { store, callers: HashMap::new() }
    }

    /// Gives the finder the record of a run, which it then does not read.
    pub(crate) fn add_caller(&mut self, run: RunId, records: &[Arc<Record>]) {
        self.callers.entry(run).or_insert_with(|| Some(CallingRun::new(records)));
    }

    /// The child run of an attempt of a step; `None` if the step started none, or if the child run was deleted. Fails
    /// if the record of a calling run is damaged.
    pub(crate) fn find_child(&mut self, run: RunId, path: &Path, attempt: u32) -> Result<Option<RunId>, AppError> {
        let (mut run, mut attempt) = (run, attempt);
        loop {
            self.read_caller(run)?;
            let Some(Some(caller)) = self.callers.get(&run) else { return Ok(None) };
            let earlier = caller.reset.last_attempt(path);
            match caller.forked_from.filter(|_| caller.reused.contains(&(path.clone(), attempt))) {
                Some(origin) => {
                    self.read_caller(origin)?;
                    let Some(Some(caller)) = self.callers.get(&origin) else { return Ok(None) };
                    // A fork counts the attempts of a step that a retry has reset from 1.
                    attempt += caller.reset.last_attempt(path);
                    run = origin;
                }
                None => return self.find_started(run, path, attempt, earlier),
            }
        }
    }

    /// The child run that an attempt of this run started, or that it continued because the run was retried after the attempt
    /// `earlier`.
    fn find_started(&self, run: RunId, path: &Path, attempt: u32, earlier: u32) -> Result<Option<RunId>, AppError> {
        let before = (1..=earlier).rev().filter(|before| *before < attempt);
        for attempt in std::iter::once(attempt).chain(before) {
            let child = find_child_run_id(run, path, attempt);
            if self.store.get_run(child)?.is_some() {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    fn read_caller(&mut self, run: RunId) -> Result<(), AppError> {
        if self.callers.contains_key(&run) {
            return Ok(());
        }
        let exists = self.store.get_run(run)?.is_some();
        let records = if exists { self.store.read_events(run, 0, u32::MAX)? } else { Vec::new() };
        let caller = exists.then(|| CallingRun::new(&records));
        self.callers.insert(run, caller);
        Ok(())
    }
}
