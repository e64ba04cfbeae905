//! One schedule: some runs, clients and faults, and then a quiet phase in which every run must end.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use flowloom_core::id::RunId;
use flowloom_core::state::OpenStep;
use flowloom_runtime::command::RunCommand;
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::remote::DriveState;

use crate::choices::Choices;
use crate::executor::Executor;
use crate::plans::choose_plan;
use crate::world::{START_MS, World};

/// How long a run may take to come to rest when nothing fails, in milliseconds.
const MAX_QUIET_MS: u64 = 60_000;

/// Interval of looking at the runs, in milliseconds.
const LOOK_MS: u64 = 250;

/// How often the open steps of a run are replied to until it must have ended.
const MAX_ROUNDS: u64 = 40;

/// The settings of a schedule.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Number of processes.
    pub processes: usize,
    /// Number of runs.
    pub runs: u64,
    /// Largest number of steps in a plan.
    pub steps: u64,
    /// How deep child runs are nested, at most.
    pub call_depth: u64,
    /// Number of clients that send commands.
    pub clients: u64,
    /// Number of commands of each client.
    pub commands: u64,
    /// Whether clients also retry runs from a step on.
    pub retries_from_steps: bool,
    /// Whether commits that need not wait are applied immediately.
    pub is_quick: bool,
    /// Whether notifications may be lost or doubled.
    pub loses_notifications: bool,
    /// Mean number of polls between two faults.
    pub polls_per_fault: u64,
    /// Largest number of crashes.
    pub crashes: u64,
    /// Largest number of pauses of a process.
    pub pauses: u64,
    /// Largest number of outages of the database.
    pub outages: u64,
    /// Largest number of changes of the wall clock.
    pub clock_changes: u64,
}

impl Settings {
    /// The settings of a seed.
    pub fn from_seed(seed: u64) -> Settings {
        let choices = Choices::from_seed(seed ^ 0x5e77_1265);
        Settings {
            processes: 2,
            runs: 1 + choices.below(2),
            steps: 1 + choices.below(6),
            clients: choices.below(3),
            commands: 1 + choices.below(5),
            is_quick: choices.one_in(3),
            loses_notifications: choices.one_in(2),
            polls_per_fault: 10 + choices.below(60),
            crashes: choices.below(5),
            pauses: choices.below(3),
            outages: choices.below(2),
            clock_changes: choices.below(2),
            call_depth: choices.below(3),
            retries_from_steps: choices.one_in(4),
        }
    }
}

/// A schedule in which a promise is broken.
#[derive(Clone, Debug)]
pub struct FailedSchedule {
    /// The seed of its choices.
    pub seed: u64,
    /// Its settings.
    pub settings: Settings,
    /// The broken promises.
    pub violations: Vec<String>,
    /// The trace of the schedule, if one was recorded.
    pub trace: Vec<String>,
}

/// Runs a schedule. Fails if a promise is broken. Returns the number of polls.
pub fn run_schedule(seed: u64, settings: &Settings, is_traced: bool) -> Result<u64, Box<FailedSchedule>> {
    let world = World::new(settings.clone(), seed, is_traced);
    let polled = catch_unwind(AssertUnwindSafe(|| {
        world.tasks.spawn(None, "schedule", conduct(world.clone()));
        Executor::new(world.clone()).run()
    }));
    let mut violations = world.observed.violations();
    if let Err(panic) = &polled {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        violations.push(format!("a panic: {}", message.unwrap_or_default()));
    }
    if is_traced {
        trace_journals(&world);
    }
    world.close();
    match polled {
        Ok(polls) if violations.is_empty() => Ok(polls),
        _ => {
            let trace = world.take_trace();
            Err(Box::new(FailedSchedule { seed, settings: settings.clone(), violations, trace }))
        }
    }
}

/// Adds the journals of all runs to the trace.
fn trace_journals(world: &World) {
    for run in world.database.run_ids() {
        for record in world.database.runs.read_records(run, 0).unwrap_or_default() {
            let (seq, path, attempt) = (record.seq, &record.path, record.attempt);
            world.trace(format!("{run} {seq:>3} {path} attempt {attempt}: {:?}", record.event));
        }
    }
}

/// Runs a failed schedule again without some of its faults, clients and steps, as long as it still fails. Returns the
/// smallest one, with its trace.
pub fn shrink_schedule(failed: &FailedSchedule) -> FailedSchedule {
    let mut smallest = failed.clone();
    let changes: [fn(&mut Settings); 12] = [
        |settings| settings.outages = 0,
        |settings| settings.clock_changes = 0,
        |settings| settings.pauses = 0,
        |settings| settings.crashes = settings.crashes.saturating_sub(1),
        |settings| settings.loses_notifications = false,
        |settings| settings.is_quick = true,
        |settings| settings.clients = settings.clients.saturating_sub(1),
        |settings| settings.commands = (settings.commands - 1).max(1),
        |settings| settings.runs = 1,
        |settings| settings.retries_from_steps = false,
        |settings| settings.call_depth = settings.call_depth.saturating_sub(1),
        |settings| settings.steps = (settings.steps - 1).max(1),
    ];
    for _ in 0..3 {
        for change in changes {
            let mut settings = smallest.settings.clone();
            change(&mut settings);
            let found = (0..40).find_map(|offset| run_schedule(failed.seed + offset, &settings, false).err());
            smallest = found.map_or(smallest, |found| *found);
        }
    }
    let traced = run_schedule(smallest.seed, &smallest.settings, true);
    traced.err().map_or(smallest, |traced| *traced)
}

/// Runs a schedule to its end.
async fn conduct(world: Arc<World>) {
    for slot in 0..world.settings.processes {
        world.start_process(slot);
    }
    let runs = plan_runs(&world);
    for run in &runs {
        world.tasks.spawn(None, "start", world.clone().start_run_surely(*run));
    }
    let clients: BTreeSet<u64> = (0..world.settings.clients).collect();
    world.clients_left.lock().clone_from(&clients);
    for client in clients {
        world.tasks.spawn(None, "client", world.clone().run_client(client, runs.clone()));
    }
    while !world.clients_left.lock().is_empty() || runs.iter().any(|run| world.database.read_lease(*run).is_none()) {
        world.clock.sleep_for(LOOK_MS).await;
    }
    world.sleep_up_to(2_000).await;
    world.faults.end(&world);
    let mut round = 0;
    while !end_runs(&world, round).await && !world.is_over() {
        round += 1;
        if round == MAX_ROUNDS {
            world.report_violation(format!("runs do not end: {:?}", list_outermost_runs(&world)));
        }
    }
    if !world.is_over() {
        world.check_runs().await;
    }
    world.finish();
}

/// Waits until every run has come to rest, and replies to what they wait for. Returns whether all have ended.
async fn end_runs(world: &Arc<World>, round: u64) -> bool {
    for run in list_outermost_runs(world) {
        wait_for_rest(world, run).await;
    }
    let waiting: Vec<RunId> = list_outermost_runs(world).into_iter().filter(|run| !has_ended(world, *run)).collect();
    for run in &waiting {
        world.check_waiting_tree(*run);
        reply_to_open_steps(world, *run, round).await;
    }
    waiting.is_empty()
}

/// The runs that no unfinished run is around.
fn list_outermost_runs(world: &World) -> Vec<RunId> {
    let runs = &world.database.runs;
    world.database.run_ids().into_iter().filter(|run| runs.find_driving_run(*run) == *run).collect()
}

fn plan_runs(world: &World) -> Vec<RunId> {
    let mut runs = Vec::new();
    for number in 0..world.settings.runs {
        let run = RunId::new(START_MS + number, [number as u8 + 1; 10]);
        let planned = choose_plan(&world.choices, world.settings.steps, world.settings.call_depth);
        world.plan_run(run, Arc::new(planned));
        runs.push(run);
    }
    runs
}

fn has_ended(world: &World, run: RunId) -> bool {
    world.database.has_ended(run)
}

/// Waits until a run has ended, or no worker drives it and it waits for someone.
async fn wait_for_rest(world: &Arc<World>, run: RunId) {
    let give_up_at = world.clock.elapsed_ms() + MAX_QUIET_MS;
    while world.clock.elapsed_ms() < give_up_at {
        let runs = &world.database.runs;
        let mut tree = std::iter::once(run).chain(runs.list_runs_within(run));
        if tree.all(|run| runs.read_drive_state(run) == DriveState::AtRest)
            && (has_ended(world, run) || waits_for_someone(world, run))
        {
            return;
        }
        world.clock.sleep_for(LOOK_MS).await;
    }
    let within = world.database.runs.list_runs_within(run);
    let is_moving = |run: &RunId| world.database.runs.read_drive_state(*run) != DriveState::AtRest;
    for run in std::iter::once(run).chain(within.into_iter().filter(is_moving)) {
        let (lease, pending) = (world.database.read_lease(run), world.database.runs.pending_commands(run));
        let status = world.database.runs.get_run(run).map(|row| row.status);
        world.report_violation(format!(
            "the run {run} is stuck: {status:?}, {lease:?}, pending commands {pending:?}, and nothing that it waits for"
        ));
    }
}

fn waits_for_someone(world: &World, run: RunId) -> bool {
    world.read_state(run).is_some_and(|state| state.open_steps().any(|open| !expires_soon(world, &open)))
}

/// Whether an open step is a question that expires soon, so that the run continues without anyone. If the clock was set
/// back, it expires later.
fn expires_soon(world: &World, open: &OpenStep<'_>) -> bool {
    let expires_at = open.question.and_then(|question| question.expires_at);
    expires_at.is_some_and(|at| at < world.clock.now_ms() + MAX_QUIET_MS / 2)
}

/// Answers every question of a run that does not expire soon, and decides about every uncertain effect.
async fn reply_to_open_steps(world: &Arc<World>, run: RunId, round: u64) {
    let Some(state) = world.read_state(run) else { return };
    for (number, step) in state.open_steps().filter(|open| !expires_soon(world, open)).enumerate() {
        let action = world.choose_reply(step.path.clone(), step.question.is_some(), 100 + round);
        let command = RunCommand { id: format!("last-{round}-{number}"), sender: "operator".to_owned(), action };
        let (receiver, command) = world.route_command(run, command);
        let process = world.choose_process().await;
        let sent = world.send_command(&process, receiver, command).await;
        if sent.is_none_or(|sent| sent.outcome.is_none()) {
            world.report_violation(format!("the reply to {} is not decided", step.path));
        }
    }
}
