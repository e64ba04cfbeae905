//! Waiting for runs, wherever they are driven.

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::relay::TextRelay;
use flowloom_runtime::{RunError, RunOutcome};
use flowloom_store::RunRow;

use super::service::RunService;
use super::supervisor::{FinishedRun, RunCompletion};
use crate::error::AppError;

/// The shortest interval of polling a run that another worker drives.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The longest interval if only polling shows the end of the run.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The longest interval if the process that drives the run announces that it no longer does.
const MAX_NOTIFIED_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// How long the caller of a start waits until a server has stored it. A little longer than a write that does not get its turn.
const MAX_START_WAIT: Duration = Duration::from_millis(5_500);

impl RunService {
    /// Whether a worker drives a run or will: a run with status `queued` or `running` is reclaimed if its worker is dead.
    pub fn is_active(&self, id: RunId) -> bool {
        matches!(self.stored.store.get_run(id), Ok(Some(run)) if is_active_row(&run))
    }

    /// Waits until no worker drives a run.
    pub async fn wait_until_idle(&self, id: RunId) {
        self.live.wait_for_run(id).await;
        // The first look finds most runs ended.
        if !self.is_active(id) {
            return;
        }
        let mut polls = PollTimer::new(self.stored.store.text_relay(), id);
        // A change after the timer was made, and before the next look, is not missed.
        while self.is_active(id) {
            polls.wait_for_next().await;
            self.live.wait_for_run(id).await;
        }
    }

    /// Waits until the start of a new run is stored, so that only stored runs are acknowledged. Fails if storing failed.
    pub async fn wait_until_stored(&self, id: RunId, ending: Option<RunCompletion>) -> Result<(), AppError> {
        self.wait_for_first_commit(id).await?;
        let Some(ending) = ending else { return Ok(()) };
        if (ending.is_unstored() || ending.is_in_doubt() || self.stored.store.get_run(id)?.is_none())
            && let Some(ended) = ending.wait().await
        {
            ended.outcome.broken.clone().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Waits until the start of a new run is stored or has failed, at most for [`MAX_START_WAIT`] if a server stores it: the run
    /// waits for one that hangs, and the caller does not.
    async fn wait_for_first_commit(&self, id: RunId) -> Result<(), AppError> {
        let stored = self.live.wait_until_stored(id);
        let Some(unanswered) = self.stored.store.describe_unanswered_commit() else {
            stored.await;
            return Ok(());
        };
        let left = MAX_START_WAIT.saturating_sub(self.live.driven_for(id));
        tokio::time::timeout(left, stored).await.map_err(|_| unanswered.into())
    }

    /// Waits until no worker drives a run. Returns its outcome if this process drove it.
    pub async fn wait_until_ended(&self, id: RunId, ending: Option<RunCompletion>) -> Option<Arc<FinishedRun>> {
        if let Some(ending) = ending {
            let ended = ending.wait().await;
            if !ended.as_ref().is_some_and(|ended| continues_later(&ended.outcome)) {
                return ended;
            }
        }
        self.wait_until_idle(id).await;
        None
    }

    /// Waits at most `time` until no worker drives a run; the run continues afterwards.
    pub async fn wait_with_timeout(
        &self,
        id: RunId,
        ending: Option<RunCompletion>,
        time: Duration,
    ) -> Option<Arc<FinishedRun>> {
        let ended = async {
            self.wait_for_first_commit(id).await.ok()?;
            self.wait_until_ended(id, ending).await
        };
        tokio::time::timeout(time, ended).await.ok().flatten()
    }
}

/// Whether a run that this process no longer drives continues: a worker that has reclaimed it drives it, or one will when the
/// database or the engine can be reached again. A run whose creation met an outage does not exist; one that another process has
/// created first does.
fn continues_later(outcome: &RunOutcome) -> bool {
    let continues = |error: &RunError| error.is_ownership_lost() || (error.is_outage() && !outcome.records.is_empty());
    outcome.broken.as_ref().is_some_and(continues)
}

/// Whether a worker drives a run or will.
pub fn is_active_row(run: &RunRow) -> bool {
    let is_due = [Status::Queued, Status::Running].iter().any(|status| run.status == status.name());
    run.finished_at.is_none() && (run.is_driven || is_due)
}

/// Determines when to read a run that another worker drives next: immediately when its process announces that it no
/// longer drives the run, otherwise less and less often.
struct PollTimer {
    run: RunId,
    relay: Option<Arc<dyn TextRelay>>,
    withdrawn: BoxFuture<'static, ()>,
    interval: Duration,
}

impl PollTimer {
    fn new(relay: Option<Arc<dyn TextRelay>>, run: RunId) -> PollTimer {
        PollTimer { run, withdrawn: listen_to(relay.as_deref(), run), relay, interval: MIN_POLL_INTERVAL }
    }

    async fn wait_for_next(&mut self) {
        let longest = if self.relay.is_some() { MAX_NOTIFIED_POLL_INTERVAL } else { MAX_POLL_INTERVAL };
        match tokio::time::timeout(self.interval, &mut self.withdrawn).await {
            // Another worker may have claimed it since.
            Ok(()) => *self = PollTimer::new(self.relay.take(), self.run),
            Err(_) => self.interval = (self.interval * 2).min(longest),
        }
    }
}

fn listen_to(relay: Option<&dyn TextRelay>, run: RunId) -> BoxFuture<'static, ()> {
    match relay {
        Some(relay) => relay.wait_for_withdrawal(run),
        None => Box::pin(std::future::pending()),
    }
}

#[cfg(test)]
mod tests {
    use flowloom_runtime::SubscribeHandle;
    use flowloom_runtime::journal::Lease;
    use flowloom_runtime::relay::RelayedText;
    use futures_util::FutureExt as _;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    /// A relay that notifies immediately.
    struct EagerRelay;

    impl TextRelay for EagerRelay {
        fn announce_run(&self, _lease: Lease, _text: SubscribeHandle) {}

        fn withdraw_run(&self, _lease: Lease) {}

        fn follow_run(&self, _run: RunId) -> UnboundedReceiver<RelayedText> {
            unbounded_channel().1
        }

        fn wait_for_withdrawal(&self, _run: RunId) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    #[tokio::test]
    async fn a_run_is_looked_at_when_its_process_says_so_and_otherwise_seldom() {
        let run = RunId::new(0, [0; 10]);
        let mut notified = PollTimer::new(Some(Arc::new(EagerRelay)), run);
        for _ in 0..100 {
            notified.wait_for_next().now_or_never().expect("at once");
        }
        assert_eq!(notified.interval, MIN_POLL_INTERVAL);
        let mut alone = PollTimer::new(None, run);
        alone.wait_for_next().await;
        assert_eq!(alone.interval, 2 * MIN_POLL_INTERVAL);
        alone.interval = MIN_POLL_INTERVAL / 100;
        for _ in 0..8 {
            alone.wait_for_next().await;
        }
        assert!(alone.interval > 2 * MIN_POLL_INTERVAL && alone.interval <= MAX_POLL_INTERVAL);
    }
}
