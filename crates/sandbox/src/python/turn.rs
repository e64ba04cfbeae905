//! The turn of a block: only so many blocks compute at the same time. Whether a block computes is determined by the
//! kernel, not by the block.

use std::sync::Arc;
use std::time::Duration;

use flowloom_runtime::fair::{FairPermit, FairSemaphore};
use tokio::time::Instant;

use super::watch::InterpreterWatch;
use crate::error::SandboxError;
use crate::meter::ComputingTime;

/// Time between two looks at a block.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Processor time that a block may use after it has given up its turn, to send a request or to fall asleep again.
const SPARE_TIME: Duration = Duration::from_millis(5);

/// How many times as long as its time limit a block may live, with the time in which it waits.
const LIFETIME_FACTOR: u32 = 30;

/// The turn of a block, which it gives up while it waits or sleeps, and the time that it has used.
pub(super) struct BlockTurn<'a> {
    turns: &'a FairSemaphore,
    user: &'a Arc<str>,
    permit: Option<FairPermit>,
    limit: Duration,
    time: ComputingTime<'a>,
    processor: ProcessorTime,
    /// The end of the block, whatever it does.
    end: Instant,
    next_look: Instant,
}

/// The processor time of an interpreter: when its block began, at the last look, and now.
#[derive(Default)]
struct ProcessorTime {
    began: Duration,
    seen: Duration,
    now: Duration,
}

impl<'a> BlockTurn<'a> {
    /// Waits for the turn of a block that may use `limit`.
    pub(super) async fn take_turn(
        turns: &'a FairSemaphore,
        user: &'a Arc<str>,
        limit: Duration,
        time: ComputingTime<'a>,
    ) -> BlockTurn<'a> {
        let permit = Some(turns.acquire_permit(user).await);
        let now = Instant::now();
        let (end, processor) = (now + limit * LIFETIME_FACTOR, ProcessorTime::default());
        BlockTurn { turns, user, permit, limit, time, processor, end, next_look: now }
    }

    /// The block begins now.
    pub(super) fn begin(&mut self, watch: Option<&InterpreterWatch>) {
        let used = watch.and_then(InterpreterWatch::read_processor_time).unwrap_or_default();
        self.processor = ProcessorTime { began: used, seen: used, now: used };
        let now = Instant::now();
        (self.end, self.next_look) = (now + self.limit * LIFETIME_FACTOR, now + LOOK_INTERVAL);
    }

    /// Time counts from now on, if the block computes or has nothing to wait for. Returns the end of its time.
    pub(super) fn start_time(&mut self, has_requests: bool) -> Instant {
        if has_requests && self.permit.is_none() {
            return self.end;
        }
        self.time.start();
        self.end.min(Instant::now() + self.limit.saturating_sub(self.time.elapsed()))
    }

    pub(super) fn pause_time(&mut self) {
        self.time.pause();
    }

    /// The error of a block whose time is over.
    pub(super) fn time_error(&self) -> SandboxError {
        SandboxError::BlockTimeExceeded { limit_ms: self.limit.as_millis() }
    }

    /// The block waits for its run.
    pub(super) fn leave_turn(&mut self, watch: Option<&InterpreterWatch>) {
        self.permit = None;
        self.processor.seen = watch.and_then(InterpreterWatch::read_processor_time).unwrap_or(self.processor.now);
    }

    pub(super) async fn retake_turn(&mut self) {
        if self.permit.is_none() {
            self.permit = Some(self.turns.acquire_permit(self.user).await);
        }
    }

    /// When to look at the block again.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks at the block: one that sleeps gives up its turn, and one that computes without a turn is stopped until it has
    /// one. Fails if it has computed for too long.
    pub(super) async fn check_block(&mut self, watch: Option<&InterpreterWatch>) -> Result<(), SandboxError> {
        self.next_look = Instant::now() + LOOK_INTERVAL;
        let Some(watch) = watch else { return Ok(()) };
        let Some(used) = watch.read_processor_time() else { return Ok(()) };
        let ProcessorTime { began, seen, .. } = self.processor;
        self.processor.now = used;
        self.time.raise_to(used.saturating_sub(began));
        if self.time.elapsed() > self.limit {
            return Err(self.time_error());
        }
        let since = used.saturating_sub(seen);
        match self.permit {
            Some(_) if since < LOOK_INTERVAL / 4 && watch.is_sleeping() => self.permit = None,
            None if since > SPARE_TIME => {
                watch.stop();
                self.retake_turn().await;
                watch.resume();
            }
            // What it has used since it gave up its turn adds up.
            None => return Ok(()),
            Some(_) => {}
        }
        self.processor.seen = used;
        self.next_look = Instant::now() + LOOK_INTERVAL;
        Ok(())
    }
}
