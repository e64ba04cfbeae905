//! Drives one run: polls its interpreter, stores what it produced, reports what is stored, and ends it.
//!
//! Each run is one future, with no task of its own. Everything the interpreter does between two suspensions is stored
//! together. Dropping the future abandons the run in the state of its journal.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::{Event, Record};
use flowloom_core::path::Path;
use flowloom_core::status::Status;

use crate::effects::{Boxed, Clock};
use crate::interpret::{Halt, Keeping, Walked};
use crate::journal::{Append, Journal, Wish};
use crate::log::{Mode, RunLog};

/// Sends signals to a run from its own process.
#[derive(Clone, Default)]
pub struct Control {
    inbox: Arc<Mutex<Inbox>>,
}

#[derive(Default)]
struct Inbox {
    wishes: Vec<Wish>,
    waker: Option<Waker>,
    /// Whether the run is no longer driven, so that nothing reads the inbox any more.
    is_closed: bool,
}

impl Control {
    /// Sends a signal; the run applies it at its next poll. Returns the signal if the run is no longer driven.
    pub fn wish(&self, wish: Wish) -> Result<(), Wish> {
        let waker = {
            let mut inbox = self.inbox();
            if inbox.is_closed {
                return Err(wish);
            }
            inbox.wishes.push(wish);
            inbox.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Cancels the run if it has not ended.
    pub fn cancel(&self, by: &str) {
        // A run that has ended needs no cancellation.
        let _ = self.wish(Wish::Cancel { by: by.to_owned() });
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, context: &Context<'_>) -> Vec<Wish> {
        let mut inbox = self.inbox();
        if !inbox.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            inbox.waker = Some(context.waker().clone());
        }
        std::mem::take(&mut inbox.wishes)
    }

    /// Rejects further signals and discards those that came too late.
    fn end(&self) {
        *self.inbox() = Inbox { is_closed: true, ..Inbox::default() };
    }

    /// Closes the inbox if it is empty; `false` if it holds unread signals.
    fn close(&self) -> bool {
        let mut inbox = self.inbox();
        inbox.is_closed = inbox.wishes.is_empty();
        inbox.is_closed
    }
}

/// The state in which driving a run ended.
#[derive(Debug)]
pub(crate) enum Driven {
    /// The run has ended.
    Finished,
    /// The run waits for people or decisions.
    Suspended,
    /// The journal failed; the run can be resumed from its stored events.
    Broken(StepError),
}

type Appending = (Vec<Arc<Record>>, Boxed<'static, Result<(), StepError>>);

/// The future of a run.
pub(crate) struct Drive {
    root: Option<Boxed<'static, Walked>>,
    log: Arc<RunLog>,
    journal: Arc<dyn Journal>,
    control: Control,
    appending: Option<Appending>,
    wishes: Option<Boxed<'static, Vec<Wish>>>,
    deadline: Option<Boxed<'static, ()>>,
    time_ms: u64,
    over: bool,
    suspended: bool,
    /// Whether to keep waiting for timers that wake a suspended run.
    timers: bool,
    keeping: Option<Keeping>,
}

impl Drive {
    pub(crate) fn new(
        root: Boxed<'static, Walked>,
        log: Arc<RunLog>,
        journal: Arc<dyn Journal>,
        control: Control,
    ) -> Drive {
        let wishes = if log.mode == Mode::Live { journal.wishes(log.lease.run) } else { None };
        Drive {
            root: Some(root),
            log,
            journal,
            control,
            appending: None,
            wishes,
            deadline: None,
            time_ms: 0,
            over: false,
            suspended: false,
            timers: true,
            keeping: None,
        }
    }

    /// Stores the run's conversation at its end.
    pub(crate) fn with_keeping(mut self, keeping: Option<Keeping>) -> Drive {
        self.keeping = keeping;
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
    pub(crate) fn already_cancelled(&mut self) {
        self.end(Status::Cancelled, StepError::new(Code::Cancelled, "the run was cancelled"));
    }

    /// Abandons the effects in flight and records the end.
    fn end(&mut self, status: Status, error: StepError) {
        if !self.over {
            // Dropping the interpreter aborts every effect, and each appends that to the log.
            self.root = None;
            self.finish(status, Some(error), None);
        }
    }

    fn finish(&mut self, status: Status, error: Option<StepError>, failed: Option<Path>) {
        self.over = true;
        let said = self.keeping.as_ref().and_then(Keeping::said);
        let event = Event::RunFinished { status, error, failed, said };
        if self.log.emit(&Path::root(), 0, event.clone()).is_err() {
            self.log.note(&Path::root(), 0, event);
        }
    }

    fn walked(&mut self, walked: Walked) -> Result<(), StepError> {
        self.root = None;
        match walked {
            Ok(_) | Err(Halt::Return(_)) => self.finish(Status::Succeeded, None, None),
            Err(Halt::Failed(error, path)) => self.finish(Status::Failed, Some(error), Some(path)),
            Err(Halt::Fatal(error, path)) => {
                if is_journal_error(error.code) {
                    return Err(error);
                }
                let status = match error.code {
                    Code::BudgetTokens | Code::BudgetMoney | Code::PriceUnknown => Status::BudgetExceeded,
                    Code::LimitTime => Status::TimedOut,
                    _ => Status::Failed,
                };
                self.finish(status, Some(error), Some(path));
            }
        }
        Ok(())
    }

    fn obey(&mut self, wishes: Vec<Wish>) {
        for wish in wishes {
            match wish {
                Wish::Cancel { by } if !self.over => {
                    self.log.note(&Path::root(), 0, Event::CancelRequested { by });
                    self.already_cancelled();
                }
                wish => {
                    self.suspended = false;
                    self.log.obey(wish);
                }
            }
        }
    }

    fn listen(&mut self, context: &mut Context<'_>) {
        let wishes = self.control.take(context);
        self.obey(wishes);
        while let Some(future) = &mut self.wishes {
            let Poll::Ready(wishes) = future.as_mut().poll(context) else { break };
            self.wishes = self.journal.wishes(self.log.lease.run);
            self.obey(wishes);
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            self.deadline = None;
            let message = format!("the run took longer than {} ms", self.time_ms);
            self.end(Status::TimedOut, StepError::new(Code::LimitTime, message));
        }
    }

    /// Stores pending events; `Ok(true)` if the state of the log changed.
    fn store(&mut self, context: &mut Context<'_>) -> Result<bool, StepError> {
        if let Some((records, append)) = &mut self.appending {
            let Poll::Ready(result) = append.as_mut().poll(context) else { return Ok(false) };
            let records = std::mem::take(records);
            self.appending = None;
            self.log.stored(&records, result)?;
            return Ok(true);
        }
        match self.log.submit() {
            None => Ok(false),
            Some((records, Append::Done(result))) => self.log.stored(&records, result).map(|()| true),
            Some((records, Append::Later(append))) => {
                self.appending = Some((records, append));
                Ok(true)
            }
        }
    }

    fn turn(&mut self, context: &mut Context<'_>) -> Result<Poll<Driven>, StepError> {
        loop {
            self.listen(context);
            if let Some(root) = &mut self.root
                && let Poll::Ready(walked) = root.as_mut().poll(context)
            {
                self.walked(walked)?;
            }
            if self.store(context)? {
                continue;
            }
            if self.appending.is_some() {
                return Ok(Poll::Pending);
            }
            if self.over {
                self.control.end();
                return Ok(Poll::Ready(Driven::Finished));
            }
            if self.log.deliver() {
                continue;
            }
            if !self.log.is_idle() {
                return Ok(Poll::Pending);
            }
            if self.log.mode == Mode::Replay {
                return Ok(Poll::Ready(Driven::Suspended));
            }
            if !self.suspended {
                self.suspended = true;
                let status = if self.log.is_uncertain() { Status::Uncertain } else { Status::Waiting };
                self.log.note(&Path::root(), 0, Event::RunSuspended { status });
                continue;
            }
            if self.timers && self.log.has_timers() {
                return Ok(Poll::Pending);
            }
            // An answer that arrived at the last moment must not be lost.
            if self.control.close() {
                return Ok(Poll::Ready(Driven::Suspended));
            }
        }
    }
}

impl Future for Drive {
    type Output = Driven;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Driven> {
        let turn = self.turn(context);
        self.log.publisher.wake();
        match turn {
            Ok(poll) => poll,
            Err(error) => {
                self.root = None;
                self.control.end();
                Poll::Ready(Driven::Broken(error))
            }
        }
    }
}

fn is_journal_error(code: Code) -> bool {
    matches!(
        code,
        Code::StoreFailed
            | Code::StoreFull
            | Code::StoreReadOnly
            | Code::StoreCorrupt
            | Code::StoreNewer
            | Code::StoreLocked
            | Code::OwnershipLost
            | Code::ReplayDivergence
    )
}
