//! Follows runs that another engine drives.

#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::*;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::effects::BoxFuture;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::remote::{DriveRequest, DriveState, RunDriver};
use flowloom_runtime::{Engine, JournalError, StartOptions};
use plans::{make_plan, make_step, sequence_step, variable_text};
use world::World;

/// Looks at a run that is over, after which the test fails.
const MAX_LOOKS: usize = 100;

/// Another engine. It drives a run only when it is woken.
struct OtherEngine {
    engine: Engine,
    plan: Arc<Plan>,
    journal: Arc<MemoryJournal>,
    /// A command that arrives right after a worker has released the run.
    late: Mutex<Option<RunCommand>>,
    /// The last command to the run.
    last: &'static str,
    wake_count: AtomicUsize,
    look_count: AtomicUsize,
}

impl RunDriver for OtherEngine {
    fn wake_run(&self, request: DriveRequest) -> BoxFuture<'_, Result<(), JournalError>> {
        self.wake_count.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let resumed = self.engine.resume_run(request.run, self.plan.clone()).await.expect("it is not over");
            resumed.drive_to_end().await;
            Ok(())
        })
    }

    fn next_news(&self, _run: RunId) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn read_drive_state(&self, run: RunId) -> Result<DriveState, JournalError> {
        let looks = self.look_count.fetch_add(1, Ordering::Relaxed);
        assert!(looks < MAX_LOOKS, "nobody wakes the run");
        let late = self.late.lock().expect("not poisoned").take();
        late.into_iter().for_each(|command| drop(self.journal.post_command(run, command)));
        let has_commands = self.journal.find_command(run, self.last).is_some_and(|command| command.outcome.is_none());
        Ok(DriveState::new(false, has_commands))
    }
}

fn ask_step(key: &str) -> Step {
    make_step(key, Leaf::Ask { question: variable_text("last"), schema: None })
}

fn answer(path: &str) -> RunCommand {
    let action = CommandAction::Answer { path: Path::parse(path).expect("valid"), value: "yes".into() };
    RunCommand { id: path.to_owned(), sender: "me".to_owned(), action }
}

#[test]
fn a_command_that_arrives_after_a_worker_has_released_the_run_wakes_it_again() {
    let (world, journal) = (World::new(5), Arc::new(MemoryJournal::new()));
    let engine = Engine::new(world.make_effects(), journal.clone()).with_ids(|| RunId::new(1, [7; 10]));
    let plan = Arc::new(make_plan(sequence_step("talk", vec![ask_step("first"), ask_step("second")])));
    let start = StartOptions::new(plan.clone(), Hash::of_bytes(b"bundle"), Value::Null, "local");
    let run = engine.start_run(start).expect("accepted");
    let waiting = world.clock.block_on(run.drive_to_end()).expect("no deadlock");
    assert_eq!(waiting.state.status, Status::Waiting);

    journal.post_command(waiting.id, answer("/first")).expect("stored");
    let other = Arc::new(OtherEngine {
        engine: engine.clone(),
        plan: plan.clone(),
        journal,
        late: Mutex::new(Some(answer("/second"))),
        last: "/second",
        wake_count: AtomicUsize::new(0),
        look_count: AtomicUsize::new(0),
    });
    let following = engine.with_driver(other.clone());
    let followed =
        world.clock.block_on(following.resume_run(waiting.id, plan)).expect("no deadlock").expect("it waits");
    let outcome = world.clock.block_on(followed.drive_to_end()).expect("no deadlock");
    assert_eq!((outcome.state.status, outcome.broken), (Status::Succeeded, None));
    assert_eq!(other.wake_count.load(Ordering::Relaxed), 2);
}
