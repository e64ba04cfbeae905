//! Every journal that the engine writes is legal; most journals that it cannot have written are rejected, and none makes
//! the reader panic.

#[path = "world/plans.rs"]
#[allow(dead_code)]
mod plans;
#[allow(dead_code)]
mod world;

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record, Resolution};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::state::{Phase, RunState, Violation};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use proptest::prelude::*;
use world::World;

/// A change that makes another journal of one; positions are numbered afresh, so that only the order is wrong.
#[derive(Clone, Copy, Debug)]
enum Mutation {
    Drop,
    Duplicate,
    Swap,
}

/// The journal of a run that crashed after `cut` records, was resumed, answered, and perhaps cancelled.
fn journal(seed: u64, plan: Plan, cut: usize, is_cancelled: bool) -> Vec<Arc<Record>> {
    let world = World::new(seed);
    let journal = Arc::new(MemoryJournal::new());
    let engine = Engine::new(world.make_effects(), journal.clone()).with_ids(|| RunId::new(1, [7; 10]));
    let plan = Arc::new(plan);
    let start = StartOptions::new(plan.clone(), Hash::of_bytes(b"bundle"), Value::Null, "local");
    journal.crash_after(cut);
    let run = engine.start_run(start).expect("accepted");
    let id = run.id();
    world.clock.block_on(run.drive_to_end()).expect("no deadlock");
    journal.end_crash();
    for _ in 0..10 {
        if journal.run_records(id).is_empty() {
            break;
        }
        let resumed = engine.resume_run(id, plan.clone());
        let Ok(run) = world.clock.block_on(resumed).expect("no deadlock") else { break };
        if is_cancelled {
            let cancel =
                RunCommand { id: "cancel".to_owned(), sender: "me".to_owned(), action: CommandAction::Cancel {} };
            journal.post_command(id, cancel).expect("accepted");
        }
        let outcome = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
        let Some(command) = open_command(&outcome) else { continue };
        journal.post_command(id, command).expect("accepted");
    }
    journal.run_records(id)
}

fn open_command(outcome: &RunOutcome) -> Option<RunCommand> {
    if outcome.state.status.is_final() {
        return None;
    }
    let action = outcome.state.steps().iter().find_map(|step| match step.phase {
        Phase::Waiting if step.question.is_some() => {
            Some(CommandAction::Answer { path: step.path.clone(), value: "yes".into() })
        }
        Phase::Uncertain => Some(CommandAction::Resolve { path: step.path.clone(), how: Resolution::Resend }),
        _ => None,
    })?;
    Some(RunCommand { id: outcome.records.len().to_string(), sender: "me".to_owned(), action })
}

fn fold(records: &[Record]) -> Result<RunState, StepFailure> {
    Ok(RunState::from_records(records)?)
}

fn mutate(records: &mut Vec<Record>, mutation: Mutation, at: usize) {
    match mutation {
        Mutation::Drop => {
            records.remove(at);
        }
        Mutation::Duplicate => records.insert(at, records[at].clone()),
        Mutation::Swap => {
            let other = (at + 1) % records.len();
            records.swap(at, other);
        }
    }
    for (seq, record) in (1..).zip(records) {
        record.seq = seq;
    }
}

fn any_journal() -> impl Strategy<Value = Vec<Record>> {
    let plans = [plans::full_plan as fn() -> Plan, plans::conversation_plan, plans::at_most_once_plan];
    (any::<u64>(), 0..plans.len(), 2..80usize, proptest::bool::weighted(0.1)).prop_map(
        move |(seed, plan, cut, is_cancelled)| {
            journal(seed, plans[plan](), cut, is_cancelled).iter().map(|record| (**record).clone()).collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_the_engine_writes_is_legal(records in any_journal()) {
        for end in 0..=records.len() {
            prop_assert!(fold(&records[..end]).is_ok(), "{:?}", fold(&records[..end]));
        }
    }

    #[test]
    fn a_changed_journal_is_rejected_or_harmless(
        records in any_journal(),
        mutation in prop_oneof![Just(Mutation::Drop), Just(Mutation::Duplicate), Just(Mutation::Swap)],
        at in any::<prop::sample::Index>(),
    ) {
        if !records.is_empty() {
            let mut changed = records.clone();
            mutate(&mut changed, mutation, at.index(records.len()));
            if let Err(error) = fold(&changed) {
                prop_assert_eq!(error.code, Code::StoreCorrupt);
            }
        }
    }
}

/// Of an uninterrupted run, every change at every place: how many are rejected.
fn rejected(mutation: Mutation) -> (usize, usize) {
    let records: Vec<Record> =
        journal(3, plans::full_plan(), usize::MAX, false).iter().map(|record| (**record).clone()).collect();
    let is_rejected = |at: &usize| {
        let mut changed = records.clone();
        mutate(&mut changed, mutation, *at);
        fold(&changed).is_err()
    };
    ((0..records.len()).filter(is_rejected).count(), records.len())
}

#[test]
fn most_changes_are_rejected() {
    // A step that is started is often the last thing known of it, and steps of several branches mix freely.
    for (mutation, least) in [(Mutation::Drop, 40), (Mutation::Duplicate, 80), (Mutation::Swap, 30)] {
        let (count, all) = rejected(mutation);
        assert!(count * 100 >= all * least, "{mutation:?}: {count} of {all} are rejected");
    }
}

/// The violation of a whole run's journal after `change`.
fn violation(change: impl Fn(&mut Vec<Record>)) -> Option<Violation> {
    let mut records: Vec<Record> =
        journal(3, plans::full_plan(), usize::MAX, false).iter().map(|record| (**record).clone()).collect();
    change(&mut records);
    RunState::from_records(&records).err().map(|illegal| illegal.reason)
}

#[test]
fn each_rule_has_its_violation() {
    let other = RunId::new(2, [8; 10]);
    assert_eq!(violation(|_| {}), None);
    assert_eq!(violation(|all| drop(all.remove(1))), Some(Violation::Position { expected: 2 }));
    assert_eq!(violation(|all| all[1].run = other), Some(Violation::OtherRun));
    assert_eq!(violation(|all| mutate(all, Mutation::Drop, 0)), Some(Violation::NotCreated));
    assert_eq!(violation(|all| mutate(all, Mutation::Duplicate, 0)), Some(Violation::CreatedAgain));
    assert_eq!(violation(|all| mutate(all, Mutation::Drop, 1)), Some(Violation::NotStarted));
    assert_eq!(violation(|all| mutate(all, Mutation::Duplicate, 1)), Some(Violation::OldEpoch { last: 1 }));
    let early_end = Event::RunFinished { status: Status::Running, error: None, failed: None, thread: None };
    assert_eq!(violation(|all| all[2].event = early_end.clone()), Some(Violation::WrongStatus(Status::Running)));
    assert_eq!(
        violation(|all| {
            let last = all.len() - 1;
            mutate(all, Mutation::Duplicate, last);
        }),
        Some(Violation::RunEnded)
    );
}

#[test]
fn an_illegal_journal_is_not_resumed() {
    let records = journal(3, plans::full_plan(), usize::MAX, false);
    let broken: Vec<_> = records.into_iter().filter(|record| record.seq != 3).collect();
    let world = World::new(3);
    let engine = Engine::new(world.make_effects(), Arc::new(MemoryJournal::new()));
    let replay = engine.replay_run(broken, Arc::new(plans::full_plan()));
    let error = world.clock.block_on(replay).expect("no deadlock").expect_err("rejected");
    assert_eq!(error.code(), Code::StoreCorrupt, "{error}");
    assert!(error.to_string().contains("its position should be 3"), "{error}");
}
