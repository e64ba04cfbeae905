//! Stores the batches that Restate has as events, in their order, while the run already continues.
//!
//! Restate has fenced the run and holds the batch, so nothing is lost if this process dies before a batch is stored: the next
//! attempt stores it. A reader of what a batch changes waits for it first, and then it is stored immediately; other
//! batches are gathered for a moment, because a commit costs much more than a batch in it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use flowloom_core::event::Event;
use flowloom_core::hash::Hash;
use flowloom_core::plan::EffectClass;
use flowloom_runtime::JournalError;
use flowloom_runtime::journal::{Batch, Journal, Lease, LeaseState};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::entry::BatchEntry;
use crate::session::WorkerHost;

/// Delay before a batch is stored again that could not be stored.
const STORE_DELAY: Duration = Duration::from_millis(200);

/// Batches that a run may be ahead of the store.
const MAX_BATCHES_AHEAD: usize = 16;

/// Interval at which batches without a waiting reader are stored. All runs of a process have the same times, so that
/// their batches share a commit.
const GATHER_INTERVAL: Duration = Duration::from_millis(20);

/// A batch that Restate has.
struct PendingBatch {
    batch: Batch,
    /// The text that holds the batch until it is stored, if it is large.
    text: Option<Hash>,
}

/// How far the store is.
#[derive(Clone)]
struct Progress {
    stored: usize,
    /// Of the last batch that was stored, or why none can be stored any more.
    last: Result<LeaseState, JournalError>,
}

/// The projection of one session.
pub(crate) struct Projection {
    sender: mpsc::UnboundedSender<PendingBatch>,
    handle: ProjectionHandle,
    /// How many batches were handed over.
    handed_over: watch::Sender<usize>,
    storing: JoinHandle<()>,
}

/// Waits until batches are stored.
#[derive(Clone)]
pub(crate) struct ProjectionHandle {
    handed_over: watch::Receiver<usize>,
    progress: watch::Receiver<Progress>,
    /// How many batches a reader waits for.
    needed: Arc<watch::Sender<usize>>,
}

impl Drop for Projection {
    fn drop(&mut self) {
        self.storing.abort();
    }
}

impl Projection {
    pub(crate) fn start(host: Arc<dyn WorkerHost>, lease: Lease) -> Projection {
        let (sender, batches) = mpsc::unbounded_channel();
        let (handed_over, handed) = watch::channel(0);
        let (report, progress) = watch::channel(Progress { stored: 0, last: Ok(LeaseState::Held) });
        let (needed, waited_for) = watch::channel(0);
        let gathering = BatchGathering { batches, waited_for, taken: 0 };
        let storing = tokio::spawn(store_batches(host, lease, gathering, report));
        let handle = ProjectionHandle { handed_over: handed, progress, needed: Arc::new(needed) };
        Projection { sender, handle, handed_over, storing }
    }

    pub(crate) fn progress_handle(&self) -> ProjectionHandle {
        self.handle.clone()
    }

    /// Hands over a batch. Returns immediately, unless the run must know that it is stored.
    pub(crate) async fn store_batch(&self, entry: &BatchEntry, text: Option<Hash>) -> Result<LeaseState, JournalError> {
        let batch = entry.to_batch();
        let must_wait = must_be_stored(&batch);
        self.handed_over.send_modify(|count| *count += 1);
        if self.sender.send(PendingBatch { batch, text }).is_err() {
            return self.handle.clone().wait_stored().await;
        }
        match must_wait {
            true => self.progress_handle().wait_stored().await,
            false => self.progress_handle().wait_until_ahead(MAX_BATCHES_AHEAD).await,
        }
    }
}

/// Whether a run waits for the store before it goes beyond a batch: if the batch decides who drives the run next, if it
/// decides about commands, or if it starts an effect that must not be sent twice.
fn must_be_stored(batch: &Batch) -> bool {
    let is_decisive = |event: &Event| match event {
        Event::StepStarted { class, .. } => *class == EffectClass::AtMostOnce,
        Event::RunFinished { .. } | Event::RunSuspended { .. } => true,
        _ => false,
    };
    batch.releases_lease || !batch.decided.is_empty() || batch.records.iter().any(|record| is_decisive(&record.event))
}

impl ProjectionHandle {
    /// Of a session that has not handed over anything.
    #[cfg(test)]
    pub(crate) fn up_to_date() -> ProjectionHandle {
        let progress = Progress { stored: 0, last: Ok(LeaseState::Held) };
        let (handed_over, progress) = (watch::channel(0).1, watch::channel(progress).1);
        ProjectionHandle { handed_over, progress, needed: Arc::new(watch::channel(0).0) }
    }

    /// Waits until every batch that was handed over is stored.
    pub(crate) async fn wait_stored(mut self) -> Result<LeaseState, JournalError> {
        self.wait_until_ahead(0).await
    }

    /// Waits until at most `ahead` batches are not stored.
    async fn wait_until_ahead(&mut self, ahead: usize) -> Result<LeaseState, JournalError> {
        let wanted = self.handed_over.borrow().saturating_sub(ahead);
        self.needed.send_if_modified(|needed| {
            let is_more = *needed < wanted;
            *needed = wanted.max(*needed);
            is_more
        });
        let reached = self.progress.wait_for(|progress| progress.stored >= wanted || progress.last.is_err()).await;
        match reached {
            Ok(progress) => progress.last.clone(),
            Err(_) => Err(JournalError::OwnershipLost),
        }
    }

    /// Completes when no batch can be stored any more.
    pub(crate) async fn wait_for_failure(mut self) -> JournalError {
        match self.progress.wait_for(|progress| progress.last.is_err()).await {
            Ok(progress) => progress.last.clone().err().unwrap_or(JournalError::OwnershipLost),
            Err(_) => JournalError::OwnershipLost,
        }
    }
}

/// The batches that are stored next.
struct BatchGathering {
    batches: mpsc::UnboundedReceiver<PendingBatch>,
    /// How many batches a reader waits for.
    waited_for: watch::Receiver<usize>,
    /// How many batches were taken.
    taken: usize,
}

impl BatchGathering {
    /// Takes the batches that are stored together: those that arrive until it is time to store, until a reader waits
    /// for one of them, or until they are many. Empty if no further ones arrive.
    async fn take_batches(&mut self) -> Vec<PendingBatch> {
        let BatchGathering { batches, waited_for, taken } = self;
        let mut waiting = Vec::new();
        if batches.recv_many(&mut waiting, MAX_BATCHES_AHEAD).await == 0 {
            return waiting;
        }
        let until = next_gathering_end();
        tokio::select! {
            biased;
            () = wait_until_needed(waited_for, *taken) => {}
            () = receive_until_many(batches, &mut waiting) => {}
            () = tokio::time::sleep_until(until) => {}
        }
        while waiting.len() < MAX_BATCHES_AHEAD
            && let Ok(batch) = batches.try_recv()
        {
            waiting.push(batch);
        }
        *taken += waiting.len();
        waiting
    }
}

/// Completes when a reader waits for a batch after the first `taken`.
async fn wait_until_needed(waited_for: &mut watch::Receiver<usize>, taken: usize) {
    if waited_for.wait_for(|needed| *needed > taken).await.is_err() {
        // No reader can wait any more.
        std::future::pending().await
    }
}

async fn receive_until_many(batches: &mut mpsc::UnboundedReceiver<PendingBatch>, waiting: &mut Vec<PendingBatch>) {
    while waiting.len() < MAX_BATCHES_AHEAD {
        let room = MAX_BATCHES_AHEAD - waiting.len();
        if batches.recv_many(waiting, room).await == 0 {
            return;
        }
    }
}

/// The next of the times at which batches are stored.
fn next_gathering_end() -> Instant {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let now = Instant::now();
    let first = *FIRST.get_or_init(|| now);
    let interval = GATHER_INTERVAL.as_micros().max(1);
    let left = interval - now.saturating_duration_since(first).as_micros() % interval;
    now + Duration::from_micros(u64::try_from(left).unwrap_or_default())
}

/// Stores batches, all that were gathered in one transaction.
async fn store_batches(
    host: Arc<dyn WorkerHost>,
    lease: Lease,
    mut gathering: BatchGathering,
    report: watch::Sender<Progress>,
) {
    loop {
        let mut waiting = gathering.take_batches().await;
        if waiting.is_empty() {
            return;
        }
        let count = waiting.len();
        let texts: Vec<Hash> = waiting.iter().filter_map(|pending| pending.text).collect();
        let last = store_together(&*host, lease, join_batches(waiting.drain(..))).await;
        if last.is_ok() {
            delete_texts(&*host, texts).await;
        }
        let has_failed = last.is_err();
        report.send_modify(|progress| {
            progress.stored += count;
            progress.last = last;
        });
        if has_failed {
            return;
        }
    }
}

fn join_batches(pending: impl Iterator<Item = PendingBatch>) -> Batch {
    let mut joined = Batch::default();
    for PendingBatch { batch, .. } in pending {
        joined.records.extend(batch.records);
        joined.decided.extend(batch.decided);
        joined.releases_lease |= batch.releases_lease;
    }
    // Those who follow the run look by themselves, but later.
    let is_end = |event: &Event| matches!(event, Event::RunFinished { .. } | Event::RunSuspended { .. });
    joined.is_announced = joined.records.iter().any(|record| is_end(&record.event));
    joined
}

/// Stores a batch, however long the database cannot be reached. Fails if another worker has the run.
async fn store_together(host: &dyn WorkerHost, lease: Lease, batch: Batch) -> Result<LeaseState, JournalError> {
    let journal: Arc<dyn Journal> = host.journal(lease.run);
    loop {
        match journal.append_batch(lease, batch.clone()).wait().await {
            // The store has reported the outage.
            Err(error) if error.is_outage() => tokio::time::sleep(STORE_DELAY).await,
            stored => return stored,
        }
    }
}

/// Deletes texts whose batches are stored. Left-over texts are harmless.
async fn delete_texts(host: &dyn WorkerHost, texts: Vec<Hash>) {
    for text in texts {
        if let Err(error) = host.delete_text(text).await {
            tracing::warn!("cannot delete a stored batch: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_core::event::Record;
    use flowloom_core::id::RunId;
    use flowloom_core::path::Path;

    fn batch_with(event: Event) -> Batch {
        let record = Record { run: RunId::new(0, [7; 10]), seq: 2, at: 0, path: Path::root(), attempt: 0, event };
        Batch::with_records(vec![Arc::new(record)])
    }

    #[test]
    fn a_run_waits_for_the_store_before_an_effect_that_must_not_be_sent_twice() {
        let started = |class| {
            let (kind, target, hash) = ("http".into(), "x".into(), Hash::of_bytes(b"x"));
            batch_with(Event::StepStarted { kind, target, hash, class })
        };
        assert!(must_be_stored(&started(EffectClass::AtMostOnce)));
        assert!(!must_be_stored(&started(EffectClass::AtLeastOnce)));
        assert!(must_be_stored(&Batch { releases_lease: true, ..Batch::default() }));
    }

    fn start_gathering(ready: usize) -> (mpsc::UnboundedSender<PendingBatch>, watch::Sender<usize>, BatchGathering) {
        let (sender, batches) = mpsc::unbounded_channel();
        let (needed, waited_for) = watch::channel(0);
        for _ in 0..ready {
            drop(sender.send(PendingBatch { batch: Batch::default(), text: None }));
        }
        (sender, needed, BatchGathering { batches, waited_for, taken: 0 })
    }

    async fn take_at_once(gathering: &mut BatchGathering) -> Option<usize> {
        let taken = tokio::time::timeout(Duration::ZERO, gathering.take_batches()).await;
        taken.ok().map(|taken| taken.len())
    }

    #[tokio::test]
    async fn batches_are_gathered_until_it_is_time_to_store_them() {
        let (sender, _needed, mut gathering) = start_gathering(1);
        let send_later = async {
            tokio::task::yield_now().await;
            drop(sender.send(PendingBatch { batch: Batch::default(), text: None }));
        };
        let (taken, ()) = tokio::join!(gathering.take_batches(), send_later);
        assert_eq!((taken.len(), gathering.taken), (2, 2));
    }

    #[tokio::test]
    async fn batches_that_somebody_waits_for_and_many_batches_are_stored_at_once() {
        let (_sender, needed, mut gathering) = start_gathering(3);
        needed.send_replace(1);
        assert_eq!(take_at_once(&mut gathering).await, Some(3));
        let (_sender, _needed, mut gathering) = start_gathering(MAX_BATCHES_AHEAD + 1);
        assert_eq!(take_at_once(&mut gathering).await, Some(MAX_BATCHES_AHEAD));
    }

    #[test]
    fn batches_that_wait_are_stored_together_and_in_order() {
        let batch = |seq| {
            let mut batch = batch_with(Event::RunStarted { epoch: seq });
            batch.releases_lease = seq == 2;
            PendingBatch { batch, text: None }
        };
        let joined = join_batches([batch(1), batch(2)].into_iter());
        let epochs: Vec<_> = joined.records.iter().map(|record| record.event.clone()).collect();
        assert_eq!(epochs, [Event::RunStarted { epoch: 1 }, Event::RunStarted { epoch: 2 }]);
        assert!(joined.releases_lease && !joined.is_announced);
    }

    #[test]
    fn the_end_of_a_run_is_announced() {
        let end = Event::RunSuspended { status: flowloom_core::status::Status::Waiting };
        let joined = join_batches([PendingBatch { batch: batch_with(end), text: None }].into_iter());
        assert!(joined.is_announced);
    }
}
