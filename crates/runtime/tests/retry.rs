//! Retries runs that have ended: from every step, after a cancellation at every event, and with a crash at every event of the
//! retry. Kept steps are not performed again, and the record replays.

#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
#[path = "world/trial.rs"]
mod trial;
#[allow(dead_code)]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::event::{Event, Resolution};
use flowloom_core::expr::{Expr, Template};
use flowloom_core::id::RunId;
use flowloom_core::limits::Limits;
use flowloom_core::path::Path;
use flowloom_core::plan::*;
use flowloom_core::state::{Phase, RunState};
use flowloom_core::status::Status;
use flowloom_runtime::command::{CommandAction, CommandOutcome, RunCommand};
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::{RunError, RunOutcome};
use plans::{call_step, make_plan, make_step, sequence_step, variable_ref};
use trial::Trial;

impl Trial {
    fn post(&self, run: RunId, id: &str, action: CommandAction) {
        let command = RunCommand { id: id.to_owned(), sender: "me".to_owned(), action };
        self.journal.post_command(run, command).expect("stored");
    }

    fn retry(&self, run: RunId, id: &str, from: Option<&Path>) -> Result<RunOutcome, RunError> {
        self.post(run, id, CommandAction::Retry { from: from.cloned() });
        self.resume_run(run)
    }

    /// Resolves uncertain effects and answers questions until the run ends.
    fn drive_until_end(&self, mut outcome: RunOutcome) -> RunOutcome {
        for n in 0..20 {
            if outcome.state.status.is_final() {
                return outcome;
            }
            let open = outcome.state.steps().iter().find_map(|step| match step.phase {
                Phase::Waiting if step.question.is_some() => {
                    Some(CommandAction::Answer { path: step.path.clone(), value: "yes".into() })
                }
                Phase::Uncertain => Some(CommandAction::Resolve { path: step.path.clone(), how: Resolution::Resend }),
                _ => None,
            });
            if let Some(action) = open {
                self.post(outcome.id, &format!("{n} {}", outcome.records.len()), action);
            }
            outcome = self.resume_run(outcome.id).expect("resumable");
        }
        panic!("the run does not end: {:?}", outcome.state.status)
    }

    fn sent(&self) -> BTreeMap<String, u32> {
        self.world.sent.lock().expect("not poisoned").clone()
    }

    /// Checks that the record replays without a difference and without effects.
    #[track_caller]
    fn check_replay(&self, outcome: &RunOutcome) {
        let sent = self.sent();
        let replay = self.engine.replay_run(outcome.records.clone(), self.plan.clone());
        let replayed = self.world.clock.block_on(replay).expect("no deadlock").expect("no divergence");
        assert_eq!(replayed.state.status, outcome.state.status);
        assert_eq!(replayed.state.usage, outcome.state.usage);
        assert_eq!(format!("{:?}", replayed.env.vars.as_map()), format!("{:?}", outcome.env.vars.as_map()));
        assert_eq!(self.sent(), sent, "the replay sent something");
    }
}

/// The plans whose runs end without a person.
const PLANS: [fn() -> Plan; 2] = [plans::full_plan, plans::conversation_plan];

/// The paths of the steps that a run has.
fn step_paths(state: &RunState) -> Vec<Path> {
    state.steps().iter().map(|step| step.path.clone()).collect()
}

/// The paths that the last reopening of a run resets.
fn last_reset(outcome: &RunOutcome) -> BTreeSet<Path> {
    let reset = outcome.records.iter().rev().find_map(|record| match &record.event {
        Event::RunReopened { reset, .. } => Some(reset.iter().cloned().collect()),
        _ => None,
    });
    reset.expect("reopened")
}

#[test]
fn a_run_is_retried_from_every_step() {
    for plan in PLANS {
        let paths = step_paths(&Trial::new(plan()).start_run().state);
        assert!(paths.len() > 20);
        for from in paths {
            let trial = Trial::new(plan());
            let before = trial.start_run();
            assert_eq!(before.state.status, Status::Succeeded);
            let sent = trial.sent();
            let outcome = trial.retry(before.id, "again", Some(&from)).expect("retried");
            assert_eq!(outcome.state.status, Status::Succeeded, "from {from}: {:?}", outcome.state.error);
            let reset = last_reset(&outcome);
            for (key, count) in trial.sent() {
                // Expressions have no effect, and are evaluated again.
                let is_again = sent.contains_key(&key) && count > 1 && !key.contains("expression~");
                assert!(!is_again, "from {from}: {key} was sent again");
            }
            for step in before.state.steps().iter().filter(|step| !reset.contains(&step.path) && step.kind.is_some()) {
                let now = outcome.state.find_step(&step.path).expect("kept");
                assert_eq!((now.attempts, &now.output), (step.attempts, &step.output), "from {from}: {}", step.path);
            }
            trial.check_replay(&outcome);
        }
    }
}

/// A graph in which `start` comes before `side` and `middle`, and `middle` before `end`.
fn branching_plan() -> Plan {
    let node = |step, needs| DagNode { step, needs };
    let given = |name: &str| (Arc::from(name), Expr::Ref(variable_ref(name)));
    // A function that is given all variables would depend on every node that has ended before it.
    let call = |key: &str, function: &str, reads: &[&str]| {
        let arguments = Some(reads.iter().map(|name| given(name)).collect());
        let call = FunctionCall { arguments, ..FunctionCall::with_prompt(function, Template::from_literal("x")) };
        make_step(key, Leaf::Call(call))
    };
    let nodes = vec![
        node(call("start", "f", &[]), vec![]),
        node(call("side", "f", &["start"]), vec![0]),
        node(call("middle", "f", &["start"]), vec![0]),
        node(call("end", "once", &["middle"]), vec![2]),
        node(call("reader", "f", &["side"]), vec![2]),
    ];
    let graph = make_step("graph", Composite::Dag(Dag { nodes, fails: false, skip_reason: "{} failed" }));
    make_plan(sequence_step("all", vec![graph, call_step("last", "f")]))
}

#[test]
fn a_retry_from_a_step_keeps_independent_branches() {
    let reset_from = |plan: fn() -> Plan, from: &str| {
        let trial = Trial::new(plan());
        let ended = trial.start_run();
        assert_eq!(ended.state.status, Status::Succeeded);
        let outcome = trial.retry(ended.id, "again", Path::parse(from).as_ref()).expect("retried");
        assert_eq!(outcome.state.status, Status::Succeeded, "from {from}: {:?}", outcome.state.error);
        trial.check_replay(&outcome);
        last_reset(&outcome).iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    // What reads a variable of the step may have read it.
    assert_eq!(reset_from(branching_plan, "/graph/side"), ["/graph", "/graph/reader", "/graph/side", "/last"]);
    let from_middle = reset_from(branching_plan, "/graph/middle");
    assert_eq!(from_middle, ["/graph", "/graph/end", "/graph/middle", "/graph/reader", "/last"]);

    let reset = reset_from(plans::full_plan, "/fan/p2/q1");
    let of_fan: Vec<&str> = reset.iter().map(String::as_str).filter(|path| path.starts_with("/fan")).collect();
    assert_eq!(of_fan, ["/fan", "/fan/p2/q1", "/fan/p2/q2"]);
    assert!(reset.iter().any(|path| path == "/last-call"), "{reset:?}");
}

#[test]
fn a_cancelled_run_is_retried_after_every_event() {
    for plan in [plans::full_plan, plans::conversation_plan, plans::at_most_once_plan] {
        let events = {
            let trial = Trial::new(plan());
            trial.drive_until_end(trial.start_run()).records.len()
        };
        for cut in 1..events - 1 {
            let trial = Trial::new(plan());
            trial.journal.crash_after(cut);
            let broken = trial.start_run();
            trial.journal.end_crash();
            if trial.journal.run_records(broken.id).is_empty() {
                continue;
            }
            trial.post(broken.id, "stop", CommandAction::Cancel {});
            let cancelled = trial.resume_run(broken.id).expect("cancelled");
            assert_eq!(cancelled.state.status, Status::Cancelled);
            let retried = trial.retry(broken.id, "again", None).expect("retried");
            let outcome = trial.drive_until_end(retried);
            assert_eq!(outcome.state.status, Status::Succeeded, "cut {cut}: {:?}", outcome.state.error);
            trial.check_replay(&outcome);
            let decisions =
                outcome.records.iter().filter(|record| matches!(record.event, Event::StepResent)).count() as u32;
            let posts = trial.sent().into_iter().filter(|(key, _)| key.contains("/post ")).map(|(_, count)| count);
            assert!(posts.sum::<u32>() <= 1 + decisions, "cut {cut}: a POST was sent without a decision");
        }
    }
}

#[test]
fn a_retry_survives_a_crash_after_each_of_its_events() {
    for plan in PLANS {
        let calm = Trial::new(plan());
        let before = calm.start_run();
        let from = before
            .state
            .steps()
            .iter()
            .find(|step| step.path.as_str().contains("beside"))
            .map_or_else(|| Path::parse("/remember").expect("a path"), |step| step.path.clone());
        let expected = calm.retry(before.id, "again", Some(&from)).expect("retried");
        for cut in 0..expected.records.len() - before.records.len() {
            let trial = Trial::new(plan());
            let run = trial.start_run().id;
            trial.journal.crash_after(cut);
            let broken = trial.retry(run, "again", Some(&from));
            trial.journal.end_crash();
            assert!(broken.is_err() || broken.is_ok_and(|outcome| outcome.broken.is_some()), "cut {cut}");
            let outcome = trial.drive_until_end(trial.resume_run(run).expect("resumable"));
            assert_eq!(outcome.state.status, Status::Succeeded, "cut {cut}: {:?}", outcome.state.error);
            let reopened = outcome.records.iter().filter(|record| matches!(record.event, Event::RunReopened { .. }));
            assert_eq!(reopened.count(), 1, "cut {cut}");
            let is_applied = trial.journal.find_command(run, "again").and_then(|command| command.outcome);
            assert_eq!(is_applied, Some(CommandOutcome::Applied), "cut {cut}");
            trial.check_replay(&outcome);
        }
    }
}

/// A request of a function that succeeded is kept, and one without an outcome is asked about.
#[test]
fn a_retried_function_sends_no_request_again_without_a_decision() {
    let mut step = call_step("host", "posts");
    step.policy.timeout_ms = Some(1_000_000);
    let trial = Trial::new(make_plan(sequence_step("all", vec![step])));
    let failed = trial.start_run();
    assert_eq!(
        (failed.state.status, failed.state.error.map(|error| error.code)),
        (Status::Failed, Some(Code::StepTimeout))
    );
    let count =
        |name: &str| trial.sent().iter().filter(|(key, _)| key.contains(name)).map(|(_, count)| *count).sum::<u32>();
    assert_eq!((count("/call~1 "), count("/call~2 ")), (1, 1), "{:?}", trial.sent());
    trial.world.repair();
    let asking = trial.retry(failed.id, "again", None).expect("retried");
    assert_eq!(asking.state.status, Status::Uncertain);
    assert_eq!((count("/call~1 "), count("/call~2 ")), (1, 1), "{:?}", trial.sent());
    let outcome = trial.drive_until_end(asking);
    assert_eq!(outcome.state.status, Status::Succeeded, "{:?}", outcome.state.error);
    assert_eq!((count("/call~1 "), count("/call~2 ")), (1, 2), "{:?}", trial.sent());
    trial.check_replay(&outcome);
}

fn retried(mut step: Step) -> Step {
    step.policy.retry = Some(RetryRule { max: 2, base_ms: 100, cap_ms: 10_000 });
    step
}

fn ignored(mut step: Step) -> Step {
    step.policy.on_error = OnError::Continue;
    step
}

/// A sequence with a failure that is ignored, and a parallel group in which two members fail and one succeeds.
fn failing_plan() -> Plan {
    let group = vec![
        call_step("kept", "f"),
        retried(call_step("repaired", "repairable")),
        sequence_step("other", vec![call_step("before", "f"), call_step("also-repaired", "repairable")]),
    ];
    make_plan(sequence_step(
        "all",
        vec![
            call_step("first", "f"),
            ignored(call_step("optional", "broken")),
            make_step("group", Composite::Parallel(group)),
            call_step("last", "f"),
        ],
    ))
}

#[test]
fn only_what_failed_runs_again() {
    let trial = Trial::new(failing_plan());
    let failed = trial.start_run();
    assert_eq!(failed.state.status, Status::Failed);
    let again = trial.retry(failed.id, "one", None).expect("retried");
    assert_eq!(again.state.status, Status::Failed, "nothing was repaired");
    let reset: Vec<_> = last_reset(&again).into_iter().map(|path| path.to_string()).collect();
    assert_eq!(reset, ["/group/other/also-repaired", "/group/repaired"]);
    trial.check_replay(&again);
    trial.world.repair();
    let outcome = trial.retry(failed.id, "two", None).expect("retried");
    assert_eq!(outcome.state.status, Status::Succeeded, "{:?}", outcome.state.error);
    let attempts = |path: &str| {
        let path = Path::parse(path).expect("a path");
        outcome.state.find_step(&path).map(|step| step.attempts)
    };
    assert_eq!((attempts("/first"), attempts("/optional"), attempts("/group/kept")), (Some(1), Some(1), Some(1)));
    // Three attempts in each of two failed runs, and then the one that succeeded.
    assert_eq!((attempts("/group/repaired"), attempts("/group/other/also-repaired")), (Some(7), Some(3)));
    assert_eq!(outcome.state.earlier_ends.len(), 2);
    assert!(outcome.state.earlier_ends.iter().all(|end| end.status == Status::Failed && end.reopened_by == "me"));
    trial.check_replay(&outcome);
}

#[test]
fn the_failed_nodes_of_a_graph_and_the_skipped_ones_run_again() {
    let node = |step, needs| DagNode { step, needs };
    let nodes = vec![
        node(call_step("a", "f"), vec![]),
        node(ignored(call_step("b", "repairable")), vec![0]),
        node(ignored(call_step("c", "f")), vec![1]),
        node(ignored(call_step("d", "f")), vec![0]),
    ];
    let dag = make_step("graph", Composite::Dag(Dag { nodes, fails: true, skip_reason: "{} failed" }));
    let trial = Trial::new(make_plan(sequence_step("all", vec![dag, call_step("end", "f")])));
    let failed = trial.start_run();
    assert_eq!(failed.state.error.as_ref().map(|error| error.code), Some(Code::NodesFailed));
    trial.world.repair();
    let outcome = trial.retry(failed.id, "one", None).expect("retried");
    assert_eq!(outcome.state.status, Status::Succeeded, "{:?}", outcome.state.error);
    let reset: Vec<_> = last_reset(&outcome).into_iter().map(|path| path.to_string()).collect();
    assert_eq!(reset, ["/graph/b", "/graph/c"]);
    trial.check_replay(&outcome);
}

#[test]
fn retries_that_make_no_sense_are_rejected() {
    let trial = Trial::new(plans::full_plan());
    let ended = trial.start_run();
    let reject = |id: &str, from: Option<&str>| {
        let from = from.and_then(Path::parse);
        assert!(matches!(trial.retry(ended.id, id, from.as_ref()), Err(RunError::Ended(Status::Succeeded))));
        match trial.journal.find_command(ended.id, id).and_then(|command| command.outcome) {
            Some(CommandOutcome::Rejected(error)) => error.to_string(),
            outcome => panic!("{outcome:?}"),
        }
    };
    let message = reject("nothing", None);
    assert!(message.contains("no step failed"), "{message}");
    let message = reject("misspelt", Some("/rember"));
    assert!(message.contains("similar ones are /remember"), "{message}");
    assert_eq!(trial.journal.run_records(ended.id).len(), ended.records.len(), "nothing was recorded");
    // Of two commands, the first is applied, and the second finds a run that has not ended.
    let from = Path::parse("/last-call").expect("a path");
    trial.post(ended.id, "first", CommandAction::Retry { from: Some(from.clone()) });
    let outcome = trial.retry(ended.id, "second", Some(&from)).expect("retried");
    let decided = |id: &str| trial.journal.find_command(ended.id, id).and_then(|command| command.outcome);
    assert_eq!(decided("first"), Some(CommandOutcome::Applied));
    assert!(matches!(decided("second"), Some(CommandOutcome::Rejected(error)) if error.code == Code::NothingToDo));
    assert_eq!(outcome.state.earlier_ends.len(), 1);
}

#[test]
fn limits_count_both_lives_and_the_time_limit_starts_again() {
    let limits = Limits { time_ms: Some(5_000), ..Limits::default() };
    let plan = Plan { limits, ..failing_plan() };
    let trial = Trial::new(plan);
    let failed = trial.start_run();
    trial.world.clock.block_on(trial.world.clock.sleep_for(3_600_000)).expect("no deadlock");
    trial.world.repair();
    let outcome = trial.retry(failed.id, "one", None).expect("retried");
    assert_eq!(outcome.state.status, Status::Succeeded, "{:?}", outcome.state.error);

    let limits = Limits { steps: 9, ..Limits::default() };
    let trial = Trial::new(Plan { limits, ..failing_plan() });
    let failed = trial.start_run();
    assert_eq!(failed.state.error.as_ref().map(|error| error.code), Some(Code::FunctionFailed));
    trial.world.repair();
    let outcome = trial.retry(failed.id, "one", None).expect("retried");
    assert_eq!(outcome.state.error.as_ref().map(|error| error.code), Some(Code::LimitSteps));
}

#[test]
fn a_clock_that_is_set_back_does_not_lengthen_a_wait() {
    let pause = || make_plan(make_step("pause", Leaf::Wait { duration_ms: 60_000 }));
    let backoff = || {
        let mut step = call_step("again", "flaky");
        step.policy.retry = Some(RetryRule { max: 3, base_ms: 60_000, cap_ms: 60_000 });
        make_plan(step)
    };
    for (plan, last_event) in [(pause(), "timer_set"), (backoff(), "step_failed")] {
        let trial = Trial::new(plan);
        let whole = trial.start_run();
        let cut = whole.records.iter().position(|record| record.event.name() == last_event).expect("recorded") + 1;
        let trial = Trial::new((*trial.plan).clone());
        trial.journal.crash_after(cut);
        let broken = trial.start_run();
        trial.journal.end_crash();
        let before = trial.world.clock.elapsed_ms();
        trial.world.clock.set_back(900_000);
        let outcome = trial.resume_run(broken.id).expect("resumable");
        assert_eq!(outcome.state.status, Status::Succeeded);
        let waited = trial.world.clock.elapsed_ms() - before;
        assert!(waited <= 2 * 60_000 + 1_000, "{last_event}: waited {waited} ms");
    }
}

#[test]
fn a_run_of_another_engine_can_be_cancelled() {
    let trial =
        Trial::new(make_plan(make_step("ask", Leaf::Ask { question: plans::variable_text("last"), schema: None })));
    let waiting = trial.start_run();
    trial.journal.change_semantics(waiting.id, 999);
    assert!(matches!(trial.resume_run(waiting.id), Err(RunError::OtherSemantics(999))));
    trial.post(waiting.id, "stop", CommandAction::Cancel {});
    let outcome = trial.resume_run(waiting.id).expect("cancelled");
    assert_eq!(outcome.state.status, Status::Cancelled);
    assert!(RunState::from_records(outcome.records.iter().map(|record| &**record)).is_ok());
}
