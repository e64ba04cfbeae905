//! The journal of a run in a session: batches are handed to the session, which has Restate store them before they are
//! stored as events.

use std::collections::HashSet;
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{ParentStep, Record};
use flowloom_core::id::RunId;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease, LeaseState, LeaseTerm};
use flowloom_runtime::relay::TextRelay;
use flowloom_runtime::{JournalError, RunCommand};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};

use crate::projection::ProjectionHandle;

/// A batch that waits to be stored.
pub(crate) struct AppendRequest {
    pub(crate) batch: Batch,
    pub(crate) reply: oneshot::Sender<Result<LeaseState, JournalError>>,
}

/// The state of a run when a session claims it.
pub(crate) struct SessionClaim {
    pub(crate) lease: Lease,
    pub(crate) was_asleep: bool,
    /// Position of the last event that was stored.
    pub(crate) stored_seq: u64,
    /// The commands that earlier attempts have decided about. One that was read before its decision was stored can still be
    /// delivered.
    pub(crate) decided: HashSet<String>,
    /// The events that were stored then, unless more are being stored.
    pub(crate) records: Option<Vec<Arc<Record>>>,
    /// Whether commands may have been pending.
    pub(crate) has_commands: bool,
}

/// The first data that the run reads, loaded when the run was claimed.
struct FirstReads {
    records: Option<Vec<Arc<Record>>>,
    has_no_commands: bool,
}

/// The journal of the run of one session.
pub(crate) struct SessionJournal {
    inner: Arc<dyn Journal>,
    /// The events that the run must have written before it reads.
    written: ProjectionHandle,
    lease: Lease,
    was_asleep: bool,
    stored_seq: u64,
    decided: HashSet<String>,
    first: Mutex<FirstReads>,
    sender: mpsc::UnboundedSender<AppendRequest>,
    /// When the run is to be woken, if it was put aside.
    asleep_until: Mutex<Option<u64>>,
}

impl SessionJournal {
    pub(crate) fn new(
        inner: Arc<dyn Journal>,
        written: ProjectionHandle,
        claim: SessionClaim,
    ) -> (Arc<SessionJournal>, mpsc::UnboundedReceiver<AppendRequest>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let SessionClaim { lease, was_asleep, stored_seq, decided, records, has_commands } = claim;
        let first = Mutex::new(FirstReads { records, has_no_commands: !has_commands });
        let asleep_until = Mutex::default();
        let journal =
            SessionJournal { inner, written, lease, was_asleep, stored_seq, decided, first, sender, asleep_until };
        (Arc::new(journal), receiver)
    }

    /// When the run is to be woken, in milliseconds since the Unix epoch; `None` if it was not put aside.
    pub(crate) fn asleep_until(&self) -> Option<u64> {
        *self.asleep_until.lock()
    }

    fn lock_first(&self) -> MutexGuard<'_, FirstReads> {
        self.first.lock()
    }
}

fn session_ended() -> JournalError {
    JournalError::Unavailable(StepFailure::new(Code::StoreFailed, "the session of the run has ended"))
}

impl Journal for SessionJournal {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.inner.begin_run(run)
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        match run == self.lease.run {
            true => Box::pin(async { Ok(self.lease) }),
            false => self.inner.claim_run(run),
        }
    }

    fn claim_child_run(&self, run: RunId, parent: ParentStep) -> BoxFuture<'_, Result<Lease, JournalError>> {
        self.inner.claim_child_run(run, parent)
    }

    fn release_run(&self, lease: Lease) {
        self.inner.release_run(lease);
    }

    /// Restate has the run driven again, by any worker.
    fn abandon_run(&self, lease: Lease) {
        self.inner.release_run(lease);
    }

    fn lease_term(&self) -> LeaseTerm {
        self.inner.lease_term()
    }

    /// The run is stored before its lease can be confirmed.
    fn confirm_lease(&self, lease: Lease) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            self.written.clone().wait_stored().await?;
            self.inner.confirm_lease(lease).await
        })
    }

    fn can_sleep(&self) -> bool {
        true
    }

    fn put_to_sleep(&self, _lease: Lease, until: u64) {
        *self.asleep_until.lock() = Some(until);
    }

    fn was_asleep(&self, _lease: Lease) -> bool {
        self.was_asleep
    }

    fn stored_at_claim(&self, _lease: Lease) -> u64 {
        self.stored_seq
    }

    fn append_batch(&self, _lease: Lease, batch: Batch) -> AppendResult {
        let (reply, replied) = oneshot::channel();
        if self.sender.send(AppendRequest { batch, reply }).is_err() {
            return AppendResult::Done(Err(session_ended()));
        }
        AppendResult::Later(Box::pin(async { replied.await.unwrap_or_else(|_| Err(session_ended())) }))
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        Box::pin(async move {
            let is_first = run == self.lease.run && after == 0;
            if let Some(records) = is_first.then(|| self.lock_first().records.take()).flatten() {
                return Ok(records);
            }
            self.written.clone().wait_stored().await?;
            self.inner.read(run, after).await
        })
    }

    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        Box::pin(async move {
            self.written.clone().wait_stored().await?;
            self.inner.read_memories(namespace).await
        })
    }

    fn read_memory<'a>(
        &'a self,
        namespace: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        Box::pin(async move {
            self.written.clone().wait_stored().await?;
            self.inner.read_memory(namespace, key).await
        })
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        Box::pin(async move {
            if run == self.lease.run && std::mem::take(&mut self.lock_first().has_no_commands) {
                return Ok(Vec::new());
            }
            self.written.clone().wait_stored().await?;
            self.inner.pending_commands(run).await
        })
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        let (inner, decided) = (self.inner.clone(), self.decided.clone());
        Box::pin(async move {
            loop {
                let mut commands = inner.next_commands(run).await;
                commands.retain(|command| !decided.contains(&command.id));
                if !commands.is_empty() {
                    return commands;
                }
            }
        })
    }

    fn text_relay(&self) -> Option<Arc<dyn TextRelay>> {
        self.inner.text_relay()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::ProjectionHandle;
    use flowloom_core::event::{Event, Record};
    use flowloom_core::path::Path;
    use flowloom_runtime::command::CommandAction;
    use flowloom_runtime::memory::MemoryJournal;

    #[tokio::test]
    async fn a_command_that_an_earlier_attempt_has_decided_about_is_not_received_again() {
        let (run, inner) = (RunId::new(0, [7; 10]), Arc::new(MemoryJournal::new()));
        let lease = inner.begin_run(run).expect("a new run");
        let record =
            Record { run, seq: 1, at: 0, path: Path::root(), attempt: 0, event: Event::RunStarted { epoch: 1 } };
        inner.append_batch(lease, Batch::with_records(vec![Arc::new(record)])).wait().await.expect("stored");
        for id in ["decided", "new"] {
            let command = RunCommand { id: id.into(), sender: "me".into(), action: CommandAction::RESUME };
            inner.post_command(run, command).expect("stored");
        }
        let decided = HashSet::from(["decided".to_owned()]);
        let claim =
            SessionClaim { lease, was_asleep: false, stored_seq: 1, decided, records: None, has_commands: true };
        let (journal, _appends) = SessionJournal::new(inner, ProjectionHandle::up_to_date(), claim);
        let received = journal.next_commands(run).await;
        assert_eq!(received.iter().map(|command| &*command.id).collect::<Vec<_>>(), ["new"]);
    }

    #[tokio::test]
    async fn what_was_read_with_the_claim_is_not_read_again_and_counts_once() {
        let (run, inner) = (RunId::new(0, [7; 10]), Arc::new(MemoryJournal::new()));
        let lease = inner.begin_run(run).expect("a new run");
        let record =
            Record { run, seq: 1, at: 0, path: Path::root(), attempt: 0, event: Event::RunStarted { epoch: 1 } };
        inner.append_batch(lease, Batch::with_records(vec![Arc::new(record)])).wait().await.expect("stored");
        let command = RunCommand { id: "late".into(), sender: "me".into(), action: CommandAction::RESUME };
        inner.post_command(run, command).expect("stored");
        let claim = SessionClaim {
            lease,
            was_asleep: false,
            stored_seq: 1,
            decided: HashSet::new(),
            records: Some(Vec::new()),
            has_commands: false,
        };
        let (journal, _appends) = SessionJournal::new(inner, ProjectionHandle::up_to_date(), claim);
        for count in [0, 1] {
            assert_eq!(journal.read(run, 0).await.expect("readable").len(), count);
            assert_eq!(journal.pending_commands(run).await.expect("readable").len(), count);
        }
    }
}
