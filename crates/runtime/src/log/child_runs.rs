//! Steps that wait for their child runs.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use flowloom_core::event::{ChildSuspension, Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;

use super::{LogState, RunLog};

/// The child runs of a run that are suspended.
#[derive(Default)]
pub(super) struct ChildRuns {
    /// The last suspension of each child run that has not continued, by the step and attempt that started it.
    recorded: HashMap<(Path, u32), ChildSuspension>,
    /// The steps that wait now, in the order in which they are woken.
    waiting: BTreeMap<(Path, u32), ChildWait>,
    /// Number of resume commands that the run has received.
    resume_count: u64,
}

struct ChildWait {
    status: Status,
    waker: Waker,
}

impl ChildRuns {
    /// Takes a stored record into account.
    pub(super) fn index_record(&mut self, record: &Arc<Record>) {
        let key = || (record.path.clone(), record.attempt);
        match &record.event {
            Event::ChildSuspended(child) => {
                self.recorded.insert(key(), child.clone());
            }
            Event::ChildResumed { .. } => {
                self.recorded.remove(&key());
            }
            _ => {}
        }
    }
}

impl RunLog {
    /// The status of the run while it only waits: uncertain if a decision is needed somewhere, quarantined if a child run
    /// is, otherwise waiting.
    pub(crate) fn suspended_status(&self) -> Status {
        let state = self.lock_state();
        let has_child = |status| state.children.waiting.values().any(|wait| wait.status == status);
        match state.has_uncertain_step() || has_child(Status::Uncertain) {
            true => Status::Uncertain,
            false if has_child(Status::Quarantined) => Status::Quarantined,
            false => Status::Waiting,
        }
    }

    /// Number of resume commands that the run has received.
    pub(crate) fn resume_count(&self) -> u64 {
        self.lock_state().children.resume_count
    }

    /// Records that the child run of a step is suspended, unless that is the last that was recorded of it, and waits until
    /// [`RunLog::resume_count`] is above `seen`.
    pub(crate) async fn wait_for_child(&self, path: &Path, attempt: u32, child: ChildSuspension, seen: u64) {
        let key = (path.clone(), attempt);
        let status = child.status;
        {
            let mut state = self.lock_state();
            if state.children.recorded.get(&key) != Some(&child) {
                state.children.recorded.insert(key.clone(), child.clone());
                self.push_event(&mut state, path, attempt, Event::ChildSuspended(child));
            }
        }
        let _guard = ChildWaitGuard { log: self, key: &key };
        poll_fn(|context| {
            let mut state = self.lock_state();
            if state.children.resume_count > seen {
                return Poll::Ready(());
            }
            state.children.waiting.insert(key.clone(), ChildWait { status, waker: context.waker().clone() });
            Poll::Pending
        })
        .await;
    }

    /// Records that the child run of a step continues, if its suspension was recorded.
    pub(crate) fn record_child_resumed(&self, path: &Path, attempt: u32, run: RunId) {
        let mut state = self.lock_state();
        if state.children.recorded.remove(&(path.clone(), attempt)).is_some() {
            self.push_event(&mut state, path, attempt, Event::ChildResumed { run });
        }
    }

    /// Wakes the steps that wait for child runs. Returns whether there are any.
    pub(super) fn wake_child_waits(&self, state: &mut LogState) -> bool {
        state.children.resume_count += 1;
        let woken = std::mem::take(&mut state.children.waiting);
        let has_any = !woken.is_empty();
        woken.into_iter().for_each(|(_, wait)| wait.waker.wake());
        has_any
    }
}

/// Removes a step from the waiting ones when its branch ends or its wait is over.
struct ChildWaitGuard<'a> {
    log: &'a RunLog,
    key: &'a (Path, u32),
}

impl Drop for ChildWaitGuard<'_> {
    fn drop(&mut self) {
        self.log.lock_state().children.waiting.remove(self.key);
    }
}
