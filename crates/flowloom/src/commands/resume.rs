//! `flowloom resume`, `cancel`, `answer` and `resolve`: signals to a run.

use std::time::Duration;

use flowloom_app::engines::{App, LoadedRun};
use flowloom_app::runs::finished::read_outcome;
use flowloom_app::runs::inputs::{parse_answer, parse_json_or_text};
use flowloom_app::runs::signal::SignalDelivery;
use flowloom_core::code::Code;
use flowloom_core::event::Resolution;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::{Phase, StepState};
use flowloom_runtime::journal::Signal;

use super::run::{drive_and_report, print_outcome};
use crate::cli::{AnswerArgs, Global, OutputArgs, ResolveArgs};
use crate::failure::{CommandError, CommandResult};

/// How often to poll a cancelled run before giving up on its worker.
const MAX_CANCEL_POLLS: u32 = 300;
/// Pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn resume_run(global: &Global, name: &str, output: &OutputArgs) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(name).await?;
    continue_run(global, &app, opened, output).await
}

/// Drives a run from the end of its journal. A finished run is reported again, with the same exit code.
async fn continue_run(global: &Global, app: &App, opened: LoadedRun, output: &OutputArgs) -> CommandResult {
    if opened.state().status.is_final() {
        let past = read_outcome(app, &opened).await?;
        eprintln!("the run has already ended: {}", past.state.status.name());
        return Ok(print_outcome(global, output, &opened.plan, &past));
    }
    let engine = app.engine_for_run(&opened)?;
    let run = engine.resume_run(opened.id, opened.plan.clone()).await?;
    Ok(drive_and_report(global, output, &engine, run, &opened.plan).await)
}

pub(crate) async fn cancel_run(global: &Global, name: &str) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(name).await?;
    let id = opened.id;
    if opened.state().status.is_final() {
        let message = format!("the run {id} has already ended");
        return Err(CommandError::new(Code::NothingToDo, message));
    }
    let signal = Signal::Cancel { by: "cancel".to_owned() };
    match app.deliver_signal(&opened, signal).await? {
        SignalDelivery::Recorded => {
            app.engine_for_run(&opened)?.resume_run(id, opened.plan.clone()).await?.drive_to_end().await;
        }
        SignalDelivery::SentToWorker => wait_for_end(&app, id).await?,
    }
    if !global.json {
        println!("cancelled {id}");
    } else {
        let past = read_outcome(&app, &app.open_run_by_id(id).await?).await?;
        super::print_json(&flowloom_app::runs::summary::summarize_run(id, &opened.plan, &past.state, &past.env));
    }
    Ok(0)
}

async fn wait_for_end(app: &App, id: RunId) -> Result<(), CommandError> {
    for _ in 0..MAX_CANCEL_POLLS {
        if app.store.get_run(id)?.is_some_and(|run| run.finished_at.is_some()) {
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let message = "the worker of the run has not cancelled it yet; the signal remains recorded";
    Err(CommandError::new(Code::RunOwned, message))
}

pub(crate) async fn answer_question(global: &Global, arguments: AnswerArgs) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(&arguments.run).await?;
    let state = opened.state();
    let open: Vec<&StepState> = state.steps().iter().filter(|step| step.question.is_some()).collect();
    let path = select_step(&open, arguments.path.as_deref(), "question")?;
    let question = open.iter().find(|step| step.path == path).and_then(|step| step.question.as_ref());
    let value = match question {
        Some(question) if question.schema.is_some() => parse_answer(question, &arguments.answer),
        _ => parse_json_or_text(&arguments.answer),
    };
    let signal = Signal::Answer { path, value, by: "answer".to_owned() };
    send_signal(global, &app, opened, signal, arguments.no_resume, &arguments.output).await
}

pub(crate) async fn resolve_effect(global: &Global, arguments: ResolveArgs) -> CommandResult {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(&arguments.run).await?;
    let state = opened.state();
    let open: Vec<&StepState> = state.steps().iter().filter(|step| step.phase == Phase::Uncertain).collect();
    let path = select_step(&open, Some(&arguments.path), "uncertain effect")?;
    let how = match &arguments.value {
        Some(value) => Resolution::Value(parse_json_or_text(value)),
        None if arguments.resend => Resolution::Resend,
        None => Resolution::Fail,
    };
    let signal = Signal::Resolve { path, how, by: "resolve".to_owned() };
    send_signal(global, &app, opened, signal, arguments.no_resume, &arguments.output).await
}

/// The named step, or the only candidate.
fn select_step(open: &[&StepState], path: Option<&str>, what: &str) -> Result<Path, CommandError> {
    let paths: Vec<&str> = open.iter().map(|step| step.path.as_str()).collect();
    let nothing = |message: String| CommandError::new(Code::NothingToDo, message);
    match (path, open) {
        (_, []) => Err(nothing(format!("the run has no open {what}; continue it with flowloom resume"))),
        (None, [only]) => Ok(only.path.clone()),
        (Some(path), _) => match open.iter().find(|step| step.path.as_str() == path) {
            Some(step) => Ok(step.path.clone()),
            None => Err(nothing(format!("no open {what} at {path}; expected one of {}", paths.join(", ")))),
        },
        (None, _) => {
            Err(CommandError::usage(format!("there are several; choose one with --path: {}", paths.join(", "))))
        }
    }
}

/// Sends a signal to a run: through its worker if it has one, else by recording it and resuming the run.
async fn send_signal(
    global: &Global,
    app: &App,
    opened: LoadedRun,
    signal: Signal,
    only_record: bool,
    output: &OutputArgs,
) -> CommandResult {
    match app.deliver_signal(&opened, signal).await? {
        SignalDelivery::Recorded if only_record => {
            eprintln!("recorded; continue with flowloom resume {}", opened.id);
            Ok(0)
        }
        SignalDelivery::Recorded => {
            let opened = app.open_run_by_id(opened.id).await?;
            continue_run(global, app, opened, output).await
        }
        SignalDelivery::SentToWorker => {
            eprintln!("sent to the worker of the run");
            Ok(0)
        }
    }
}
