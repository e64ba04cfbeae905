//! An effect that must not be sent twice, and whose start was not stored when the run was claimed, was not sent: a run that is
//! resumed from further events sends it.

#[allow(dead_code)]
#[path = "world/faulty_journal.rs"]
mod faulty_journal;
#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
mod world;

use std::sync::Arc;

use faulty_journal::FaultyJournal;
use flowloom_core::event::{Event, Record};
use flowloom_core::hash::Hash;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, StartOptions};
use plans::{call_step, make_plan};
use world::World;

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
    let late = Engine::new(world.make_effects(), FaultyJournal::stored_up_to(stored_seq, journal));
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
