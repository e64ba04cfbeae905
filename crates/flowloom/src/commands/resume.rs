//! `flowloom resume`, `retry`, `cancel`, `answer` and `resolve`: commands to a run.

use flowloom_app::authoring::BuiltInWorkflow;
use flowloom_app::engines::App;
use flowloom_app::runs::commands::new_command;
use flowloom_app::runs::finished::read_outcome;
use flowloom_app::runs::inputs::{parse_answer, parse_json_or_text};
use flowloom_app::runs::open_steps::{select_question, select_uncertain};
use flowloom_app::runs::retry::build_retry;
use flowloom_app::runs::stored::LoadedRun;
use flowloom_core::code::Code;
use flowloom_core::effect::AskRequest;
use flowloom_core::event::Resolution;
use flowloom_core::plan::Plan;
use flowloom_core::state::{OpenStep, RunState};
use flowloom_core::status::Status;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::command::{CommandAction, CommandOutcome, RunCommand};
use flowloom_runtime::effects::Clock as _;
use flowloom_runtime::{Run, RunOutcome};
use flowloom_store::Actor;

use super::author_session::ClarifiedRun;
use super::authored::{AuthoredRun, find_target, finish_authoring};
use super::budget_limits::describe_larger_budget;
use super::display::RunDisplay;
use super::send::{Delivery, DrivenRun, describe_stored, send_command};
use crate::cli::{AnswerArgs, Global, OutputArgs, ResolveArgs, RetryArgs};
use crate::failure::{CommandError, CommandResult};
use crate::hint;
use crate::terminal::ask;

pub(crate) async fn resume_run(global: &Global, name: &str, output: &OutputArgs) -> CommandResult {
    let app = global.open_accepting_config()?;
    let opened = app.runs.open_run(name).await?;
    continue_run(global, &app, opened, output).await
}

/// Drives a run from the end of its journal. A finished run is reported again, with the same exit code.
async fn continue_run(global: &Global, app: &App, opened: LoadedRun, output: &OutputArgs) -> CommandResult {
    if opened.state().status.is_final() {
        let past = read_outcome(&app.runs, &opened).await?;
        eprintln!("the run has already ended: {}", past.state.status.name());
        if let Some(larger) = describe_larger_budget(&opened.id.to_string(), &past.state) {
            eprintln!("{larger}");
        } else if past.state.status != Status::Succeeded {
            eprintln!("to run again what did not succeed: {}", hint::command_line(&format!("retry {}", opened.id)));
        }
        // If there is a later run, the clarified goal has been taken up.
        let is_last = app.store.find_run("last")?.id == opened.id;
        if let Some(clarified) = ClarifiedRun::find(&opened.plan, &past).filter(|_| is_last) {
            return clarified.continue_authoring(global).await;
        }
        return report_resumed(&RunDisplay::new(global, app, output), &opened.plan, &past).await;
    }
    let child = opened.id;
    let opened = app.runs.open_driving_run(opened).await?;
    if opened.id != child {
        eprintln!("{child} is a child run of {}, which continues", opened.id);
    }
    if let Some(changed) = app.runs.describe_changed_config(&opened) {
        eprintln!("warning: {changed}");
    }
    let run = app.runs.resume_loaded(&opened).await?;
    let display = RunDisplay::new(global, app, output);
    let outcome = display.drive_loaded(run, &opened).await?;
    let driven = DrivenRun { plan: opened.plan, outcome };
    let driven = display.answer_questions(driven, "resume").await?;
    if let Some(clarified) = ClarifiedRun::find(&driven.plan, &driven.outcome) {
        return clarified.continue_authoring(global).await;
    }
    report_resumed(&display, &driven.plan, &driven.outcome).await
}

/// Reports a run as `run` does. For a run of `new`, writes the files of its pipeline.
pub(super) async fn report_resumed(display: &RunDisplay<'_>, plan: &Plan, outcome: &RunOutcome) -> CommandResult {
    if let Some(target) = find_target(plan, outcome).filter(|_| outcome.state.status.is_final()) {
        return finish_authoring(
            display.global,
            display.app,
            &AuthoredRun { outcome, plan, target: &target, is_resumed: true },
        )
        .await;
    }
    let code = display.print_outcome(plan, outcome);
    if plan.id.as_deref() == Some(BuiltInWorkflow::Clarifier.id()) {
        eprintln!("to create the pipeline: flowloom new --yes with the refined description");
    }
    Ok(code)
}

pub(crate) async fn retry_run(global: &Global, arguments: RetryArgs) -> CommandResult {
    let app = global.open_accepting_config()?;
    let opened = app.runs.open_run(&arguments.run).await?;
    let action = build_retry(&app.runs, &opened, arguments.from.as_deref())?;
    send_and_report(global, &app, &opened, new_command(None, "retry", action), false, &arguments.output).await
}

/// Cancels a run that has not ended, and its child runs, on behalf of `sender`.
pub(super) async fn cancel_opened(app: &App, opened: &LoadedRun, sender: &str) -> Result<(), CommandError> {
    let command = new_command(None, sender, CommandAction::Cancel {});
    if matches!(send_command(app, opened, command, drive_silently).await?, Delivery::Stored) {
        return Err(describe_stored(opened.id));
    }
    Ok(app.runs.end_child_runs(opened.id).await?)
}

pub(crate) async fn cancel_run(global: &Global, name: &str) -> CommandResult {
    let app = global.open_existing()?;
    let opened = app.runs.open_run(name).await?;
    let id = opened.id;
    if opened.state().status.is_final() {
        let message = format!("the run {id} has already ended");
        return Err(CommandError::new(Code::NothingToDo, message));
    }
    cancel_opened(&app, &opened, "cancel").await?;
    if !global.json {
        println!("cancelled {id}");
    } else {
        let past = read_outcome(&app.runs, &app.runs.open_run_by_id(id).await?).await?;
        super::results::print_json(&flowloom_app::runs::summary::summarize_run(
            id,
            &opened.plan,
            &past.state,
            &past.env,
        ));
    }
    Ok(0)
}

pub(crate) async fn answer_question(global: &Global, arguments: AnswerArgs) -> CommandResult {
    let app = global.open_accepting_config()?;
    let opened = app.runs.open_run(&arguments.run).await?;
    let state = opened.state();
    let mut exit = 0;
    for step in list_answered(&state, &arguments)? {
        exit = loop {
            let text = match (&arguments.answer, step.question) {
                (Some(answer), _) => answer.clone(),
                (None, question) => prompt_answer(question)?,
            };
            let value = match step.question {
                Some(question) if question.schema.is_some() => parse_answer(question, &text),
                _ => parse_json_or_text(&text),
            };
            let command = new_command(None, "answer", CommandAction::Answer { path: step.path.clone(), value });
            match send_and_report(global, &app, &opened, command, arguments.no_resume, &arguments.output).await {
                // A person who is prompted can answer again.
                Err(error) if error.code == Code::AnswerInvalid && arguments.answer.is_none() => {
                    eprintln!("{}", error.message);
                }
                sent => break sent?,
            }
        };
    }
    Ok(exit)
}

/// The questions that the command answers before the run continues: one, or all that are open if a person is prompted and
/// the run stays as it is. When it continues, it asks for the others.
fn list_answered<'a>(state: &'a RunState, arguments: &AnswerArgs) -> Result<Vec<OpenStep<'a>>, CommandError> {
    let is_open_prompt = arguments.path.is_none() && arguments.answer.is_none() && ask::can_prompt();
    let open: Vec<_> = state.open_steps().filter(|step| step.question.is_some()).collect();
    if !is_open_prompt || open.len() < 2 {
        return Ok(vec![select_question(state, arguments.path.as_deref())?]);
    }
    let count = if arguments.no_resume { open.len() } else { 1 };
    Ok(open.into_iter().take(count).collect())
}

pub(crate) async fn resolve_effect(global: &Global, arguments: ResolveArgs) -> CommandResult {
    let app = global.open_accepting_config()?;
    let opened = app.runs.open_run(&arguments.run).await?;
    let state = opened.state();
    let path = select_uncertain(&state, &arguments.path)?.path.clone();
    let how = match &arguments.value {
        Some(value) => Resolution::Value(parse_json_or_text(value)),
        None if arguments.resend => Resolution::Resend,
        None => Resolution::Fail,
    };
    let command = new_command(None, "resolve", CommandAction::Resolve { path, how });
    send_and_report(global, &app, &opened, command, arguments.no_resume, &arguments.output).await
}

/// Prompts for the answer that the command line lacks.
fn prompt_answer(question: Option<&AskRequest>) -> Result<String, CommandError> {
    let prompt = || tokio::task::block_in_place(|| ask::prompt_answer(question?));
    let answer = ask::can_prompt().then(prompt).flatten();
    answer.ok_or_else(|| CommandError::usage("there is no answer; write it after the run: flowloom answer RUN ANSWER"))
}

async fn drive_silently(run: Run, _: &LoadedRun) -> Result<RunOutcome, CommandError> {
    Ok(run.drive_to_end().await)
}

/// Sends a command to a run and reports the outcome of the run if this process drives it.
async fn send_and_report(
    global: &Global,
    app: &App,
    opened: &LoadedRun,
    command: RunCommand,
    only_store: bool,
    output: &OutputArgs,
) -> CommandResult {
    if only_store {
        let (receiver, command) = app.runs.route_command(opened, command).await?;
        let now = SystemClock.now_ms();
        let posted = app.store.post_command_by(receiver.id, command, now, &Actor::command_line()).await?;
        if let Some(CommandOutcome::Rejected(reason)) = posted.record.outcome {
            return Err(reason.into());
        }
        eprintln!("stored; continue with flowloom resume {}", opened.id);
        return Ok(0);
    }
    let display = RunDisplay::new(global, app, output);
    let drive = async |run: Run, loaded: &LoadedRun| display.drive_loaded(run, loaded).await;
    match send_command(app, opened, command, drive).await? {
        Delivery::Driven(driven) => {
            let driven = display.answer_questions(*driven, "answer").await?;
            report_resumed(&display, &driven.plan, &driven.outcome).await
        }
        Delivery::Applied => {
            eprintln!("applied by the worker of the run");
            Ok(0)
        }
        Delivery::Stored => Err(describe_stored(opened.id)),
    }
}
