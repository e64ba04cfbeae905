//! Drives one run: polls its interpreter, stores its events, reports stored ones, and ends it.
//!
//! Each run is one future, with no task of its own. Everything the interpreter does between two suspensions is stored
//! together. Dropping the future abandons the run in the state of its journal.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::status::Status;

use crate::command::{CommandAction, ReceivedCommands, RunCommand};
use crate::effects::{BoxFuture, Clock};
use crate::error::{JournalError, RunError};
use crate::interpret::{Interrupt, StepResult, ThreadStorage};
use crate::journal::{AppendResult, Journal, LeaseState};
use crate::log::{Mode, RunLog};

/// Milliseconds for which a run must have nothing to do before it is put aside: waking it takes a while.
const MIN_SLEEP_MS: u64 = 1000;

/// The state in which driving a run ended.
#[derive(Debug)]
pub(crate) enum DriveResult {
    /// The run has ended.
    Finished,
    /// The run waits for people or decisions.
    Suspended,
    /// The run waits for timers, the first of which is due at this time, in milliseconds since the Unix epoch.
    Asleep(u64),
    /// The journal failed; the run can be resumed from its stored events.
    Broken(RunError),
}

type PendingAppend = (Vec<Arc<Record>>, BoxFuture<'static, Result<LeaseState, JournalError>>);

/// The inbox of a run, as its driver sees it.
struct Inbox {
    received: ReceivedCommands,
    /// Commands that the journal delivers.
    delivery: BoxFuture<'static, Vec<RunCommand>>,
    /// The whole inbox is being read, because the journal did not release the lease, or a question is about to expire.
    reading: Option<BoxFuture<'static, Result<Vec<RunCommand>, JournalError>>>,
}

/// The future of a run.
pub(crate) struct Drive {
    root: Option<BoxFuture<'static, StepResult>>,
    log: Arc<RunLog>,
    journal: Arc<dyn Journal>,
    appending: Option<PendingAppend>,
    /// `None` for a replay, which receives no commands.
    inbox: Option<Inbox>,
    deadline: Option<BoxFuture<'static, ()>>,
    time_ms: u64,
    /// When the run is out of time, in milliseconds since the Unix epoch.
    ends_at: Option<u64>,
    over: bool,
    /// The status under which the run is suspended, as the record shows it; `None` if it is not.
    suspended: Option<Status>,
    /// Whether the lease is being released, so that nothing may be appended.
    releasing: bool,
    thread_storage: Option<ThreadStorage>,
}

impl Drive {
    pub(crate) fn new(root: BoxFuture<'static, StepResult>, log: Arc<RunLog>, journal: Arc<dyn Journal>) -> Drive {
        let inbox = (log.mode == Mode::Live).then(|| Inbox {
            received: ReceivedCommands::default(),
            delivery: journal.next_commands(log.lease.run),
            reading: None,
        });
        Drive {
            root: Some(root),
            log,
            journal,
            appending: None,
            inbox,
            deadline: None,
            time_ms: 0,
            ends_at: None,
            over: false,
            suspended: None,
            releasing: false,
            thread_storage: None,
        }
    }

    /// Stores the run's conversation at its end.
    pub(crate) fn with_thread_storage(mut self, keeping: Option<ThreadStorage>) -> Drive {
        self.thread_storage = keeping;
        self
    }

    /// Limits the run to `time_ms` milliseconds after `start`; then it ends as timed out.
    pub(crate) fn with_deadline(mut self, clock: &dyn Clock, start: u64, time_ms: Option<u64>) -> Drive {
        if let Some(time_ms) = time_ms {
            let elapsed = clock.now_ms().saturating_sub(start);
            self.deadline = Some(clock.sleep_for(time_ms.saturating_sub(elapsed)));
            self.time_ms = time_ms;
            self.ends_at = Some(start.saturating_add(time_ms));
        }
        self
    }

    /// Sets the status under which the record already shows the run as suspended.
    pub(crate) fn set_suspended(&mut self, status: Option<Status>) {
        self.suspended = status;
    }

    /// Receives the commands that were pending when the run was claimed.
    pub(crate) fn receive_pending(&mut self, commands: Vec<RunCommand>) {
        if let Some(inbox) = &mut self.inbox {
            inbox.received.receive(commands);
        }
    }

    /// Ends the run because its cancellation is already recorded.
    pub(crate) fn end_cancelled(&mut self) {
        self.end_run(Status::Cancelled, StepFailure::new(Code::Cancelled, "the run was cancelled"));
    }

    /// Abandons the effects in flight and records the end.
    fn end_run(&mut self, status: Status, error: StepFailure) {
        if !self.over {
            // Dropping the interpreter aborts every effect, and each appends that to the log.
            self.root = None;
            self.finish_run(status, Some(error), None);
        }
    }

    fn finish_run(&mut self, status: Status, error: Option<StepFailure>, failed: Option<Path>) {
        self.over = true;
        let thread = self.thread_storage.as_ref().and_then(ThreadStorage::to_memory_write);
        crate::failpoint::hit("run_finish_before");
        let event = Event::RunFinished { status, error, failed, thread };
        if self.log.emit_event(&Path::root(), 0, event.clone()).is_err() {
            self.log.append_event(&Path::root(), 0, event);
        }
    }

    fn handle_result(&mut self, result: StepResult) -> Result<(), RunError> {
        self.root = None;
        match result {
            Ok(_) | Err(Interrupt::Return(_)) => self.finish_run(Status::Succeeded, None, None),
            Err(Interrupt::Failed(error, path)) => self.finish_run(Status::Failed, Some(error), Some(path)),
            Err(Interrupt::Limit(status, error, path)) => self.finish_run(status, Some(error), Some(path)),
            Err(Interrupt::Broken(error)) => return Err(error),
        }
        Ok(())
    }

    /// Receives commands, and what else ends a run from outside. A cancellation is applied before the interpreter can
    /// start another effect.
    fn receive_commands(&mut self, context: &mut Context<'_>) -> Result<(), JournalError> {
        let cancellations = match &mut self.inbox {
            Some(inbox) => {
                inbox.poll_commands(context, &self.journal, self.log.lease.run)?;
                inbox.received.take_matching(|command| matches!(command.action, CommandAction::Cancel {}))
            }
            None => Vec::new(),
        };
        // The end of the run rejects further cancellations.
        if let Some(RunCommand { id, sender, .. }) = cancellations.into_iter().next()
            && !self.over
        {
            self.log.record_cancellation(sender, id);
            self.end_cancelled();
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            self.deadline = None;
            let message = format!("the run took longer than {} ms", self.time_ms);
            self.end_run(Status::TimedOut, StepFailure::new(Code::LimitTime, message));
        }
        Ok(())
    }

    /// Decides about the received commands; `false` if there are none to decide about. The interpreter must be blocked, so
    /// that every step that can wait for a person does, except for child effects of a block that is still running.
    fn decide_commands(&mut self) -> bool {
        let log = &self.log;
        let take = |inbox: &mut Inbox| inbox.received.take_matching(|command| !log.may_begin_to_wait(command));
        let commands = self.inbox.as_mut().map(take).unwrap_or_default();
        let has_any = !commands.is_empty();
        for command in commands {
            if self.log.decide_command(command) {
                self.suspended = None;
            }
        }
        has_any
    }

    /// Lets questions expire whose time has come; `false` if there are none. An answer counts that was stored in time,
    /// although this worker was not notified of it, so the whole inbox is read first.
    fn expire_questions(&mut self) -> bool {
        if !self.log.has_expiring_questions() {
            return false;
        }
        if self.inbox.as_ref().is_some_and(|inbox| inbox.reading.is_some()) {
            return false;
        }
        let is_new = self.log.start_expiry_round();
        if let Some(inbox) = self.inbox.as_mut().filter(|_| is_new) {
            inbox.read_all(&self.journal, self.log.lease.run);
            return true;
        }
        self.log.end_expiry_round();
        true
    }

    /// Stores pending events.
    fn store_pending(&mut self, context: &mut Context<'_>) -> Result<StoreProgress, JournalError> {
        if let Some((records, append)) = &mut self.appending {
            let Poll::Ready(result) = append.as_mut().poll(context) else { return Ok(StoreProgress::Waiting) };
            let records = std::mem::take(records);
            self.appending = None;
            return self.finish_append(&records, result);
        }
        match self.log.submit_pending() {
            None => Ok(StoreProgress::Idle),
            Some((records, AppendResult::Done(result))) => self.finish_append(&records, result),
            Some((records, AppendResult::Later(append))) => {
                self.appending = Some((records, append));
                Ok(StoreProgress::Changed)
            }
        }
    }

    fn finish_append(
        &mut self,
        records: &[Arc<Record>],
        result: Result<LeaseState, JournalError>,
    ) -> Result<StoreProgress, JournalError> {
        let lease_state = self.log.mark_stored(records, result)?;
        if lease_state == LeaseState::Released {
            crate::failpoint::hit("lease_released_after");
            return Ok(StoreProgress::Released);
        }
        if std::mem::take(&mut self.releasing)
            && let Some(inbox) = &mut self.inbox
        {
            inbox.read_all(&self.journal, self.log.lease.run);
        }
        Ok(StoreProgress::Changed)
    }

    fn poll_until_blocked(&mut self, context: &mut Context<'_>) -> Result<Poll<DriveResult>, RunError> {
        loop {
            if !self.releasing {
                self.receive_commands(context)?;
                if let Some(root) = &mut self.root
                    && let Poll::Ready(result) = root.as_mut().poll(context)
                {
                    self.handle_result(result)?;
                }
            }
            // What a fork reuses is stored together with its creation.
            let progress = if self.log.is_reusing() { StoreProgress::Idle } else { self.store_pending(context)? };
            match progress {
                StoreProgress::Changed => continue,
                StoreProgress::Waiting => return Ok(Poll::Pending),
                StoreProgress::Released if self.over => return Ok(Poll::Ready(DriveResult::Finished)),
                StoreProgress::Released => return Ok(Poll::Ready(DriveResult::Suspended)),
                StoreProgress::Idle => {}
            }
            if self.over && !self.log.is_reusing() {
                return Ok(Poll::Ready(DriveResult::Finished));
            }
            if self.log.replay_next() || self.decide_commands() || self.expire_questions() {
                continue;
            }
            if !self.log.is_idle() {
                return Ok(Poll::Pending);
            }
            if self.log.mode == Mode::Replay {
                return Ok(Poll::Ready(DriveResult::Suspended));
            }
            if !self.suspend_run() {
                return Ok(self
                    .find_wake_time()
                    .map_or(Poll::Pending, |until| Poll::Ready(DriveResult::Asleep(until))));
            }
        }
    }

    /// Suspends a run that only waits, and releases it unless a timer will wake it or its inbox is being read; `false` if
    /// there is nothing to store. A run whose question is about to expire is not suspended.
    fn suspend_run(&mut self) -> bool {
        if self.log.expires_soon(MIN_SLEEP_MS) {
            return false;
        }
        crate::failpoint::hit("suspend_before");
        let status = self.log.suspended_status();
        // A run that was woken by a timer may wait for something else now.
        let is_new = self.suspended.replace(status) != Some(status);
        if is_new {
            self.log.append_event(&Path::root(), 0, Event::RunSuspended { status });
        }
        let is_reading = self.inbox.as_ref().is_some_and(|inbox| inbox.reading.is_some());
        self.releasing = !self.log.has_timers() && !is_reading;
        if self.releasing {
            crate::failpoint::hit("lease_release_request");
            self.log.request_release();
        }
        is_new || self.releasing
    }
}

impl Drive {
    /// When a run that only waits for timers is to be woken; `None` if it is not put aside, because one of them is due soon.
    fn find_wake_time(&self) -> Option<u64> {
        let is_reading = self.inbox.as_ref().is_some_and(|inbox| inbox.reading.is_some());
        if is_reading || !self.journal.can_sleep() {
            return None;
        }
        let timers = [self.log.next_timer(), self.log.next_expiry()];
        let until = timers.into_iter().flatten().min()?;
        let until = self.ends_at.map_or(until, |ends_at| ends_at.min(until));
        (until >= self.log.now_ms().saturating_add(MIN_SLEEP_MS)).then_some(until)
    }
}

/// The result of storing pending events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreProgress {
    /// Nothing is pending.
    Idle,
    /// An append is in progress.
    Waiting,
    /// The state of the log changed.
    Changed,
    /// The lease was released, so that this worker no longer drives the run.
    Released,
}

impl Inbox {
    /// Receives the commands that have arrived.
    fn poll_commands(
        &mut self,
        context: &mut Context<'_>,
        journal: &Arc<dyn Journal>,
        run: RunId,
    ) -> Result<(), JournalError> {
        if let Some(reading) = &mut self.reading
            && let Poll::Ready(commands) = reading.as_mut().poll(context)
        {
            self.reading = None;
            self.received.receive(commands?);
        }
        while let Poll::Ready(commands) = self.delivery.as_mut().poll(context) {
            self.delivery = journal.next_commands(run);
            self.received.receive(commands);
        }
        Ok(())
    }

    /// Starts reading the whole inbox.
    fn read_all(&mut self, journal: &Arc<dyn Journal>, run: RunId) {
        let journal = journal.clone();
        self.reading = Some(Box::pin(async move { journal.pending_commands(run).await }));
    }
}

impl Future for Drive {
    type Output = DriveResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<DriveResult> {
        let turn = self.poll_until_blocked(context);
        self.log.publisher.wake_subscribers();
        match turn {
            Ok(poll) => poll,
            Err(error) => {
                self.root = None;
                Poll::Ready(DriveResult::Broken(error))
            }
        }
    }
}
