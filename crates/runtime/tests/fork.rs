//! Forks runs: at every step, after a cut at every event, and with a crash at every event of the fork. What the fork takes from
//! the record is not performed, the rest is, and the record of the fork replays by itself.

#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
#[path = "world/trial.rs"]
mod trial;
#[allow(dead_code)]
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use flowloom_core::event::{Event, ForkOrigin, Record, Resolution, SetVariables};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::plan::*;
use flowloom_core::state::Phase;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_runtime::command::{CommandAction, RunCommand};
use flowloom_runtime::reopen::find_performed_step;
use flowloom_runtime::{ForkedRun, RunError, RunOutcome};
use plans::{call_step, make_plan, sequence_step};
use trial::Trial;

/// A trial of a plan that has several runs.
fn new_trial(plan: Plan) -> Trial {
    let next = AtomicU8::new(1);
    Trial::with_ids(plan, move || RunId::new(1, [next.fetch_add(1, Ordering::Relaxed); 10]))
}

impl Trial {
    /// Forks a run, under another plan if one is given.
    fn fork(&self, records: &[Arc<Record>], origin: ForkOrigin, plan: Option<Plan>) -> Result<RunOutcome, RunError> {
        let plan = plan.map_or_else(|| self.plan.clone(), Arc::new);
        let performed = origin.at.clone().into_iter().collect();
        let from = ForkedRun { records: records.to_vec(), plan: self.plan.clone(), origin, performed };
        let fork = self.engine.fork_run(from, self.start_options(&plan));
        let run = self.world.clock.block_on(fork).expect("no deadlock")?;
        Ok(self.world.clock.block_on(run.drive_to_end()).expect("no deadlock"))
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
                let id = format!("{n} {}", outcome.records.len());
                let command = RunCommand { id, sender: "me".to_owned(), action };
                self.journal.post_command(outcome.id, command).expect("stored");
            }
            outcome = self.resume_run(outcome.id).expect("resumable");
        }
        panic!("the run does not end: {:?}", outcome.state.status)
    }

    /// The paths of the requests that were sent since the last call.
    fn take_sent(&self) -> BTreeSet<String> {
        let sent = std::mem::take(&mut *self.world.sent.lock().expect("not poisoned"));
        sent.into_keys().filter_map(|key| key.split(' ').next().map(str::to_owned)).collect()
    }

    /// Checks that the record replays without a difference and without effects.
    #[track_caller]
    fn check_replay(&self, outcome: &RunOutcome, plan: Arc<Plan>) {
        self.take_sent();
        let replay = self.engine.replay_run(outcome.records.clone(), plan);
        let replayed = self.world.clock.block_on(replay).expect("no deadlock").expect("no divergence");
        assert_eq!(replayed.state.status, outcome.state.status);
        assert_eq!(replayed.state.usage, outcome.state.usage);
        assert_eq!(format!("{:?}", replayed.env.vars.as_map()), format!("{:?}", outcome.env.vars.as_map()));
        assert_eq!(self.take_sent(), BTreeSet::new(), "the replay sent something");
    }
}

fn origin_of(run: RunId) -> ForkOrigin {
    ForkOrigin { run, at: None, set: Vec::new(), inherited: Vec::new(), repeats_effects: true }
}

fn path(text: &str) -> Path {
    Path::parse(text).expect("a path")
}

fn reused_paths(outcome: &RunOutcome) -> BTreeSet<String> {
    outcome.state.steps().iter().filter(|step| step.is_reused).map(|step| step.path.to_string()).collect()
}

/// The plans whose runs end without a person.
const PLANS: [fn() -> Plan; 2] = [plans::full_plan, plans::conversation_plan];

#[test]
fn a_run_is_forked_at_every_step() {
    for plan in PLANS {
        let trial = new_trial(plan());
        let before = trial.start_run();
        let all = trial.take_sent();
        let hosts: Vec<String> = before.state.steps().iter().map(|step| step.path.to_string()).collect();
        assert!(hosts.len() > 20);
        for step in before.state.steps() {
            // A child effect is performed by the function or block around it.
            let at = &find_performed_step(&before.state, &step.path).expect("there");
            let origin = ForkOrigin { at: Some(at.clone()), ..origin_of(before.id) };
            let outcome = trial.fork(&before.records, origin, None).expect("forked");
            assert_eq!(outcome.state.status, Status::Succeeded, "at {at}: {:?}", outcome.state.error);
            let sent = trial.take_sent();
            let reused = reused_paths(&outcome);
            assert_eq!(sent.intersection(&reused).next(), None, "at {at}: a reused step was performed");
            let found = &sent | &reused;
            let missed: Vec<_> = all.difference(&found).filter(|path| !path.contains("expression~")).collect();
            assert!(missed.is_empty(), "at {at}: neither reused nor performed: {missed:?}");
            let again = outcome.state.steps().iter().filter(|step| step.is_reused);
            assert!(again.clone().all(|step| !step.path.is_within(at)), "at {at}: reused below");
            let usage: u64 = again.filter_map(|step| step.usage).map(|usage| usage.input_tokens).sum();
            assert_eq!(outcome.state.usage.input_tokens + usage, before.state.usage.input_tokens, "at {at}");
            trial.check_replay(&outcome, trial.plan.clone());
        }
    }
}

#[test]
fn a_fork_without_changes_reuses_everything() {
    for plan in PLANS {
        let trial = new_trial(plan());
        let before = trial.start_run();
        trial.take_sent();
        let outcome = trial.fork(&before.records, origin_of(before.id), None).expect("forked");
        assert_eq!(trial.take_sent(), BTreeSet::new());
        assert_eq!(outcome.state.usage.input_tokens, 0);
        assert_eq!(format!("{:?}", outcome.env.vars.as_map()), format!("{:?}", before.env.vars.as_map()));
        trial.check_replay(&outcome, trial.plan.clone());
    }
}

#[test]
fn a_run_is_forked_after_every_event() {
    for plan in [plans::full_plan, plans::conversation_plan, plans::at_most_once_plan] {
        let trial = new_trial(plan());
        let records = trial.drive_until_end(trial.start_run()).records;
        for cut in 1..records.len() {
            trial.take_sent();
            let outcome = trial.fork(&records[..cut], origin_of(records[0].run), None).expect("forked");
            let outcome = trial.drive_until_end(outcome);
            assert_eq!(outcome.state.status, Status::Succeeded, "cut {cut}: {:?}", outcome.state.error);
            assert_eq!(trial.take_sent().intersection(&reused_paths(&outcome)).next(), None, "cut {cut}");
            trial.check_replay(&outcome, trial.plan.clone());
        }
    }
}

#[test]
fn a_fork_survives_a_crash_after_each_of_its_events() {
    for plan in PLANS {
        let trial = new_trial(plan());
        let before = trial.start_run();
        let at = before.state.steps()[before.state.steps().len() / 2].path.clone();
        let origin = ForkOrigin { at: Some(at), ..origin_of(before.id) };
        let expected = trial.fork(&before.records, origin.clone(), None).expect("forked");
        let reused = reused_paths(&expected);
        for cut in 0..expected.records.len() {
            trial.take_sent();
            trial.journal.crash_after(cut);
            let broken = trial.fork(&before.records, origin.clone(), None).expect("forked");
            trial.journal.end_crash();
            if trial.journal.run_records(broken.id).is_empty() {
                continue;
            }
            let outcome = trial.drive_until_end(trial.resume_run(broken.id).expect("resumable"));
            assert_eq!(outcome.state.status, Status::Succeeded, "cut {cut}: {:?}", outcome.state.error);
            assert_eq!(reused_paths(&outcome), reused, "cut {cut}: a crash lost what was reused");
            assert_eq!(trial.take_sent().intersection(&reused).next(), None, "cut {cut}");
            trial.check_replay(&outcome, trial.plan.clone());
        }
    }
}

#[test]
fn the_first_step_that_differs_begins_live_execution() {
    let steps = |second: &str| {
        let steps = vec![call_step("a", "f"), call_step("b", second), call_step("c", "f")];
        let beside = call_step("d", "f");
        let group = vec![sequence_step("left", steps), sequence_step("right", vec![beside])];
        make_plan(plans::make_step("both", Composite::Parallel(group)))
    };
    let trial = new_trial(steps("f"));
    let before = trial.start_run();
    let outcome = trial.fork(&before.records, origin_of(before.id), Some(steps("g"))).expect("forked");
    assert_eq!(outcome.state.status, Status::Succeeded, "{:?}", outcome.state.error);
    // `c` is the same, but behind a step that differs. The other branch is not.
    let expected: BTreeSet<String> = ["/left/a", "/right/d"].map(str::to_owned).into();
    assert_eq!(reused_paths(&outcome), expected);
    trial.check_replay(&outcome, Arc::new(steps("g")));
}

#[test]
fn variables_are_set_before_the_step() {
    let trial = new_trial(plans::full_plan());
    let before = trial.start_run();
    let at = path("/last-call");
    let set = vec![("changed".to_owned(), Value::from("by the fork"))];
    let origin = ForkOrigin { at: Some(at), set, ..origin_of(before.id) };
    let outcome = trial.fork(&before.records, origin, None).expect("forked");
    assert_eq!(outcome.env.vars.as_map().get("changed"), Some(&Value::from("by the fork")));
    trial.check_replay(&outcome, trial.plan.clone());
}

#[test]
fn a_fork_of_a_fork_keeps_the_variables_that_were_set() {
    let trial = new_trial(plans::full_plan());
    let before = trial.start_run();
    let set = |at: &str, name: &str| SetVariables {
        at: path(at),
        variables: vec![(name.to_owned(), name.into())],
        only_if_reused: false,
    };
    let inherited = vec![set("/last-call", "first"), set("/last-call", "second")];
    let own = vec![("second".to_owned(), Value::from("own"))];
    let origin = ForkOrigin { at: Some(path("/last-call")), set: own, inherited, ..origin_of(before.id) };
    let outcome = trial.fork(&before.records, origin, None).expect("forked");
    let variables = outcome.env.vars.as_map();
    let read = |name: &str| variables.get(name).cloned();
    assert_eq!((read("first"), read("second")), (Some("first".into()), Some("own".into())));
    trial.check_replay(&outcome, trial.plan.clone());
}

/// A value that an earlier fork chose before `b` holds as long as nothing before `b` is performed.
#[test]
fn what_an_earlier_fork_set_does_not_replace_what_is_computed_anew() {
    let plan = |first: &str, last: &str| {
        let steps = vec![call_step("a", first), call_step("b", "f"), call_step("c", last)];
        make_plan(sequence_step("all", steps))
    };
    let trial = new_trial(plan("f", "f"));
    let before = trial.start_run();
    let variables = vec![("chosen".to_owned(), Value::from("earlier"))];
    let inherited = vec![SetVariables { at: path("/b"), variables, only_if_reused: true }];
    let origin = || ForkOrigin { inherited: inherited.clone(), ..origin_of(before.id) };
    for (changed, expected) in [(plan("f", "g"), Some(Value::from("earlier"))), (plan("g", "f"), None)] {
        let outcome = trial.fork(&before.records, origin(), Some(changed.clone())).expect("forked");
        assert_eq!(outcome.env.vars.as_map().get("chosen"), expected.as_ref());
        trial.check_replay(&outcome, Arc::new(changed));
    }
}

#[test]
fn effects_that_must_not_be_repeated_wait_for_a_person() {
    let trial = new_trial(plans::at_most_once_plan());
    let records = trial.drive_until_end(trial.start_run()).records;
    trial.take_sent();
    let origin = ForkOrigin { at: Some(path("/fan")), repeats_effects: false, ..origin_of(records[0].run) };
    let outcome = trial.fork(&records, origin, None).expect("forked");
    assert_eq!(outcome.state.status, Status::Uncertain);
    assert!(!trial.take_sent().contains("/fan/post"), "a POST was sent without a decision");
    let ended = trial.drive_until_end(outcome);
    assert_eq!(ended.state.status, Status::Succeeded, "{:?}", ended.state.error);
    let resent = ended.records.iter().filter(|record| matches!(record.event, Event::StepResent));
    assert_eq!(resent.map(|record| record.path.as_str()).collect::<Vec<_>>().first(), Some(&"/fan/post"));
    trial.check_replay(&ended, trial.plan.clone());
}
