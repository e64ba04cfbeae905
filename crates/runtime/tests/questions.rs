//! Questions with a time limit: they expire, on time and once, whether or not a worker drives the run.

#[allow(dead_code)]
#[path = "world/plans.rs"]
mod plans;
#[allow(dead_code)]
#[path = "world/trial.rs"]
mod trial;
#[allow(dead_code)]
mod world;

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::effect::AskRequest;
use flowloom_core::event::{Event, Record};
use flowloom_core::expr::Template;
use flowloom_core::path::Path;
use flowloom_core::plan::*;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_runtime::RunOutcome;
use flowloom_runtime::command::{CommandAction, CommandOutcome, RunCommand};
use flowloom_runtime::effects::Clock as _;
use plans::{call_step, make_plan, make_step};
use trial::Trial;

const LIMIT_MS: u64 = 60_000;

impl Trial {
    fn pass_time(&self, duration_ms: u64) {
        self.world.clock.block_on(self.world.clock.sleep_for(duration_ms)).expect("no deadlock");
    }

    /// Stores an answer to the question that the run asks.
    fn post_answer(&self, outcome: &RunOutcome, id: &str) {
        let path = open_question(outcome).expect("a question").0;
        let action = CommandAction::Answer { path, value: "yes".into() };
        let command = RunCommand { id: id.to_owned(), sender: "me".to_owned(), action };
        self.journal.post_command(outcome.id, command).expect("stored");
    }

    fn check_replay(&self, outcome: &RunOutcome) {
        let replay = self.engine.replay_run(outcome.records.clone(), self.plan.clone());
        let replayed = self.world.clock.block_on(replay).expect("no deadlock").expect("no divergence");
        assert_eq!(replayed.state.status, outcome.state.status);
        assert!(RunState::from_records(outcome.records.iter().map(|record| &**record)).is_ok());
    }
}

fn ask_step(retries: u32) -> Step {
    let mut ask = make_step("ask", Leaf::Ask { question: Template::from_literal("Sure?"), schema: None });
    ask.policy.timeout_ms = Some(LIMIT_MS);
    ask.policy.retry = (retries > 0).then_some(RetryRule { max: retries, base_ms: 1_000, cap_ms: 1_000 });
    ask
}

/// The question that a run waits for, with the time at which it expires.
fn open_question(outcome: &RunOutcome) -> Option<(Path, Option<u64>)> {
    outcome.state.open_steps().find_map(|open| Some((open.path, open.question?.expires_at)))
}

fn error_code(outcome: &RunOutcome) -> Option<Code> {
    outcome.state.error.as_ref().map(|error| error.code)
}

#[test]
fn a_question_expires_although_no_worker_drove_the_run() {
    let trial = Trial::new(make_plan(ask_step(0)));
    let asked_at = trial.world.clock.now_ms();
    let waiting = trial.start_run();
    assert_eq!(waiting.state.status, Status::Waiting);
    assert_eq!(open_question(&waiting).and_then(|(_, expires_at)| expires_at), Some(asked_at + LIMIT_MS));
    trial.pass_time(LIMIT_MS / 2);
    let waiting = trial.resume_run(waiting.id).expect("resumable");
    assert_eq!(waiting.state.status, Status::Waiting);
    assert_eq!(open_question(&waiting).and_then(|(_, expires_at)| expires_at), Some(asked_at + LIMIT_MS));
    trial.pass_time(LIMIT_MS / 2);
    let expired = trial.resume_run(waiting.id).expect("resumable");
    assert_eq!((expired.state.status, error_code(&expired)), (Status::Failed, Some(Code::StepTimeout)));
    assert_eq!(open_question(&expired), None);
    trial.check_replay(&expired);
}

#[test]
fn an_answer_in_time_counts_although_the_run_continues_after_the_limit() {
    let trial = Trial::new(make_plan(ask_step(0)));
    let waiting = trial.start_run();
    trial.post_answer(&waiting, "in time");
    trial.pass_time(2 * LIMIT_MS);
    let answered = trial.resume_run(waiting.id).expect("resumable");
    assert_eq!(answered.state.status, Status::Succeeded);
    trial.check_replay(&answered);
}

#[test]
fn setting_the_clock_back_does_not_keep_a_question_open() {
    let trial = Trial::new(make_plan(ask_step(0)));
    let waiting = trial.start_run();
    trial.world.clock.set_back(10 * LIMIT_MS);
    trial.pass_time(11 * LIMIT_MS);
    assert_eq!(error_code(&trial.resume_run(waiting.id).expect("resumable")), Some(Code::StepTimeout));
}

#[test]
fn a_question_that_expired_is_asked_again_if_the_step_is_retried() {
    let trial = Trial::new(make_plan(ask_step(1)));
    let first = trial.start_run();
    trial.pass_time(LIMIT_MS);
    let second = trial.resume_run(first.id).expect("resumable");
    let asked = second.records.iter().filter(|record| matches!(record.event, Event::Asked(_))).count();
    assert_eq!((second.state.status, asked), (Status::Waiting, 2));
    trial.post_answer(&second, "answer");
    let answered = trial.resume_run(second.id).expect("resumable");
    assert_eq!(answered.state.status, Status::Succeeded);
    trial.check_replay(&answered);
}

#[test]
fn a_question_expires_while_another_branch_runs() {
    let mut ask = ask_step(0);
    ask.policy.on_error = OnError::Continue;
    let slow = call_step("slow", "hang");
    let trial = Trial::new(make_plan(make_step("both", Composite::Parallel(vec![ask, slow]))));
    let run = trial.engine.start_run(trial.start_options(&trial.plan)).expect("accepted");
    let (id, journal) = (run.id(), trial.journal.clone());
    let mut driving = std::pin::pin!(run.drive_to_end());
    let clock = trial.world.clock.clone();
    // The other branch never ends, so the time passes during it.
    let passed = async {
        let time = clock.sleep_for(2 * LIMIT_MS);
        futures_util::future::select(&mut driving, time).await;
    };
    trial.world.clock.block_on(passed).expect("no deadlock");
    let events = journal.run_records(id);
    let has_expired = |record: &Arc<Record>| matches!(&record.event, Event::StepFailed { error, .. } if error.code == Code::StepTimeout);
    assert!(events.iter().any(has_expired), "{events:?}");
}

#[test]
fn a_question_of_an_earlier_version_does_not_expire() {
    let trial = Trial::new(make_plan(ask_step(0)));
    let waiting = trial.start_run();
    let mut records = waiting.records.clone();
    for record in &mut records {
        if let Event::Asked(question) = &record.event {
            let event = Event::Asked(AskRequest { expires_at: None, ..question.clone() });
            *record = Arc::new(Record { event, ..(**record).clone() });
        }
    }
    let replay = trial.engine.replay_run(records, trial.plan.clone());
    let replayed = trial.world.clock.block_on(replay).expect("no deadlock").expect("no divergence");
    assert_eq!(replayed.state.status, Status::Waiting);
}

#[test]
fn a_late_answer_is_rejected() {
    let trial = Trial::new(make_plan(ask_step(1)));
    let first = trial.start_run();
    trial.pass_time(LIMIT_MS);
    let expired = trial.resume_run(first.id).expect("resumable");
    trial.post_answer(&expired, "answer");
    let ended = trial.resume_run(first.id).expect("resumable");
    let command = RunCommand {
        id: "late".to_owned(),
        sender: "me".to_owned(),
        action: CommandAction::Answer { path: ended.state.steps()[0].path.clone(), value: "no".into() },
    };
    let late = trial.journal.post_command(first.id, command).expect("stored");
    assert!(matches!(late.outcome, Some(CommandOutcome::Rejected(_))), "{late:?}");
}
