//! An effect that must not be sent twice, and whose start was not stored when the run was claimed, was not sent: a run that is
//! resumed from further events sends it.

#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
mod world;

use std::sync::Arc;

use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, JournalError, StartOptions};
use plans::{call_step, make_plan};
use world::World;

/// A journal of which only the events up to a position were stored when the run was claimed.
struct LateJournal {
    inner: Arc<MemoryJournal>,
    stored_seq: u64,
}

impl Journal for LateJournal {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.inner.begin_run(run)
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        self.inner.claim_run(run)
    }

    fn release_run(&self, lease: Lease) {
        self.inner.release_run(lease);
    }

    fn abandon_run(&self, lease: Lease) {
        self.inner.abandon_run(lease);
    }

    fn stored_at_claim(&self, _lease: Lease) -> u64 {
        self.stored_seq
    }

    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        self.inner.append_batch(lease, batch)
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        self.inner.read(run, after)
    }

    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        self.inner.read_memories(namespace)
    }

    fn read_memory<'a>(
        &'a self,
        namespace: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        self.inner.read_memory(namespace, key)
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        self.inner.pending_commands(run)
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        self.inner.next_commands(run)
    }
}

/// The status of a run that is resumed when the start of its effect is the last event, and how often the effect was sent then.
/// `count_stored` is the number of events that were stored when the run was claimed, of that many in all.
fn resume_started(count_stored: impl Fn(u64) -> u64) -> (Status, usize) {
    let (world, plan) = (World::new(1), Arc::new(make_plan(call_step("a", "once"))));
    let crash_after = |count: usize| {
        let journal = Arc::new(MemoryJournal::new());
        journal.crash_after(count);
        let start =
            StartOptions::new(plan.clone(), Hash::of_bytes(b"bundle"), Value::map([("last", "x".into())]), "local");
        let run = Engine::new(world.make_effects(), journal.clone()).start_run(start).expect("accepted");
        let stopped = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
        journal.end_crash();
        (stopped.id, journal)
    };
    let is_started =
        |records: &[Arc<Record>]| records.last().is_some_and(|last| matches!(last.event, Event::StepStarted { .. }));
    let mut crashes = (1..10).map(crash_after);
    let crash = crashes.find(|(run, journal)| is_started(&journal.run_records(*run)));
    let (run, journal) = crash.expect("a crash after the start of the step");
    world.sent.lock().expect("not poisoned").clear();
    let stored_seq = count_stored(journal.run_records(run).len() as u64);
    let late = Engine::new(world.make_effects(), Arc::new(LateJournal { inner: journal, stored_seq }));
    let resumed = world.clock.block_on(late.resume_run(run, plan));
    let run = resumed.expect("no deadlock").expect("accepted");
    let outcome = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
    (outcome.state.status, world.sent.lock().expect("not poisoned").len())
}

#[test]
fn an_effect_whose_start_was_stored_may_have_been_sent() {
    assert_eq!(resume_started(|count| count), (Status::Uncertain, 0));
}

#[test]
fn an_effect_whose_start_was_not_stored_is_sent() {
    assert_eq!(resume_started(|count| count - 1), (Status::Succeeded, 1));
}
