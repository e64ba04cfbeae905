//! Crashes a run after every event of its journal, under a thousand schedules, and resumes it. The result must be the
//! same, no finished effect may be repeated, and no at-most-once effect may be resent automatically.

#[path = "world/plans.rs"]
mod plans;
mod world;

use std::sync::Arc;

use flowloom_core::event::{Event, Resolution};
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::Plan;
use flowloom_core::state::Phase;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::journal::Journal as _;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use world::World;

struct Trial {
    world: World,
    journal: Arc<MemoryJournal>,
    engine: Engine,
    plan: Arc<Plan>,
}

impl Trial {
    fn new(seed: u64, plan: Plan) -> Trial {
        let world = World::new(seed);
        let journal = Arc::new(MemoryJournal::new());
        let engine = Engine::new(world.make_effects(), journal.clone()).with_ids(|| RunId::new(1, [7; 10]));
        Trial { world, journal, engine, plan: Arc::new(plan) }
    }

    fn start_run(&self) -> RunOutcome {
        self.start_with_thread(None)
    }

    fn start_with_thread(&self, keep: Option<&str>) -> RunOutcome {
        let start = StartOptions {
            thread_key: keep.map(str::to_owned),
            ..StartOptions::new(self.plan.clone(), Hash::of_bytes(b"bundle"), Value::Null, "local")
        };
        let run = self.engine.start_run(start).expect("accepted");
        self.world.clock.block_on(run.drive_to_end()).expect("no deadlock")
    }

    fn resume_run(&self, run: RunId) -> RunOutcome {
        let plan = self.plan.clone();
        let resumed = self.engine.resume_run(run, plan);
        let run = self.world.clock.block_on(resumed).expect("no deadlock").expect("resumable");
        self.world.clock.block_on(run.drive_to_end()).expect("no deadlock")
    }

    /// Answers questions and resolves uncertain effects until the run ends.
    fn answer_until_end(&self, mut outcome: RunOutcome) -> RunOutcome {
        for _ in 0..10 {
            let command = match outcome.state.status {
                Status::Waiting | Status::Uncertain | Status::Running => open_command(&outcome),
                _ => return outcome,
            };
            if let Some(command) = command {
                self.journal.post_command(outcome.id, command).expect("accepted");
            }
            outcome = self.resume_run(outcome.id);
        }
        panic!("the run does not end: {:?}", outcome.state.status)
    }
}

/// The command that lets the run continue. Its id is the same for the same step, as if a client repeated it.
fn open_command(outcome: &RunOutcome) -> Option<RunCommand> {
    let action = outcome.state.steps().iter().find_map(|step| match step.phase {
        Phase::Waiting if step.question.is_some() => {
            Some(CommandAction::Answer { path: step.path.clone(), value: "yes".into() })
        }
        Phase::Uncertain => {
            let how = Resolution::Value(expected_answer(&step.path));
            Some(CommandAction::Resolve { path: step.path.clone(), how })
        }
        _ => None,
    })?;
    let id = format!("{} {}", action.name(), action.path()?);
    Some(RunCommand { id, sender: "me".to_owned(), action })
}

/// The result that the effect at this path would have returned.
fn expected_answer(path: &Path) -> Value {
    match path.as_str() {
        "/fan/post" => Value::map([("to", Value::from("http://example.test/a"))]),
        path => format!("once:{path}").into(),
    }
}

/// The outputs of all steps, by path.
fn sorted_outputs(outcome: &RunOutcome) -> Vec<(String, Option<Value>)> {
    let mut outputs: Vec<_> =
        outcome.state.steps().iter().map(|step| (step.path.to_string(), step.output.clone())).collect();
    outputs.sort_by(|a, b| a.0.cmp(&b.0));
    outputs
}

/// The progress events of functions, in order.
fn progress_events(outcome: &RunOutcome) -> Vec<(String, Event)> {
    let progress = outcome.records.iter().filter(|record| matches!(record.event, Event::Progress { .. }));
    progress.map(|record| (record.path.to_string(), record.event.clone())).collect()
}

/// The final variables, conversations and transcript.
fn final_state_text(outcome: &RunOutcome) -> String {
    format!("{:?} {:?} {:?}", outcome.env.vars.as_map(), outcome.env.threads, outcome.env.transcript)
}

/// One schedule: one complete run, then a crash after every event. Sent effects are checked against the journal.
fn crash_everywhere(seed: u64, plan: fn() -> Plan) -> usize {
    let calm = Trial::new(seed, plan());
    let expected = calm.answer_until_end(calm.start_run());
    assert_eq!(expected.state.status, Status::Succeeded, "{:?}", expected.state.error);
    let events = expected.records.len();
    let mut crashes = 0;
    for cut in 0..events {
        let trial = Trial::new(seed, plan());
        trial.journal.crash_after(cut);
        let broken = trial.start_run();
        let recorded = trial.journal.run_records(broken.id);
        trial.journal.end_crash();
        if recorded.is_empty() {
            continue;
        }
        let sent_before = trial.world.sent.lock().expect("not poisoned").clone();
        let outcome = trial.answer_until_end(trial.resume_run(broken.id));
        assert_eq!(outcome.state.status, Status::Succeeded, "seed {seed}, cut {cut}: {:?}", outcome.state.error);
        assert_eq!(sorted_outputs(&outcome), sorted_outputs(&expected), "seed {seed}, cut {cut}");
        assert_eq!(final_state_text(&outcome), final_state_text(&expected), "seed {seed}, cut {cut}");
        assert_eq!(progress_events(&outcome), progress_events(&expected), "seed {seed}, cut {cut}");
        check_sends(&trial, &sent_before, seed, cut);
        check_replay(&trial, &outcome);
        crashes += 1;
    }
    crashes
}

/// An effect is sent once, or once more under the same key if the crash interrupted it.
fn check_sends(trial: &Trial, before: &std::collections::BTreeMap<String, u32>, seed: u64, cut: usize) {
    for (key, count) in trial.world.sent.lock().expect("not poisoned").iter() {
        let allowed = if before.contains_key(key) { 2 } else { 1 };
        assert!(*count <= allowed, "seed {seed}, cut {cut}: {key} was sent {count} times");
    }
}

fn check_replay(trial: &Trial, outcome: &RunOutcome) {
    let sent = trial.world.sent.lock().expect("not poisoned").clone();
    let replay = trial.engine.replay_run(outcome.records.clone(), trial.plan.clone());
    let replayed = trial.world.clock.block_on(replay).expect("no deadlock").expect("no divergence");
    assert_eq!(records_text(&replayed), records_text(outcome));
    assert_eq!(final_state_text(&replayed), final_state_text(outcome));
    assert_eq!(*trial.world.sent.lock().expect("not poisoned"), sent, "replay sent something");
}

fn records_text(outcome: &RunOutcome) -> String {
    let lines: Vec<_> =
        outcome.records.iter().map(|record| serde_json::to_string(&**record).expect("serialisable")).collect();
    lines.join("\n")
}

/// A quarter of the thousand schedules; four tests share the machine's cores.
fn run_schedules(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let plan = if seed % 2 == 0 { plans::full_plan } else { plans::conversation_plan };
        let crashes = crash_everywhere(seed, plan);
        assert!(crashes > 40, "seed {seed} crashed {crashes} times");
    }
}

#[test]
fn schedules_to_250_crashed_at_every_event() {
    run_schedules(0..250);
}

#[test]
fn schedules_to_500_crashed_at_every_event() {
    run_schedules(250..500);
}

#[test]
fn schedules_to_750_crashed_at_every_event() {
    run_schedules(500..750);
}

#[test]
fn schedules_to_1000_crashed_at_every_event() {
    run_schedules(750..1000);
}

#[test]
fn effects_that_must_not_be_sent_twice_are_not() {
    for seed in 0..50 {
        let expected = crash_everywhere(seed, plans::at_most_once_plan);
        assert!(expected > 10);
    }
}

#[test]
fn events_survive_their_text_form() {
    let trial = Trial::new(3, plans::full_plan());
    let outcome = trial.start_run();
    for record in &outcome.records {
        let json = serde_json::to_string(&**record).expect("serialisable");
        let read: flowloom_core::Record = serde_json::from_str(&json).expect("readable");
        assert_eq!(read, **record, "{json}");
        let data = record.event.data_json().expect("serialisable");
        let again = Event::from_parts(record.event.name(), data.as_deref()).expect("readable");
        assert_eq!(again, record.event);
    }
}

/// The user's stored conversation.
fn stored_thread(trial: &Trial) -> Option<Value> {
    let user = flowloom_runtime::journal::thread_namespace("local");
    let read = async { trial.journal.read_memory(&user, "desk").await.expect("readable") };
    trial.world.clock.block_on(read).expect("no deadlock")
}

#[test]
fn a_conversation_is_kept_with_the_end_of_its_run_or_not_at_all() {
    let plan = || Plan { thread: Some("chat".into()), ..plans::conversation_plan() };
    let calm = Trial::new(7, plan());
    let whole = calm.answer_until_end(calm.start_with_thread(Some("desk")));
    let expected = stored_thread(&calm).expect("kept");
    let count = whole.env.find_thread("chat").messages().len();
    assert_eq!(expected.as_list().map(<[Value]>::len), Some(count));
    for cut in 0..whole.records.len() {
        let trial = Trial::new(7, plan());
        trial.journal.crash_after(cut);
        let broken = trial.start_with_thread(Some("desk"));
        let ended =
            trial.journal.run_records(broken.id).iter().any(|record| matches!(record.event, Event::RunFinished { .. }));
        assert_eq!(stored_thread(&trial).is_some(), ended, "cut {cut}");
        trial.journal.end_crash();
        if !trial.journal.run_records(broken.id).is_empty() {
            let outcome = trial.answer_until_end(trial.resume_run(broken.id));
            assert_eq!(stored_thread(&trial).as_ref(), Some(&expected), "cut {cut}");
            check_replay(&trial, &outcome);
        }
    }
}
