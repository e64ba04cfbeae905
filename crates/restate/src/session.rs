//! One session of a run: from the time at which a worker begins to drive it until it ends or waits.
//!
//! A session is a sequence of entries in Restate's journal, one for each batch of events. An attempt at a session first
//! receives the entries of earlier attempts. The first entry that is missing makes it live: it claims the run, stores the
//! events that may be missing, and has the run resumed from them. From then on, a batch is stored by Restate, and then the run
//! continues: an effect is sent after Restate has its start. The batch is stored as events at the same time (`projection.rs`).
//! A session that Restate gives up ends the effects in progress that must not be sent twice (`drain.rs`).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::event::Record;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::{Env, Plan};
use flowloom_core::state::RunState;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{Batch, Journal, Lease};
use flowloom_runtime::metrics::{ProcessEvent, count_event};
use flowloom_runtime::remote::ClaimedSession;
use flowloom_runtime::{Engine, JournalError, RunError, RunOutcome};
use restate_sdk::errors::HandlerError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use crate::claim::{HeldLease, claim_run};
use crate::drain::drain_session;
use crate::entry::{BatchEntry, Entry, InFlight, MAX_INLINE_BYTES};
use crate::journal::{AppendRequest, SessionClaim, SessionJournal};
use crate::projection::Projection;
use crate::service::SessionEnd;

/// How long the next batch of a run is awaited before its entry is begun: longer than a step whose effect takes no time.
const BATCH_WAIT: Duration = Duration::from_millis(2);

/// A run with what drives it.
pub struct OpenedRun {
    /// The engine of its bundle.
    pub engine: Engine,
    /// The plan of its bundle.
    pub plan: Arc<Plan>,
}

/// The services of the program that a worker needs.
pub trait WorkerHost: Send + Sync + 'static {
    /// The journal of a run.
    fn journal(&self, run: RunId) -> Arc<dyn Journal>;

    /// Reads the bundle of a run with these events. Fails if it is missing or cannot be used here.
    fn open_run(&self, run: RunId, records: Vec<Arc<Record>>) -> BoxFuture<'_, Result<OpenedRun, RunError>>;

    /// Claims a run. A lease with the epoch `given_up` is taken over from any worker: Restate has given the session to
    /// this worker. Fails with [`JournalError::RunOwned`] while another worker holds the run.
    fn claim_run(&self, run: RunId, given_up: Option<u64>) -> BoxFuture<'_, Result<ClaimedSession, JournalError>>;

    /// Asks for another session of a run. Fails if Restate is not reachable, or refuses.
    fn wake_run(&self, run: RunId) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Quarantines a run that this process has claimed, until a person resumes it, and releases it. Fails if the lease
    /// is lost, or if the journal cannot be written.
    fn quarantine_run(&self, lease: Lease) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Stores a text by its hash. Fails if the journal cannot be written.
    fn store_text(&self, hash: Hash, text: String) -> BoxFuture<'_, Result<(), JournalError>>;

    /// The text with this hash; `None` if it was deleted. Fails if the journal cannot be read.
    fn read_text(&self, hash: Hash) -> BoxFuture<'_, Result<Option<String>, JournalError>>;

    /// Deletes a text, unless a run uses it. Fails if the journal cannot be written.
    fn delete_text(&self, hash: Hash) -> BoxFuture<'_, Result<(), JournalError>>;

    /// Reports to operators how a session has ended.
    fn report_outcome(&self, outcome: &RunOutcome);
}

/// An attempt at a session.
pub(crate) struct SessionAttempt {
    host: Arc<dyn WorkerHost>,
    run: RunId,
    /// The epoch of the session that has put the run aside, if one has.
    asleep_epoch: Option<u64>,
    /// The batches of earlier attempts.
    replayed: Vec<BatchEntry>,
    in_flight: InFlight,
    live: Option<LiveSession>,
    /// The sessions that Restate has given up and that end their effects.
    draining: TaskTracker,
    /// The text of a batch that was too large for Restate's journal and is not stored as events yet.
    stored_elsewhere: Option<Hash>,
}

/// A session that drives its run.
pub(crate) struct LiveSession {
    held: HeldLease,
    journal: Arc<SessionJournal>,
    pub(crate) projection: Projection,
    pub(crate) appends: mpsc::UnboundedReceiver<AppendRequest>,
    pub(crate) driven: JoinHandle<RunOutcome>,
    /// The batch that the run waits for.
    pub(crate) pending: Option<PendingAppend>,
}

/// A batch that is not stored yet.
pub(crate) struct PendingAppend {
    pub(crate) append: AppendRequest,
    /// Whether Restate has it, so that the projection stores it.
    pub(crate) is_accepted: bool,
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        self.driven.abort();
    }
}

/// Restate gives an attempt up when it stops, or when it cannot reach this process. Sent requests must not be lost
/// then.
impl Drop for SessionAttempt {
    fn drop(&mut self) {
        let in_flight = std::mem::take(&mut self.in_flight);
        if let Some(live) = self.live.take().filter(|live| !live.held.is_given_back() && in_flight.has_at_most_once()) {
            self.draining.spawn(drain_session(live, in_flight));
        }
    }
}

impl SessionAttempt {
    pub(crate) fn new(
        host: Arc<dyn WorkerHost>,
        run: RunId,
        asleep_epoch: Option<u64>,
        draining: TaskTracker,
    ) -> SessionAttempt {
        let (replayed, in_flight) = (Vec::new(), InFlight::default());
        SessionAttempt { host, run, asleep_epoch, replayed, in_flight, live: None, draining, stored_elsewhere: None }
    }

    /// The name of the next entry.
    pub(crate) fn next_entry_name(&self) -> String {
        self.in_flight.next_name()
    }

    /// The lease of a run that was put aside, which this process keeps.
    pub(crate) fn keep_lease(&mut self) -> Option<Lease> {
        let live = self.live.as_mut()?;
        live.held.give_back();
        Some(live.held.lease())
    }

    /// Waits a moment for the next batch of a run that is driven here, so that Restate gets it together with the name of its
    /// entry. The name of an effect that takes longer is known to Restate while the effect is in progress.
    pub(crate) async fn await_batch(&mut self) {
        if let Some(LiveSession { pending, appends, .. }) = &mut self.live {
            // What arrives later is received when its entry has begun.
            drop(tokio::time::timeout(BATCH_WAIT, receive_batch(pending, appends)).await);
        }
    }

    /// Drives the run until there is something to store. Only called if Restate does not have the entry.
    pub(crate) async fn next_entry(&mut self) -> Result<Entry, HandlerError> {
        if self.live.is_none()
            && let Some(end) = self.go_live().await?
        {
            return Ok(Entry::Over(end));
        }
        let Some(live) = &mut self.live else { return Ok(Entry::Over(SessionEnd::Finished)) };
        let failing = live.projection.progress_handle();
        tokio::select! {
            biased;
            error = failing.wait_for_failure() => Err(error.into()),
            batch = receive_batch(&mut live.pending, &mut live.appends) => {
                let entry = live.to_entry(batch);
                self.shrink_entry(entry).await
            }
            outcome = &mut live.driven => {
                let outcome = outcome?;
                // The end of the session is the last that an attempt hears of.
                live.projection.progress_handle().wait_stored().await?;
                self.host.report_outcome(&outcome);
                match outcome.broken {
                    Some(error) if is_lasting(&error) => self.quarantine_live(&error).await.map(Entry::Over),
                    Some(error) => Err(error.into()),
                    None => Ok(Entry::Over(live.end(outcome.state.status.is_final()))),
                }
            }
        }
    }

    /// Quarantines a run that cannot be driven further. The engine has released it.
    async fn quarantine_live(&mut self, error: &RunError) -> Result<SessionEnd, HandlerError> {
        if let Some(mut live) = self.live.take() {
            live.held.give_back();
        }
        let held = self.claim_run().await?;
        self.quarantine_run(held, &error.to_string()).await
    }

    /// The entry of a batch. A large batch is stored elsewhere.
    async fn shrink_entry(&self, batch: BatchEntry) -> Result<Entry, HandlerError> {
        let text = serde_json::to_string(&batch)?;
        if text.len() <= MAX_INLINE_BYTES {
            return Ok(Entry::Batch(batch));
        }
        let (last_seq, hash) = (batch.last_seq(), Hash::of_bytes(text.as_bytes()));
        self.host.store_text(hash, text).await?;
        Ok(Entry::StoredBatch { last_seq, hash })
    }

    /// Takes an entry that Restate has. Returns the end of the session if it is that.
    pub(crate) async fn accept_entry(&mut self, entry: Entry) -> Result<Option<SessionEnd>, HandlerError> {
        let batch = match entry {
            Entry::Over(end) => {
                if let (Some(live), SessionEnd::Finished | SessionEnd::Waiting { until: None, .. }) =
                    (&mut self.live, end)
                {
                    live.held.give_back();
                }
                return Ok(Some(end));
            }
            Entry::Batch(batch) => batch,
            Entry::StoredBatch { last_seq, hash } => match self.load_batch(last_seq, hash).await? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        self.in_flight.note_records(&batch.records);
        let ends_run = batch.ends_run();
        let text = self.stored_elsewhere.take();
        match &mut self.live {
            Some(live) => live.store_batch(&batch, text).await?,
            None => self.replayed.push(batch),
        }
        if !ends_run {
            return Ok(None);
        }
        match &mut self.live {
            Some(live) => {
                live.held.give_back();
                self.host.report_outcome(&(&mut live.driven).await?);
            }
            None => self.store_replayed_end().await?,
        }
        Ok(Some(SessionEnd::Finished))
    }

    /// Reads a large batch. If its text was deleted, its events are stored, and are read instead.
    async fn load_batch(&mut self, last_seq: u64, hash: Hash) -> Result<Option<BatchEntry>, HandlerError> {
        if let Some(text) = self.host.read_text(hash).await? {
            if self.live.is_some() {
                self.stored_elsewhere = Some(hash);
            }
            return Ok(Some(serde_json::from_str(&text)?));
        }
        let seen = self.replayed.last().map_or(0, BatchEntry::last_seq);
        let mut records = self.host.journal(self.run).read(self.run, seen).await?;
        records.retain(|record| record.seq <= last_seq);
        let epoch = self.replayed.last().map_or(0, |batch| batch.epoch);
        Ok(Some(BatchEntry::of_stored(epoch, records)))
    }

    /// Claims the run and has it resumed. Returns the end of the session if there is nothing to drive.
    async fn go_live(&mut self) -> Result<Option<SessionEnd>, HandlerError> {
        let mut held = match self.claim_run().await {
            // It was deleted: the name of the service shows that it was in this database.
            Err(JournalError::RunNotFound(_)) => return Ok(Some(SessionEnd::Finished)),
            claimed => claimed?,
        };
        let ClaimedSession { lease, is_hopeless, has_commands } = held.claimed_session();
        if is_hopeless {
            return self.quarantine_run(held, "the workers that drove it have died").await.map(Some);
        }
        let inner = self.host.journal(self.run);
        let records = match inner.read(self.run, 0).await {
            Err(error) if error.is_lasting() => {
                return self.quarantine_run(held, &error.to_string()).await.map(Some);
            }
            read => read?,
        };
        let OpenedRun { engine, plan } = match self.host.open_run(self.run, records.clone()).await {
            Err(error) if is_lasting(&error) => return self.quarantine_run(held, &error.to_string()).await.map(Some),
            opened => opened?,
        };
        let was_asleep = self.replayed.is_empty() && self.asleep_epoch.is_some_and(|epoch| epoch + 1 == lease.epoch);
        let projection = Projection::start(self.host.clone(), lease);
        let stored_seq = records.last().map_or(0, |last| last.seq);
        // What earlier attempts did is stored after this.
        let records = Some(records).filter(|_| self.replayed.is_empty());
        let decided = self.decided_ids();
        let claim = SessionClaim { lease, was_asleep, stored_seq, decided, records, has_commands };
        let (journal, appends) = SessionJournal::new(inner, projection.progress_handle(), claim);
        let resumed = async {
            self.store_replayed(lease).await?;
            engine.with_journal(journal.clone()).resume_run(self.run, plan).await
        };
        match resumed.await {
            Ok(run) => {
                if !self.replayed.is_empty() {
                    count_event(ProcessEvent::RunReclaimed);
                    tracing::info!(run = %self.run, "continues a session that another attempt has begun");
                }
                let driven = run.spawn();
                self.live = Some(LiveSession { held, journal, projection, appends, driven, pending: None });
                Ok(None)
            }
            // The engine has released it.
            Err(RunError::Ended(_)) => {
                held.give_back();
                Ok(Some(SessionEnd::Finished))
            }
            Err(error) if is_lasting(&error) => self.quarantine_run(held, &error.to_string()).await.map(Some),
            Err(error) => Err(error.into()),
        }
    }

    /// Quarantines a run that no worker could drive: another attempt would fail, too.
    async fn quarantine_run(&self, mut held: HeldLease, why: &str) -> Result<SessionEnd, HandlerError> {
        let run = self.run;
        tracing::warn!(%run, "the run {run} is quarantined: {why}; to try again: flowloom resume {run}");
        self.host.quarantine_run(held.lease()).await?;
        held.give_back();
        Ok(SessionEnd::Waiting { epoch: held.lease().epoch, until: None })
    }

    /// Claims the run. While an effect of an earlier attempt is in progress that must not be sent twice, its worker keeps the
    /// run as long as it lives, because it knows how the effect ends.
    async fn claim_run(&self) -> Result<HeldLease, JournalError> {
        let given_up = self.replayed.last().map(|batch| batch.epoch).or(self.asleep_epoch);
        let known = given_up.filter(|_| !self.in_flight.has_at_most_once());
        claim_run(self.host.clone(), self.run, known).await
    }

    /// The commands that earlier attempts have decided about. The decisions may have been stored after the run was claimed.
    fn decided_ids(&self) -> HashSet<String> {
        self.replayed.iter().flat_map(BatchEntry::decided_ids).collect()
    }

    /// Stores the events and decisions of earlier attempts that are not stored yet.
    async fn store_replayed(&self, lease: Lease) -> Result<(), JournalError> {
        let journal = self.host.journal(self.run);
        let first = self.replayed.iter().find_map(|batch| batch.records.first());
        let before = first.map_or(0, |first| first.seq - 1);
        let stored = match first {
            Some(_) => journal.read(self.run, before).await?.last().map_or(before, |last| last.seq),
            None => before,
        };
        for batch in self.replayed.iter().filter_map(|batch| batch.to_batch_after(stored)) {
            journal.append_batch(lease, batch).wait().await?;
        }
        Ok(())
    }

    /// Stores the end of a run whose last attempt may not have got to that.
    async fn store_replayed_end(&self) -> Result<(), HandlerError> {
        let last = self.replayed.last().map_or(0, BatchEntry::last_seq);
        let journal = self.host.journal(self.run);
        if !journal.read(self.run, last.saturating_sub(1)).await?.is_empty() {
            return Ok(());
        }
        let mut held = self.claim_run().await?;
        self.store_replayed(held.lease()).await?;
        held.give_back();
        let records = journal.read(self.run, 0).await?;
        let (state, _) = RunState::up_to_illegal(records.iter().map(|record| &**record));
        self.host.report_outcome(&RunOutcome { id: self.run, state, records, env: Env::default(), broken: None });
        Ok(())
    }
}

/// The next batch of a run, which is then pending. One that is pending already is not accepted yet.
async fn receive_batch(
    pending: &mut Option<PendingAppend>,
    appends: &mut mpsc::UnboundedReceiver<AppendRequest>,
) -> Batch {
    if let Some(PendingAppend { append, .. }) = pending {
        return append.batch.clone();
    }
    // Without a sender, the run is not driven any more.
    let Some(append) = appends.recv().await else { return std::future::pending().await };
    let batch = append.batch.clone();
    *pending = Some(PendingAppend { append, is_accepted: false });
    batch
}

/// Whether every attempt to drive a run would fail in this way.
fn is_lasting(error: &RunError) -> bool {
    match error {
        RunError::Divergence(_) | RunError::OtherSemantics(_) | RunError::Corrupt(_) | RunError::Rejected(_) => true,
        RunError::Journal(error) => error.is_lasting(),
        _ => false,
    }
}

impl LiveSession {
    /// Has a batch that Restate has stored as events, and lets the run continue. Fails if another worker has the run.
    async fn store_batch(&mut self, batch: &BatchEntry, text: Option<Hash>) -> Result<(), JournalError> {
        if let Some(pending) = &mut self.pending {
            pending.is_accepted = true;
        }
        // The attempt may be given up meanwhile.
        let stored = self.projection.store_batch(batch, text).await;
        if let Some(PendingAppend { append, .. }) = self.pending.take() {
            // The run may have been dropped.
            let _ = append.reply.send(stored.clone());
        }
        stored.map(drop)
    }

    /// The run.
    pub(crate) fn run_id(&self) -> RunId {
        self.held.lease().run
    }

    /// The entry of a batch of the run.
    pub(crate) fn to_entry(&self, batch: Batch) -> BatchEntry {
        BatchEntry::new(self.held.lease(), batch)
    }

    /// The end of a session whose run is no longer driven.
    fn end(&self, is_final: bool) -> SessionEnd {
        match is_final {
            true => SessionEnd::Finished,
            false => SessionEnd::Waiting { epoch: self.held.lease().epoch, until: self.journal.asleep_until() },
        }
    }
}
