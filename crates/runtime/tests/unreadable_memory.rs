//! A damaged memory fails the step that reads it: the failure is recorded, and the run ends. A memory that cannot be reached
//! stops the run, which continues later.

#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
mod world;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::Record;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Leaf, MemoryOperation, MemoryStep, Step};
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, JournalError, StartOptions};
use plans::{call_step, generate_spec, make_plan, make_step, python_step, story_step, variable_text};
use world::World;

/// A journal whose memory entries cannot be read for a reason, or can if there is none.
struct UnreadableMemory {
    inner: MemoryJournal,
    reason: Mutex<Option<JournalError>>,
    /// Number of reads that fail before the memory is back by itself.
    failures: AtomicU32,
}

impl UnreadableMemory {
    fn new(reason: JournalError) -> Arc<UnreadableMemory> {
        Arc::new(UnreadableMemory {
            inner: MemoryJournal::new(),
            reason: Mutex::new(Some(reason)),
            failures: AtomicU32::new(u32::MAX),
        })
    }

    fn check_reason(&self) -> Result<(), JournalError> {
        let is_back = self.failures.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err();
        match self.reason.lock().expect("not poisoned").clone() {
            Some(reason) if !is_back => Err(reason),
            _ => Ok(()),
        }
    }
}

impl Journal for UnreadableMemory {
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

    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        self.inner.append_batch(lease, batch)
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        self.inner.read(run, after)
    }

    fn read_memories<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        match self.check_reason() {
            Ok(()) => self.inner.read_memories(namespace),
            Err(reason) => Box::pin(async { Err(reason) }),
        }
    }

    fn read_memory<'a>(
        &'a self,
        namespace: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        match self.check_reason() {
            Ok(()) => self.inner.read_memory(namespace, key),
            Err(reason) => Box::pin(async { Err(reason) }),
        }
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        self.inner.pending_commands(run)
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        self.inner.next_commands(run)
    }
}

const OPERATIONS: [MemoryOperation; 3] = [MemoryOperation::Get, MemoryOperation::All, MemoryOperation::Profile];

/// A run of one step that reads the memory.
fn reading_run(operation: MemoryOperation) -> StartOptions {
    let step = MemoryStep { operation, prompt: variable_text("last"), has_default_prompt: false };
    run_of(make_step("read", Leaf::Memory(step)))
}

fn run_of(step: Step) -> StartOptions {
    StartOptions {
        limits: Limits::default(),
        ..StartOptions::new(
            Arc::new(make_plan(step)),
            Hash::of_bytes(b"bundle"),
            Value::map([("last", "{\"key\": \"city\"}".into())]),
            "local",
        )
    }
}

#[test]
fn a_damaged_memory_fails_the_step_and_the_run_ends() {
    for operation in OPERATIONS {
        let world = World::new(1);
        let damaged = StepFailure::new(Code::StoreCorrupt, "the memory entry is damaged");
        let engine = Engine::new(world.make_effects(), UnreadableMemory::new(JournalError::Failed(damaged)));
        let run = engine.start_run(reading_run(operation)).expect("accepted");
        let outcome = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
        let code = outcome.state.error.as_ref().map(|error| error.code);
        assert_eq!(outcome.broken, None, "{operation:?}");
        assert_eq!((outcome.state.status, code), (Status::Failed, Some(Code::StoreCorrupt)), "{operation:?}");
    }
}

#[test]
fn a_memory_that_stays_out_of_reach_stops_the_run_until_it_is_back() {
    for operation in OPERATIONS {
        let world = World::new(1);
        let outage = StepFailure::new(Code::StoreUnreachable, "the database cannot be reached");
        let journal = UnreadableMemory::new(JournalError::Unavailable(outage));
        let engine = Engine::new(world.make_effects(), journal.clone());
        let start = reading_run(operation);
        let (plan, run) = (start.plan.clone(), engine.start_run(start).expect("accepted"));
        let stopped = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
        assert!(stopped.broken.is_some_and(|error| error.is_outage()), "{operation:?}");
        assert_eq!(stopped.state.status, Status::Running, "no failure is recorded: {operation:?}");
        *journal.reason.lock().expect("not poisoned") = None;
        let resumed = world.clock.block_on(engine.resume_run(stopped.id, plan)).expect("no deadlock");
        let outcome = world.clock.block_on(resumed.expect("accepted").drive_to_end()).expect("no deadlock");
        assert_eq!((outcome.broken, outcome.state.status), (None, Status::Succeeded), "{operation:?}");
    }
}

#[test]
fn a_memory_that_comes_back_does_not_stop_the_run() {
    for operation in OPERATIONS {
        let world = World::new(1);
        let outage = StepFailure::new(Code::StoreUnreachable, "the database cannot be reached");
        let journal = UnreadableMemory::new(JournalError::Unavailable(outage));
        journal.failures.store(20, Relaxed);
        let engine = Engine::new(world.make_effects(), journal);
        let run = engine.start_run(reading_run(operation)).expect("accepted");
        let outcome = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
        assert_eq!((outcome.broken, outcome.state.status), (None, Status::Succeeded), "{operation:?}");
    }
}

#[test]
fn an_effect_that_may_be_repeated_waits_for_the_store() {
    for (function, repeats) in [("stored", true), ("once stored", false)] {
        let world = World::new(1);
        let engine = Engine::new(world.make_effects(), Arc::new(MemoryJournal::new()));
        let start = run_of(call_step("a", function));
        let (plan, run) = (start.plan.clone(), engine.start_run(start).expect("accepted"));
        let stopped = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
        assert_eq!(stopped.broken.is_some_and(|error| error.is_outage()), repeats, "{function}");
        if !repeats {
            // It may have been sent.
            assert_eq!(stopped.state.status, Status::Failed);
            continue;
        }
        world.repair();
        let resumed = world.clock.block_on(engine.resume_run(stopped.id, plan)).expect("no deadlock");
        let outcome = world.clock.block_on(resumed.expect("accepted").drive_to_end()).expect("no deadlock");
        assert_eq!((outcome.broken, outcome.state.status), (None, Status::Succeeded));
    }
}

/// Quotas and definitions are read while a step is performed. A short outage delays it, whatever it does.
#[test]
fn an_effect_that_does_not_reach_the_store_for_a_while_is_repeated() {
    let generate = make_step("generate", Leaf::Generate(generate_spec()));
    for step in [call_step("a", "add"), generate, python_step("block"), story_step()] {
        let world = World::new(1);
        world.store_failures.store(20, Relaxed);
        let engine = Engine::new(world.make_effects(), Arc::new(MemoryJournal::new()));
        let name = step.key.clone();
        let run = engine.start_run(run_of(step)).expect("accepted");
        let outcome = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
        assert_eq!((outcome.broken, outcome.state.status), (None, Status::Succeeded), "{name:?}");
        assert!(world.store_failures.load(Relaxed) == 0, "{name:?}");
    }
}
