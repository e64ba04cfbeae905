//! A damaged memory fails the step that reads it: the failure is recorded, and the run ends. A memory that cannot be reached
//! stops the run, which continues later.

#[allow(dead_code)]
#[path = "world/faulty_journal.rs"]
mod faulty_journal;
#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
mod world;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use faulty_journal::FaultyJournal;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Leaf, MemoryOperation, MemoryStep, Step};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, JournalError, StartOptions};
use plans::{call_step, generate_spec, make_plan, make_step, python_step, story_step, variable_text};
use world::World;

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
        let engine =
            Engine::new(world.make_effects(), FaultyJournal::with_unreadable_memory(JournalError::Failed(damaged)));
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
        let journal = FaultyJournal::with_unreadable_memory(JournalError::Unavailable(outage));
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
        let journal = FaultyJournal::with_unreadable_memory(JournalError::Unavailable(outage));
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
