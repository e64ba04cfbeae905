//! A run's view of the journal: events waiting to be stored, and the record that a resume or replay follows.
//!
//! Live, an event is stored before anyone sees it, and what happens between two suspensions of the run is stored
//! together: the finish of one step and the start of the next are one commit. Following a record, every event that the
//! interpreter produces is found there by path, attempt and type and compared; recorded outcomes are handed over in the
//! order in which they happened, one at a time, so that replay does not depend on the order of polling.

mod activity;
mod child_runs;
mod earlier_effects;
mod forgotten;
mod outcome;
mod reset_attempts;
mod reuse;
mod suspension;
mod term;
mod timers;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, EventKind, Record, Resolution};
use flowloom_core::path::Path;
use flowloom_core::value::Value;
use parking_lot::{Mutex, MutexGuard};

use crate::command::{CommandOutcome, DecidedCommand};
use crate::divergence::{Divergence, compare_event};
use crate::effects::Clock;
use crate::error::JournalError;
use crate::journal::{AppendResult, Batch, Journal, Lease, LeaseState};
use crate::publish::Publisher;
pub(crate) use activity::{Activity, ActivityPause, ActivityScope, HostGuard};
use child_runs::ChildRuns;
pub(crate) use earlier_effects::{EarlierEffects, EarlierOutcome};
use forgotten::ForgottenAttempts;
pub(crate) use outcome::RecordedOutcome;
pub use reset_attempts::ResetAttempts;
pub(crate) use reuse::ReusableRecord;
pub use reuse::{AnsweredRequests, Response, ScriptValue};
use suspension::{ExpiryRounds, SuspendedStep};
use term::HeldTerm;
pub(crate) use timers::TimerKind;
use timers::Timers;

/// Whether a run may go beyond its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Performs effects that are not recorded.
    Live,
    /// Performs no effects; ends where the record ends.
    Replay,
}

/// The log of one run, shared by its interpreter and its driver.
pub(crate) struct RunLog {
    pub(crate) lease: Lease,
    pub(crate) mode: Mode,
    clock: Arc<dyn Clock>,
    journal: Arc<dyn Journal>,
    pub(crate) publisher: Publisher,
    immediate: bool,
    term: HeldTerm,
    /// Whether [`RunLog::is_following`] may be true, read without the lock.
    may_follow: AtomicBool,
    /// Whether there are attempts that no longer count, read without the lock.
    has_forgotten: AtomicBool,
    /// Whether [`RunLog::has_own_outcomes`].
    has_own_outcomes: AtomicBool,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    next_seq: u64,
    durable: u64,
    pending: Batch,
    now: Option<u64>,
    stored: Vec<Arc<Record>>,
    waiters: Vec<(u64, Waker)>,
    failure: Option<JournalError>,
    /// Whether an append has released the lease.
    is_released: bool,
    recorded: HashMap<RecordKey, Arc<Record>>,
    outcomes: BTreeSet<u64>,
    last_replayed: u64,
    turns: HashMap<u64, Waker>,
    live: bool,
    live_waiters: Vec<Waker>,
    active: usize,
    /// Paths of the blocks and functions in progress, which can have child effects.
    hosts: HashSet<Path>,
    timers: Timers,
    suspended: HashMap<Path, SuspendedStep>,
    expiry_rounds: ExpiryRounds,
    /// Questions that are about to expire.
    expiring: Vec<Waker>,
    answers: HashMap<Path, Value>,
    resolutions: HashMap<(Path, u32), Resolution>,
    children: ChildRuns,
    forgotten: ForgottenAttempts,
    /// The record that a fork can reuse of another run.
    reusable: Option<ReusableRecord>,
}

type RecordKey = (Path, u32, EventKind);

impl RunLog {
    /// The log of a run with the given records (empty for a new run).
    pub(crate) fn new(
        lease: Lease,
        mode: Mode,
        clock: Arc<dyn Clock>,
        journal: Arc<dyn Journal>,
        records: Vec<Arc<Record>>,
    ) -> RunLog {
        let mut state = LogState { next_seq: 1, ..LogState::default() };
        for record in &records {
            state.index_record(record);
        }
        let durable = state.next_seq - 1;
        state.durable = durable;
        state.live = state.outcomes.is_empty();
        state.stored = records;
        let immediate = journal.is_immediate();
        RunLog {
            lease,
            mode,
            clock,
            journal,
            publisher: Publisher::starting_after(durable),
            immediate,
            term: HeldTerm::new(),
            may_follow: AtomicBool::new(true),
            has_forgotten: AtomicBool::new(state.forgotten.has_attempts()),
            has_own_outcomes: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }

    /// Appends an event, or finds it in the record and returns the recorded one. Fails if the record differs.
    pub(crate) fn emit_event(
        &self,
        path: &Path,
        attempt: u32,
        event: Event,
    ) -> Result<Option<Arc<Record>>, Divergence> {
        let mut state = self.lock_state();
        if !state.recorded.is_empty() {
            if let Some(record) = state.recorded.remove(&(path.clone(), attempt, event.kind())) {
                compare_event(&record, &event)?;
                return Ok(Some(record));
            }
            state.check_order(path, attempt, event.kind())?;
        }
        if self.mode == Mode::Replay {
            let message = format!("the record has no {} at {path}, attempt {attempt}", event.name());
            return Err(Divergence::beyond_record(message));
        }
        self.push_event(&mut state, path, attempt, event);
        Ok(None)
    }

    /// Appends an event that does not come from the interpreter.
    pub(crate) fn append_event(&self, path: &Path, attempt: u32, event: Event) {
        if self.mode == Mode::Live {
            self.push_event(&mut self.lock_state(), path, attempt, event);
        }
    }

    /// Appends a progress report of a function, unless it was reported before a crash.
    pub(crate) fn report_progress(&self, path: &Path, name: &'static str, data: Value) {
        if self.take_record(path, 0, EventKind::Progress).is_none() {
            self.append_event(path, 0, Event::Progress { name: name.into(), data });
        }
    }

    fn push_event(&self, state: &mut LogState, path: &Path, attempt: u32, event: Event) {
        let seq = state.next_seq;
        state.next_seq += 1;
        // Events that are stored together share one reading of the clock.
        let at = *state.now.get_or_insert_with(|| self.clock.now_ms());
        let record = Record { run: self.lease.run, seq, at, path: path.clone(), attempt, event };
        state.pending.records.push(Arc::new(record));
    }

    /// The recorded outcome of an attempt, once it is its turn; `None` if none is recorded.
    pub(crate) async fn wait_for_outcome(&self, path: &Path, attempt: u32) -> Option<RecordedOutcome> {
        let record = {
            let mut state = self.lock_state();
            if state.recorded.is_empty() {
                return None;
            }
            let kinds = [EventKind::StepFinished, EventKind::StepFailed];
            kinds.into_iter().find_map(|kind| state.recorded.remove(&(path.clone(), attempt, kind)))?
        };
        poll_fn(|context| {
            let mut state = self.lock_state();
            if state.last_replayed >= record.seq || !state.outcomes.contains(&record.seq) {
                return Poll::Ready(());
            }
            state.turns.insert(record.seq, context.waker().clone());
            Poll::Pending
        })
        .await;
        RecordedOutcome::from_record(&record)
    }

    /// The recorded failure of an attempt that never started, because its request could not be built, once it is its turn.
    pub(crate) async fn wait_for_unstarted_failure(&self, path: &Path, attempt: u32) -> Option<RecordedOutcome> {
        let is_recorded = |kind| self.find_record(path, attempt, kind).is_some();
        if is_recorded(EventKind::StepStarted) || !is_recorded(EventKind::StepFailed) {
            return None;
        }
        self.wait_for_outcome(path, attempt).await
    }

    /// Whether the next events of the run may be recorded, or must wait for recorded ones. A run that follows no record
    /// any more never does again, unless it is reopened.
    pub(crate) fn is_following(&self) -> bool {
        if !self.may_follow.load(Ordering::Acquire) {
            return false;
        }
        let state = self.lock_state();
        let is_following =
            self.mode == Mode::Replay || !state.live || !state.recorded.is_empty() || state.reusable.is_some();
        self.may_follow.store(is_following, Ordering::Release);
        is_following
    }

    /// Whether an earlier worker may have sent an effect that must not be sent twice and whose start is recorded.
    pub(crate) fn may_have_sent(&self, started: &Record) -> bool {
        started.seq <= self.journal.stored_at_claim(self.lease)
    }

    /// This event of the record, which keeps it.
    pub(crate) fn find_record(&self, path: &Path, attempt: u32, kind: EventKind) -> Option<Arc<Record>> {
        let recorded = &self.lock_state().recorded;
        if recorded.is_empty() { None } else { recorded.get(&(path.clone(), attempt, kind)).cloned() }
    }

    /// Removes this event from the record and returns it.
    pub(crate) fn take_record(&self, path: &Path, attempt: u32, kind: EventKind) -> Option<Arc<Record>> {
        self.lock_state().recorded.remove(&(path.clone(), attempt, kind))
    }

    /// Completes when every recorded outcome has been handed over. No effect may be performed before that.
    pub(crate) async fn wait_until_live(&self) {
        poll_fn(|context| {
            let mut state = self.lock_state();
            if state.live {
                return Poll::Ready(());
            }
            state.live_waiters.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Completes when everything appended so far is stored.
    pub(crate) async fn wait_until_durable(&self) -> Result<(), JournalError> {
        if self.immediate {
            return self.store_now();
        }
        let seq = self.lock_state().next_seq - 1;
        poll_fn(|context| {
            let mut state = self.lock_state();
            if let Some(error) = &state.failure {
                return Poll::Ready(Err(error.clone()));
            }
            if state.durable >= seq {
                return Poll::Ready(Ok(()));
            }
            state.waiters.push((seq, context.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// Stores pending events in an immediate journal.
    pub(crate) fn store_now(&self) -> Result<(), JournalError> {
        match self.submit_pending() {
            None => Ok(()),
            Some((records, AppendResult::Done(result))) => self.mark_stored(&records, result).map(drop),
            // Unreachable for a journal that is immediate.
            Some((_, AppendResult::Later(_))) => {
                Err(JournalError::Failed(StepFailure::new(Code::StoreFailed, "the journal did not answer")))
            }
        }
    }

    /// Hands pending items to the journal: events, and decisions about commands.
    pub(crate) fn submit_pending(&self) -> Option<(Vec<Arc<Record>>, AppendResult)> {
        let batch = {
            let mut state = self.lock_state();
            if state.pending.is_empty() {
                return None;
            }
            // What follows on a lost event would leave a gap in the journal.
            if let Some(error) = &state.failure {
                return Some((Vec::new(), AppendResult::Done(Err(error.clone()))));
            }
            state.now = None;
            std::mem::take(&mut state.pending)
        };
        let records = batch.records.clone();
        self.term.note_sent(self.journal.lease_term().number);
        Some((records, self.journal.append_batch(self.lease, batch)))
    }

    /// Notes whether records were stored, and publishes them.
    pub(crate) fn mark_stored(
        &self,
        records: &[Arc<Record>],
        result: Result<LeaseState, JournalError>,
    ) -> Result<LeaseState, JournalError> {
        let mut state = self.lock_state();
        let lease_state = match result {
            Ok(lease_state) => lease_state,
            Err(error) => {
                state.failure = Some(error.clone());
                state.waiters.drain(..).for_each(|(_, waker)| waker.wake());
                return Err(error);
            }
        };
        self.term.note_stored();
        if let Some(last) = records.last() {
            state.durable = last.seq;
        }
        state.is_released |= lease_state == LeaseState::Released;
        state.stored.extend_from_slice(records);
        let durable = state.durable;
        let mut woken = Vec::new();
        state.waiters.retain(|(seq, waker)| {
            let ready = *seq <= durable;
            if ready {
                woken.push(waker.clone());
            }
            !ready
        });
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        crate::failpoint::hit("publish_before");
        self.publisher.publish_records(records);
        crate::failpoint::hit("publish_after");
        Ok(lease_state)
    }

    /// All stored records, in order.
    pub(crate) fn stored_records(&self) -> Vec<Arc<Record>> {
        self.lock_state().stored.clone()
    }

    /// Hands over the next recorded outcome, then starts live work; `false` when nothing is left to do.
    pub(crate) fn replay_next(&self) -> bool {
        let mut state = self.lock_state();
        // A script that a fork evaluates anew decides whether the next outcome is still awaited.
        if state.reusable.is_some() && !state.live && state.active > 0 {
            return false;
        }
        let woken: Vec<Waker> = match state.outcomes.pop_first() {
            Some(seq) => {
                state.last_replayed = seq;
                state.turns.remove(&seq).into_iter().collect()
            }
            // Live work starts only after the last outcome has had its effect, so that it cannot overtake it.
            None if !state.live => {
                state.live = true;
                std::mem::take(&mut state.live_waiters)
            }
            None => return false,
        };
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        true
    }

    /// The first recorded event that the interpreter should have produced and did not.
    pub(crate) fn find_unreplayed(&self) -> Option<Arc<Record>> {
        let state = self.lock_state();
        let mut left: Vec<&Arc<Record>> =
            state.recorded.values().filter(|record| record.event.is_interpreted()).collect();
        if left.is_empty() {
            return None;
        }
        // A block or function with a recorded outcome does not run again, so its child effects are not looked up.
        let asks =
            |event: &Event| matches!(event, Event::StepStarted { kind, .. } if matches!(&**kind, "python" | "call"));
        let askers: HashSet<&str> =
            state.stored.iter().filter(|record| asks(&record.event)).map(|record| record.path.as_str()).collect();
        left.retain(|record| !record.path.ancestors().any(|above| askers.contains(above)));
        left.into_iter().min_by_key(|record| record.seq).cloned()
    }

    /// Whether the run only waits for people, timers or decisions.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock_state();
        state.active == 0 && state.pending.is_empty() && state.live
    }

    /// Never completes: a branch whose effect was abandoned waits here until it is dropped.
    pub(crate) async fn wait_forever(&self) {
        std::future::pending::<()>().await;
    }

    /// Records the cancellation of the run, which a command asked for.
    pub(crate) fn record_cancellation(&self, by: String, command: String) {
        let mut state = self.lock_state();
        self.push_event(&mut state, &Path::root(), 0, Event::CancelRequested { by });
        state.pending.decided.push(DecidedCommand { id: command, outcome: CommandOutcome::Applied });
    }

    /// Releases the lease with the next append, unless a command is pending.
    pub(crate) fn request_release(&self) {
        self.lock_state().pending.releases_lease = true;
    }

    /// Whether an append has released the lease. Another driver of this process may hold the run since then.
    pub(crate) fn is_released(&self) -> bool {
        self.lock_state().is_released
    }

    /// Whether events can still be stored.
    pub(crate) fn is_open(&self) -> bool {
        self.lock_state().failure.is_none()
    }

    /// The current time, in milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }
}

impl LogState {
    /// Fails if the record has an event of this attempt that contradicts a new one: an attempt starts before its outcome, and
    /// has one only after the recorded start was followed. A step that fails before its first attempt has none.
    fn check_order(&self, path: &Path, attempt: u32, new: EventKind) -> Result<(), Divergence> {
        let contradicting: &[EventKind] = match new {
            EventKind::StepStarted => &[EventKind::StepFinished, EventKind::StepFailed],
            EventKind::StepFinished | EventKind::StepFailed => &[EventKind::StepStarted],
            _ => &[],
        };
        let is_recorded = |kind: &&EventKind| self.recorded.contains_key(&(path.clone(), attempt.max(1), **kind));
        match contradicting.iter().find(is_recorded) {
            Some(kind) => {
                let (was, is) = (kind.name(), new.name());
                let message =
                    format!("at {path}, attempt {attempt}, the record has {was}, and the replay produced {is}");
                Err(Divergence::new(message))
            }
            None => Ok(()),
        }
    }

    /// Indexes a record of an earlier session of the run.
    fn index_record(&mut self, record: &Arc<Record>) {
        self.next_seq = record.seq + 1;
        self.children.index_record(record);
        match &record.event {
            Event::Answered { value, .. } => {
                self.answers.insert(record.path.clone(), value.clone());
            }
            Event::Resolved { how, .. } => {
                self.resolutions.insert((record.path.clone(), record.attempt), how.clone());
            }
            // The decision was used. If there is no outcome, the effect is uncertain again.
            Event::StepResent => {
                let (path, attempt) = (record.path.clone(), record.attempt);
                self.resolutions.remove(&(path.clone(), attempt));
                self.recorded.remove(&(path, attempt, EventKind::StepUncertain));
                return;
            }
            Event::RunReopened { from, reset, continued, .. } => {
                self.reopen(reset, continued, from.is_none());
                return;
            }
            _ => {}
        }
        let key = (record.path.clone(), record.attempt, record.event.kind());
        // Composites finish with attempt 0 and have no outcome to hand over.
        let is_outcome = matches!(record.event, Event::StepFinished { .. } | Event::StepFailed { .. });
        if is_outcome && record.attempt > 0 {
            self.outcomes.insert(record.seq);
        }
        self.recorded.insert(key, record.clone());
    }
}
