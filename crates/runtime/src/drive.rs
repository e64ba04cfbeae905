//! Drives one run: polls its interpreter, stores what it produced, reports what is stored, and ends it.
//!
//! Each run is one future, with no task of its own. Everything the interpreter does between two suspensions is stored
//! together. Dropping the future abandons the run in the state of its journal.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;
use flowloom_core::status::Status;

use crate::effects::{BoxFuture, Clock};
use crate::error::{JournalError, RunError};
use crate::interpret::{Interrupt, StepResult, ThreadStorage};
use crate::journal::{AppendResult, Journal, Signal};
use crate::log::{Mode, RunLog};

/// Sends signals to a run from its own process.
#[derive(Clone, Default)]
pub struct Control {
    inbox: Arc<Mutex<Inbox>>,
}

#[derive(Default)]
struct Inbox {
    signals: Vec<Signal>,
    waker: Option<Waker>,
    /// Whether the run is no longer driven, so that nothing reads the inbox any more.
    is_closed: bool,
}

impl Control {
    /// Sends a signal; the run applies it at its next poll. Returns the signal if the run is no longer driven.
    pub fn send_signal(&self, signal: Signal) -> Result<(), Signal> {
        let waker = {
            let mut inbox = self.lock_inbox();
            if inbox.is_closed {
                return Err(signal);
            }
            inbox.signals.push(signal);
            inbox.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Cancels the run if it has not ended.
    pub fn cancel_run(&self, by: &str) {
        // A run that has ended needs no cancellation.
        let _ = self.send_signal(Signal::Cancel { by: by.to_owned() });
    }

    fn lock_inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_signals(&self, context: &Context<'_>) -> Vec<Signal> {
        let mut inbox = self.lock_inbox();
        if !inbox.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            inbox.waker = Some(context.waker().clone());
        }
        std::mem::take(&mut inbox.signals)
    }

    /// Rejects further signals and discards those that came too late.
    fn close_inbox(&self) {
        *self.lock_inbox() = Inbox { is_closed: true, ..Inbox::default() };
    }

    /// Closes the inbox if it is empty; `false` if it holds unread signals.
    fn try_close(&self) -> bool {
        let mut inbox = self.lock_inbox();
        inbox.is_closed = inbox.signals.is_empty();
        inbox.is_closed
    }
}

/// The state in which driving a run ended.
#[derive(Debug)]
pub(crate) enum DriveResult {
    /// The run has ended.
    Finished,
    /// The run waits for people or decisions.
    Suspended,
    /// The journal failed; the run can be resumed from its stored events.
    Broken(RunError),
}

type PendingAppend = (Vec<Arc<Record>>, BoxFuture<'static, Result<(), JournalError>>);

/// The future of a run.
pub(crate) struct Drive {
    root: Option<BoxFuture<'static, StepResult>>,
    log: Arc<RunLog>,
    journal: Arc<dyn Journal>,
    control: Control,
    appending: Option<PendingAppend>,
    signals: Option<BoxFuture<'static, Vec<Signal>>>,
    deadline: Option<BoxFuture<'static, ()>>,
    time_ms: u64,
    over: bool,
    suspended: bool,
    /// Whether to keep waiting for timers that wake a suspended run.
    timers: bool,
    thread_storage: Option<ThreadStorage>,
}

impl Drive {
    pub(crate) fn new(
        root: BoxFuture<'static, StepResult>,
        log: Arc<RunLog>,
        journal: Arc<dyn Journal>,
        control: Control,
    ) -> Drive {
        let signals = if log.mode == Mode::Live { journal.next_signals(log.lease.run) } else { None };
        Drive {
            root: Some(root),
            log,
            journal,
            control,
            appending: None,
            signals,
            deadline: None,
            time_ms: 0,
            over: false,
            suspended: false,
            timers: true,
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
            self.deadline = Some(clock.sleep_until(start.saturating_add(time_ms)));
            self.time_ms = time_ms;
        }
        self
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

    fn apply_signals(&mut self, signals: Vec<Signal>) {
        for signal in signals {
            match signal {
                Signal::Cancel { by } if !self.over => {
                    self.log.append_event(&Path::root(), 0, Event::CancelRequested { by });
                    self.end_cancelled();
                }
                signal => {
                    self.suspended = false;
                    self.log.apply_signal(signal);
                }
            }
        }
    }

    fn receive_signals(&mut self, context: &mut Context<'_>) {
        let signals = self.control.take_signals(context);
        self.apply_signals(signals);
        while let Some(future) = &mut self.signals {
            let Poll::Ready(signals) = future.as_mut().poll(context) else { break };
            self.signals = self.journal.next_signals(self.log.lease.run);
            self.apply_signals(signals);
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            self.deadline = None;
            let message = format!("the run took longer than {} ms", self.time_ms);
            self.end_run(Status::TimedOut, StepFailure::new(Code::LimitTime, message));
        }
    }

    /// Stores pending events; `Ok(true)` if the state of the log changed.
    fn store_pending(&mut self, context: &mut Context<'_>) -> Result<bool, JournalError> {
        if let Some((records, append)) = &mut self.appending {
            let Poll::Ready(result) = append.as_mut().poll(context) else { return Ok(false) };
            let records = std::mem::take(records);
            self.appending = None;
            self.log.mark_stored(&records, result)?;
            return Ok(true);
        }
        match self.log.submit_pending() {
            None => Ok(false),
            Some((records, AppendResult::Done(result))) => self.log.mark_stored(&records, result).map(|()| true),
            Some((records, AppendResult::Later(append))) => {
                self.appending = Some((records, append));
                Ok(true)
            }
        }
    }

    fn poll_until_blocked(&mut self, context: &mut Context<'_>) -> Result<Poll<DriveResult>, RunError> {
        loop {
            self.receive_signals(context);
            if let Some(root) = &mut self.root
                && let Poll::Ready(result) = root.as_mut().poll(context)
            {
                self.handle_result(result)?;
            }
            if self.store_pending(context)? {
                continue;
            }
            if self.appending.is_some() {
                return Ok(Poll::Pending);
            }
            if self.over {
                self.control.close_inbox();
                return Ok(Poll::Ready(DriveResult::Finished));
            }
            if self.log.replay_next() {
                continue;
            }
            if !self.log.is_idle() {
                return Ok(Poll::Pending);
            }
            if self.log.mode == Mode::Replay {
                return Ok(Poll::Ready(DriveResult::Suspended));
            }
            if !self.suspended {
                self.suspended = true;
                let status = if self.log.is_uncertain() { Status::Uncertain } else { Status::Waiting };
                self.log.append_event(&Path::root(), 0, Event::RunSuspended { status });
                continue;
            }
            if self.timers && self.log.has_timers() {
                return Ok(Poll::Pending);
            }
            // An answer that arrived at the last moment must not be lost.
            if self.control.try_close() {
                return Ok(Poll::Ready(DriveResult::Suspended));
            }
        }
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
                self.control.close_inbox();
                Poll::Ready(DriveResult::Broken(error))
            }
        }
    }
}
