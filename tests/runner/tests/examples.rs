//! Runs every bundled example in memory under several schedules. Each record is replayed a hundred times concurrently,
//! polled in an order determined by a seed: the result has the same bytes each time, and no effect is performed.

#[allow(dead_code)]
#[path = "../../../crates/runtime/tests/world/mod.rs"]
mod world;

use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use flowloom_core::hash::{Hash, Hasher};
use flowloom_core::id::RunId;
use flowloom_core::plan::Plan;
use flowloom_core::state::Phase;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, compile};
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::sim::SimClock;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use world::World;

/// Number of schedules under which each example is run.
const SCHEDULE_SEEDS: u64 = 8;
/// Number of replays of each record.
const REPLAYS_PER_RECORD: usize = 100;

fn example_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files =
        ["flow", "steps"].into_iter().flat_map(|format| std::fs::read_dir(root.join(format)).expect("a folder"));
    let mut files: Vec<_> = files.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn compile_plan(file: &Path) -> Arc<Plan> {
    let bytes = std::fs::read(file).expect("readable");
    let sources = Sources { files: [("x.json".to_owned(), bytes)].into(), source_bytes: 1 << 20, ..Sources::default() };
    let compiled = compile("x.json", &sources, None);
    assert_eq!(compiled.diagnostics, [], "{}", file.display());
    Arc::new(compiled.plan.expect("a plan"))
}

struct ScheduledRun {
    world: World,
    journal: Arc<MemoryJournal>,
    engine: Engine,
    plan: Arc<Plan>,
}

impl ScheduledRun {
    fn new(seed: u64, plan: &Arc<Plan>) -> ScheduledRun {
        let world = World::new(seed);
        let journal = Arc::new(MemoryJournal::new());
        let engine = Engine::new(world.make_effects(), journal.clone()).with_ids(|| RunId::new(1, [7; 10]));
        ScheduledRun { world, journal, engine, plan: plan.clone() }
    }

    /// Runs to the end and answers its questions.
    fn run_to_end(&self) -> RunOutcome {
        let start = StartOptions::new(self.plan.clone(), Hash::of_bytes(b"bundle"), Value::Null, "local");
        let clock = &self.world.clock;
        let run = self.engine.start_run(start).expect("accepted");
        let mut outcome = clock.block_on(run.drive_to_end()).expect("no deadlock");
        while outcome.state.status == Status::Waiting {
            let asking = outcome.state.steps().iter().find(|step| step.phase == Phase::Waiting).expect("a question");
            let action = CommandAction::Answer { path: asking.path.clone(), value: "the sea".into() };
            let command = RunCommand { id: asking.path.to_string(), sender: "me".to_owned(), action };
            self.journal.post_command(outcome.id, command).expect("accepted");
            let resumed = self.engine.resume_run(outcome.id, self.plan.clone());
            let run = clock.block_on(resumed).expect("no deadlock").expect("resumable");
            outcome = clock.block_on(run.drive_to_end()).expect("no deadlock");
        }
        outcome
    }

    fn sent_count(&self) -> u32 {
        self.world.sent.lock().expect("not poisoned").values().sum()
    }
}

fn records_text(outcome: &RunOutcome) -> String {
    let lines = outcome.records.iter().map(|record| serde_json::to_string(&**record).expect("serialisable"));
    lines.collect::<Vec<_>>().join("\n")
}

type BoxedTask<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Polls all tasks until they are done, in a different order each time, whether they were woken or not.
fn poll_shuffled<T>(clock: &SimClock, seed: u64, tasks: Vec<BoxedTask<'_, T>>) -> Vec<T> {
    let mut open: Vec<_> = tasks.into_iter().collect();
    let (mut done, mut round) = (Vec::new(), 0);
    let all = poll_fn(|context| {
        round += 1;
        let mut order: Vec<_> = std::mem::take(&mut open).into_iter().enumerate().collect();
        order.sort_by_key(|(index, _)| {
            *Hasher::new().add_number(seed).add_number(round).add_number(*index as u64).finish().as_bytes()
        });
        for (_, mut task) in order {
            match task.as_mut().poll(context) {
                Poll::Ready(output) => done.push(output),
                Poll::Pending => open.push(task),
            }
        }
        if open.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    });
    clock.block_on(all).expect("no deadlock");
    done
}

#[test]
fn examples_replay_to_the_same_bytes() {
    for file in example_files() {
        let plan = compile_plan(&file);
        for seed in 0..SCHEDULE_SEEDS {
            let trial = ScheduledRun::new(seed, &plan);
            let outcome = trial.run_to_end();
            assert_eq!(outcome.state.status, Status::Succeeded, "{}: {:?}", file.display(), outcome.state.error);
            let (expected, sent) = (records_text(&outcome), trial.sent_count());
            assert!(sent > 0, "{} performs something", file.display());
            assert_eq!(
                records_text(&ScheduledRun::new(seed, &plan).run_to_end()),
                expected,
                "{}, seed {seed}, run again",
                file.display()
            );
            let replay =
                |_| -> BoxedTask<'_, _> { Box::pin(trial.engine.replay_run(outcome.records.clone(), plan.clone())) };
            for replayed in poll_shuffled(&trial.world.clock, seed, (0..REPLAYS_PER_RECORD).map(replay).collect()) {
                assert_eq!(
                    records_text(&replayed.expect("no divergence")),
                    expected,
                    "{}, seed {seed}",
                    file.display()
                );
            }
            assert_eq!(trial.sent_count(), sent, "{}, seed {seed}: replay performed something", file.display());
        }
    }
}
