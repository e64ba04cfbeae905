//! `flowloom resume`, `cancel`, `answer` and `resolve`: signals to a run.

use std::time::Duration;

use flowloom_app::engines::{App, Opened};
use flowloom_app::runs::finished::recorded;
use flowloom_app::runs::inputs::{json_or_text, said};
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::event::Resolution;
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::state::{Phase, StepState};
use flowloom_runtime::journal::Wish;

use super::run::{conclude, finish};
use crate::cli::{AnswerArgs, Global, OutputArgs, ResolveArgs};
use crate::failure::{Failure, Outcome};

/// How often to poll a cancelled run before giving up on its worker.
const LOOKS: u32 = 300;
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) async fn resume(global: &Global, name: &str, output: &OutputArgs) -> Outcome {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(name).await?;
    go_on(global, &app, opened, output).await
}

/// Drives a run from the end of its journal. A finished run is reported again, with the same exit code.
async fn go_on(global: &Global, app: &App, opened: Opened, output: &OutputArgs) -> Outcome {
    if opened.state().status.is_final() {
        let past = recorded(app, &opened).await?;
        eprintln!("the run has already ended: {}", past.state.status.name());
        return Ok(conclude(global, output, &opened.plan, &past));
    }
    let engine = app.engine_of(&opened)?;
    let plan = opened.plan.clone();
    let run = engine.resume(opened.id, async |_| Ok(plan)).await?;
    Ok(finish(global, output, &engine, run, &opened.plan).await)
}

pub(crate) async fn cancel(global: &Global, name: &str) -> Outcome {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(name).await?;
    let id = opened.id;
    if opened.state().status.is_final() {
        let message = format!("the run {id} has already ended");
        return Err(StepError::new(Code::NothingToDo, message).into());
    }
    let wish = Wish::Cancel { by: "cancel".to_owned() };
    let engine = app.engine_of(&opened)?;
    match engine.post(id, wish.clone()).await {
        Ok(()) => {
            let plan = opened.plan.clone();
            engine.resume(id, async |_| Ok(plan)).await?.drive().await;
        }
        Err(error) if error.code == Code::RunOwned => {
            app.store.leave_wish(id, wish).await?;
            wait_for_end(&app, id).await?;
        }
        Err(error) => return Err(error.into()),
    }
    if !global.json {
        println!("cancelled {id}");
    } else {
        let past = recorded(&app, &app.open_id(id).await?).await?;
        super::print(&flowloom_app::runs::summary::summary(id, &opened.plan, &past.state, &past.env));
    }
    Ok(0)
}

async fn wait_for_end(app: &App, id: RunId) -> Result<(), Failure> {
    for _ in 0..LOOKS {
        if app.store.run(id)?.is_some_and(|run| run.finished_at.is_some()) {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    let message = "the worker of the run has not cancelled it yet; the signal remains recorded";
    Err(StepError::new(Code::RunOwned, message).into())
}

pub(crate) async fn answer(global: &Global, arguments: AnswerArgs) -> Outcome {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(&arguments.run).await?;
    let state = opened.state();
    let open: Vec<&StepState> = state.steps().iter().filter(|step| step.question.is_some()).collect();
    let path = chosen(&open, arguments.path.as_deref(), "question")?;
    let question = open.iter().find(|step| step.path == path).and_then(|step| step.question.as_ref());
    let value = match question {
        Some(question) if question.schema.is_some() => said(question, &arguments.answer),
        _ => json_or_text(&arguments.answer),
    };
    let wish = Wish::Answer { path, value, by: "answer".to_owned() };
    tell(global, &app, opened, wish, arguments.no_resume, &arguments.output).await
}

pub(crate) async fn resolve(global: &Global, arguments: ResolveArgs) -> Outcome {
    let app = App::open(global.load_config()?)?;
    let opened = app.open_run(&arguments.run).await?;
    let state = opened.state();
    let open: Vec<&StepState> = state.steps().iter().filter(|step| step.phase == Phase::Uncertain).collect();
    let path = chosen(&open, Some(&arguments.path), "uncertain effect")?;
    let how = match &arguments.value {
        Some(value) => Resolution::Value(json_or_text(value)),
        None if arguments.resend => Resolution::Resend,
        None => Resolution::Fail,
    };
    let wish = Wish::Resolve { path, how, by: "resolve".to_owned() };
    tell(global, &app, opened, wish, arguments.no_resume, &arguments.output).await
}

/// The named step, or the only candidate.
fn chosen(open: &[&StepState], path: Option<&str>, what: &str) -> Result<Path, Failure> {
    let paths: Vec<&str> = open.iter().map(|step| step.path.as_str()).collect();
    let nothing = |message: String| Failure::from(StepError::new(Code::NothingToDo, message));
    match (path, open) {
        (_, []) => Err(nothing(format!("the run has no open {what}; continue it with flowloom resume"))),
        (None, [only]) => Ok(only.path.clone()),
        (Some(path), _) => match open.iter().find(|step| step.path.as_str() == path) {
            Some(step) => Ok(step.path.clone()),
            None => Err(nothing(format!("no open {what} at {path}; expected one of {}", paths.join(", ")))),
        },
        (None, _) => Err(Failure::usage(format!("there are several; choose one with --path: {}", paths.join(", ")))),
    }
}

/// Sends a signal to a run: through its worker if it has one, else by recording it and resuming the run.
async fn tell(
    global: &Global,
    app: &App,
    opened: Opened,
    wish: Wish,
    only_record: bool,
    output: &OutputArgs,
) -> Outcome {
    let engine = app.engine_of(&opened)?;
    match engine.post(opened.id, wish.clone()).await {
        Ok(()) if only_record => {
            eprintln!("recorded; continue with flowloom resume {}", opened.id);
            Ok(0)
        }
        Ok(()) => {
            let opened = app.open_id(opened.id).await?;
            go_on(global, app, opened, output).await
        }
        Err(error) if error.code == Code::RunOwned => {
            app.store.leave_wish(opened.id, wish).await?;
            eprintln!("sent to the worker of the run");
            Ok(0)
        }
        Err(error) => Err(error.into()),
    }
}
