//! A memory that cannot be read fails the step that reads it: the failure is recorded, and the run ends.

#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
mod world;

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::Record;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Leaf, MemoryOperation, MemoryStep};
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::journal::{AppendResult, Batch, Journal, Lease};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, JournalError, StartOptions};
use plans::{make_plan, make_step, variable_text};
use world::World;

/// A journal whose memory entries are damaged.
struct UnreadableMemory(MemoryJournal);

fn damaged() -> JournalError {
    JournalError::Failed(StepFailure::new(Code::StoreCorrupt, "the memory entry is damaged"))
}

impl Journal for UnreadableMemory {
    fn begin_run(&self, run: RunId) -> Result<Lease, JournalError> {
        self.0.begin_run(run)
    }

    fn claim_run(&self, run: RunId) -> BoxFuture<'_, Result<Lease, JournalError>> {
        self.0.claim_run(run)
    }

    fn release_run(&self, lease: Lease) {
        self.0.release_run(lease);
    }

    fn abandon_run(&self, lease: Lease) {
        self.0.abandon_run(lease);
    }

    fn append_batch(&self, lease: Lease, batch: Batch) -> AppendResult {
        self.0.append_batch(lease, batch)
    }

    fn read(&self, run: RunId, after: u64) -> BoxFuture<'_, Result<Vec<Arc<Record>>, JournalError>> {
        self.0.read(run, after)
    }

    fn read_memories<'a>(&'a self, _namespace: &'a str) -> BoxFuture<'a, Result<Map, JournalError>> {
        Box::pin(async { Err(damaged()) })
    }

    fn read_memory<'a>(
        &'a self,
        _namespace: &'a str,
        _key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, JournalError>> {
        Box::pin(async { Err(damaged()) })
    }

    fn pending_commands(&self, run: RunId) -> BoxFuture<'_, Result<Vec<RunCommand>, JournalError>> {
        self.0.pending_commands(run)
    }

    fn next_commands(&self, run: RunId) -> BoxFuture<'static, Vec<RunCommand>> {
        self.0.next_commands(run)
    }
}

#[test]
fn a_memory_that_cannot_be_read_fails_the_step_and_the_run_ends() {
    for operation in [MemoryOperation::Get, MemoryOperation::All, MemoryOperation::Profile] {
        let world = World::new(1);
        let engine = Engine::new(world.make_effects(), Arc::new(UnreadableMemory(MemoryJournal::new())));
        let step = Leaf::Memory(MemoryStep { operation, prompt: variable_text("last") });
        let start = StartOptions {
            plan: Arc::new(make_plan(make_step("read", step))),
            bundle: Hash::of_bytes(b"bundle"),
            inputs: Value::map([("last", "{\"key\": \"city\"}".into())]),
            user: "local".into(),
            agent: None,
            limits: Limits::default(),
            depth: 0,
            parent: None,
            workflow: None,
            thread_key: None,
            trace: None,
            id: None,
        };
        let run = engine.start_run(start).expect("accepted");
        let outcome = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
        let code = outcome.state.error.as_ref().map(|error| error.code);
        assert_eq!(outcome.broken, None, "{operation:?}");
        assert_eq!((outcome.state.status, code), (Status::Failed, Some(Code::StoreCorrupt)), "{operation:?}");
    }
}
