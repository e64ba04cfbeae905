//! Every recorded case passes with Restate as the engine, and its runs have the same events as on the built-in engine.

mod harness;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance::{CaseEngine, block_on, case_effects, load_cases, set_engine};
use flowloom_core::expr::{Missing, Template, TemplatePart, TextRules, Wording};
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::path::Key;
use flowloom_core::plan::{Composite, Format, FunctionCall, Inputs, Leaf, Plan, Step, StepKind, Write};
use flowloom_core::render::TextStyle;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::effects::Effects;
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::{Engine, RunOutcome, StartOptions};
use harness::{BuiltIn, CaseEvents, ObservedRuns, OnRestate, have_same_steps};
use test_restate::RestateServer;

#[test]
fn recorded_cases_pass_on_restate_with_the_same_events() {
    let Some(server) = RestateServer::start_server() else { return };
    let on_restate = Arc::new(OnRestate::register(&server));
    let built_in = Arc::new(BuiltIn(on_restate.observed.clone()));
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../conformance");
    let (mut problems, mut event_count, mut reordered) = (Vec::new(), 0, 0);
    for case in load_cases(&[folder]).expect("readable") {
        set_engine(Some(built_in.clone()));
        case.judge_case();
        let expected = on_restate.observed.take_events();
        set_engine(Some(on_restate.clone()));
        let failures = case.judge_case();
        let found = on_restate.observed.take_events();
        event_count += found.iter().map(Vec::len).sum::<usize>();
        if !failures.is_empty() {
            problems.push(format!("{}: {}", case.id, failures.join("; ")));
        }
        reordered += usize::from(found != expected);
        if !have_same_steps(&found, &expected) {
            problems.push(format!("{}: the built-in engine has\n{expected:#?}\nRestate has\n{found:#?}", case.id));
        }
    }
    set_engine(None);
    assert!(problems.is_empty(), "{} problems\n{}", problems.len(), problems.join("\n"));
    assert!(event_count > 1000, "only {event_count} events");
    assert!(reordered < 5, "{reordered} cases have their events in another order");
}

/// A plan of steps, one after the other.
fn plan_of(steps: Vec<(&str, Leaf)>) -> Arc<Plan> {
    let make_step = |(name, kind): (&str, Leaf)| {
        let mut step = Step::new(Key::from_name(name).expect("clean"), kind);
        step.writes = vec![Write::to_variable(name)];
        step
    };
    let steps = steps.into_iter().map(make_step).collect();
    let root = Step::new(Key::from_name("all").expect("clean"), StepKind::Composite(Composite::Sequence(steps)));
    Arc::new(Plan {
        format: Format::new("steps"),
        id: None,
        name: "test".into(),
        description: String::new(),
        inputs: Inputs::Named { declared: Vec::new(), defaults: Map::new(), accepts_others: true },
        text: TextRules {
            missing: Missing::Keep,
            null_is_missing: false,
            style: TextStyle::Json,
            keeps_type: false,
            wording: Wording::PLAIN,
        },
        limits: Limits::default(),
        functions: Vec::new(),
        thread: None,
        root,
    })
}

fn call(function: &str) -> Leaf {
    let prompt = Template { parts: vec![TemplatePart::Text("prompt".into())] };
    Leaf::Call(FunctionCall::with_prompt(function, prompt))
}

/// Number of times that a test is tried whose events can happen in another order.
const MAX_TRIALS: usize = 20;

/// Runs a plan on an engine, in a world whose function `big` returns `big`.
fn run_plan(
    engine: &dyn CaseEngine,
    plan: &Arc<Plan>,
    big: &str,
    while_running: impl FnOnce(&MemoryJournal, flowloom_core::RunId),
) -> RunOutcome {
    let script = Value::map([("big", Value::list(vec![Value::map([("return", Value::from(big))])]))]);
    let effects = Effects { clock: Arc::new(SystemClock), ..case_effects(&Value::map([("script", script)])) };
    let journal = Arc::new(MemoryJournal::new());
    let engine = engine.connect(Engine::new(effects, journal.clone()), plan);
    let start = StartOptions {
        limits: Limits::default(),
        ..StartOptions::new(plan.clone(), Hash::of_bytes(b"case"), Value::map::<&str>([]), "local")
    };
    block_on(async {
        let run = engine.start_run(start).expect("it starts");
        let id = run.id();
        let driven = run.spawn();
        while_running(&journal, id);
        driven.await.expect("it ends")
    })
}

/// The behaviour of a plan on the built-in engine.
fn expect_events(plan: &Arc<Plan>, big: &str) -> CaseEvents {
    let observed = Arc::new(ObservedRuns::default());
    run_plan(&BuiltIn(observed.clone()), plan, big, |_, _| ());
    observed.take_events()
}

#[test]
fn a_run_that_waits_for_a_timer_is_put_aside_and_continues_as_if_it_had_not_been() {
    let Some(server) = RestateServer::start_server() else { return };
    let on_restate = OnRestate::register(&server);
    let plan = plan_of(vec![("pause", Leaf::Wait { duration_ms: 2500 }), ("after", call("f"))]);
    let outcome = run_plan(&on_restate, &plan, "", |_, _| ());
    assert_eq!((outcome.state.status, outcome.broken), (Status::Succeeded, None));
    assert_eq!(on_restate.count_sessions(outcome.id), 2, "it was put aside");
    assert_eq!(on_restate.observed.take_events(), expect_events(&plan, ""));
}

#[test]
fn a_command_reaches_a_run_that_was_put_aside() {
    let Some(server) = RestateServer::start_server() else { return };
    let on_restate = OnRestate::register(&server);
    let plan = plan_of(vec![("pause", Leaf::Wait { duration_ms: 3_600_000 })]);
    let cancel_waiting = |journal: &MemoryJournal, run| {
        let is_waiting = || journal.run_records(run).iter().any(|record| record.event.name() == "run_suspended");
        while !is_waiting() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let command = RunCommand { id: "1".into(), sender: "test".into(), action: CommandAction::Cancel {} };
        journal.post_command(run, command).expect("stored");
    };
    // The command can arrive after the run began to wait and before it is put aside.
    let was_put_aside = (0..MAX_TRIALS).any(|_| {
        let outcome = run_plan(&on_restate, &plan, "", cancel_waiting);
        assert_eq!(outcome.state.status, Status::Cancelled);
        on_restate.count_sessions(outcome.id) == 2
    });
    assert!(was_put_aside, "it was put aside");
}

#[test]
fn a_command_reaches_a_run_that_another_process_has_claimed_since_it_waits() {
    let Some(server) = RestateServer::start_server() else { return };
    let on_restate = OnRestate::register(&server);
    let question = Template { parts: vec![TemplatePart::Text("who?".into())] };
    let plan = plan_of(vec![("who", Leaf::Ask { question, schema: None })]);
    let claim_and_cancel = |journal: &MemoryJournal, run| {
        let is_waiting = || journal.run_records(run).iter().any(|record| record.event.name() == "run_suspended");
        while !is_waiting() {
            std::thread::sleep(Duration::from_millis(1));
        }
        on_restate.claim_elsewhere(run, || {
            let command = RunCommand { id: "1".into(), sender: "test".into(), action: CommandAction::Cancel {} };
            journal.post_command(run, command).expect("stored");
        });
    };
    // A follower of the run may see that it waits before it is claimed, and then leaves.
    let was_cancelled = (0..MAX_TRIALS).any(|_| {
        let outcome = run_plan(&on_restate, &plan, "", claim_and_cancel);
        outcome.state.status == Status::Cancelled
    });
    assert!(was_cancelled, "it was cancelled");
}

#[test]
fn a_large_output_is_stored_elsewhere_until_its_event_is() {
    let Some(server) = RestateServer::start_server() else { return };
    let on_restate = OnRestate::register(&server);
    let big = "x".repeat(200_000);
    let plan = plan_of(vec![("big", call("big")), ("after", call("f"))]);
    let outcome = run_plan(&on_restate, &plan, &big, |_, _| ());
    assert_eq!(outcome.state.status, Status::Succeeded);
    assert_eq!(on_restate.count_texts(), (1, 0), "it is stored once, and deleted");
    assert_eq!(on_restate.observed.take_events(), expect_events(&plan, &big));
}

/// Runs that are driven at the same time.
const LOAD_RUNS: usize = 24;

/// How long workers may take to share the load. Restate distributes connections, which are closed after some seconds.
const SHARE_TIMEOUT: Duration = Duration::from_secs(90);

#[test]
fn workers_of_one_address_share_the_load() {
    let Some(server) = RestateServer::start_server() else { return };
    let on_restate = OnRestate::register_workers(&server, 3);
    let plan = plan_of(vec![("one", call("f")), ("two", call("f"))]);
    let (started, shares) = (Instant::now(), || on_restate.count_by_worker());
    let all_drive = || shares().iter().all(|count| *count > 0);
    std::thread::scope(|scope| {
        for _ in 0..LOAD_RUNS {
            scope.spawn(|| {
                while !all_drive() && started.elapsed() < SHARE_TIMEOUT {
                    let outcome = run_plan(&on_restate, &plan, "", |_, _| ());
                    assert_eq!(outcome.state.status, Status::Succeeded);
                }
            });
        }
    });
    assert!(all_drive(), "{:?}", shares());
}
