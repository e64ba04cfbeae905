//! `flowloom run FILE`: runs a definition.

use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::definitions::bundle::Bundle;
use flowloom_app::definitions::find::find_named;
use flowloom_app::definitions::source::{self, LoadedDefinition, Loader};
use flowloom_app::engines::App;
use flowloom_app::error::AppError;
use flowloom_app::runs::start::{PreparedDefinition, StartRun};
use flowloom_app::runs::{summary, watch};
use flowloom_app::tools::agents;
use flowloom_app::wiring;
use flowloom_core::limits::Limits;
use flowloom_core::plan::Plan;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_runtime::{Run, RunOutcome};

use super::plan_models::{check_models, report_fixed_models};
use super::print_json;
use crate::cli::{Global, OutputArgs, RunArgs};
use crate::commands::out;
use crate::failure::{CommandError, CommandResult, print_error};
use crate::hint;
use crate::inputs;
use crate::stop;
use crate::terminal::{ask, diagnostics, screen};

pub(crate) async fn run_definition(global: &Global, arguments: &RunArgs) -> CommandResult {
    let mut config = global.load_config()?;
    let file = find_named(&config.project.root, &arguments.file)?;
    choose_models(&mut config, &arguments.model);
    let format = source::parse_format(arguments.format.as_deref())?;
    let loader = Loader { format, lenient: arguments.lenient, ..Loader::new(&config) };
    let servers = wiring::build_mcp_servers(&config)?;
    let source = loader.compile_to_run(&file, &servers).await?;
    diagnostics::print_diagnostics(&source);
    let Some(plan) = source.compiled.plan.clone() else { return Ok(report_refused(global, &source)) };
    let mut limits = config.limits.narrow_to(&plan.limits);
    if let Some(budget) = &arguments.budget {
        inputs::parse_budget(budget, &mut limits)?;
    }
    let mut given = inputs::read_inputs(&plan, &arguments.input_values, arguments.input.as_deref())?;
    if !global.json && ask::can_prompt() {
        // Prompt before anything is opened that a waiting person could hold up.
        given = tokio::task::block_in_place(|| ask::prompt_missing_inputs(&plan, given))?;
    }
    if let Some(folder) = &arguments.out {
        out::create_folder(folder)?;
    }
    let app = Arc::new(App::open_with(config, servers)?);
    let source = agents::attach_workflows(&app, &file, arguments.lenient, source, &arguments.user).await?;
    let Some(plan) = source.compiled.plan.clone() else {
        diagnostics::print_diagnostics(&source);
        return Ok(report_refused(global, &source));
    };
    let bundle = app.build_bundle(source.name(), source.files(), plan.format)?;
    let bundle = Bundle { lenient: arguments.lenient, ..bundle }.with_tools(source.available_tools());
    report_fixed_models(&plan, &arguments.model);
    check_models(&app, &bundle, &plan)?;
    let workflow = app.prepare(Arc::new(plan), &bundle)?;
    let start = StartRun { agent: arguments.agent.clone(), ..StartRun::new(&workflow, given, &arguments.user, limits) }
        .start(&app.store)?;
    let outcome = drive_with_screen(global, &app, &arguments.output, start.run).await?;
    let exit = print_outcome(global, &arguments.output, &workflow.plan, &outcome);
    if let Some(folder) = &arguments.out {
        out::write_result(folder, &workflow.plan, &outcome)?;
    }
    Ok(exit)
}

/// Runs a workflow for a user within `limits` and reports its events to `watcher`.
pub(super) async fn run_workflow(
    app: &App,
    workflow: &PreparedDefinition,
    inputs: Value,
    user: &str,
    limits: Limits,
    watcher: Box<dyn watch::Watcher>,
) -> Result<RunOutcome, CommandError> {
    let limits = limits.narrow_to(&workflow.plan.limits);
    let start = StartRun { workflow_id: workflow.plan.id.clone(), ..StartRun::new(workflow, inputs, user, limits) };
    drive_watched(app, start.start(&app.store)?.run, watcher).await
}

/// Applies `--model`: `p:m` sets the default model, `name=p:m` adds an alias.
pub(super) fn choose_models(config: &mut Config, models: &[String]) {
    for model in models {
        match model.split_once('=') {
            Some((named, target)) => config.aliases.push((named.to_owned(), target.to_owned())),
            None => {
                config.default_model.value = Some(model.clone());
                config.default_model.origin = "--model".to_owned();
            }
        }
    }
}

/// Reports a definition with errors. Returns the exit code.
pub(super) fn report_refused(global: &Global, source: &LoadedDefinition) -> u8 {
    let errors: Vec<_> = source.compiled.diagnostics.iter().filter(|problem| problem.is_error()).collect();
    if let (true, Some(first)) = (global.json, errors.first()) {
        let format = source.compiled.format.as_ref().map(flowloom_core::plan::Format::name);
        print_json(&summary::summarize_rejection(format, first.code, &first.message));
    }
    let noun = if errors.len() == 1 { "problem" } else { "problems" };
    eprintln!("{} was not run: {} {noun}", source.name(), errors.len());
    2
}

/// Drives a run and shows its progress.
pub(super) async fn drive_with_screen(
    global: &Global,
    app: &App,
    output: &OutputArgs,
    run: Run,
) -> Result<RunOutcome, CommandError> {
    drive_watched(app, run, Box::new(screen::ProgressScreen::new(output, global.json))).await
}

/// Drives a run until it ends or waits, and reports its events to `watcher`. Ctrl-C leaves the run interrupted.
pub(super) async fn drive_watched(
    app: &App,
    run: Run,
    watcher: Box<dyn watch::Watcher>,
) -> Result<RunOutcome, CommandError> {
    let id = run.id();
    let stop = stop::defer_stop();
    let forwarding = tokio::spawn(watch::forward_events(run.subscribe(), app.store.clone(), id, watcher));
    let mut driving = run.spawn();
    let driven = tokio::select! {
        joined = &mut driving => joined.map_err(|error| AppError::from(error).into()),
        () = stop.wait_for_request() => {
            // Without this, child runs would record their cancellation. A failure only delays others: the lease expires.
            let _ = app.store.announce_shutdown().await;
            driving.abort();
            // The run may have ended meanwhile.
            driving.await.map_err(|_| CommandError::interrupted(id))
        }
    };
    // Waits for the last lines; an error would only mean that they could not be displayed.
    let _ = forwarding.await;
    driven
}

/// Prints the result of a run. Returns the exit code.
pub(super) fn print_outcome(global: &Global, output: &OutputArgs, plan: &Plan, outcome: &RunOutcome) -> u8 {
    let (id, state) = (outcome.id, &outcome.state);
    if let Some(error) = &outcome.broken {
        if global.json {
            let mut broken = state.clone();
            broken.error = Some(error.clone().into());
            print_json(&summary::summarize_run(id, plan, &broken, &outcome.env));
        }
        print_error(error.code(), "", &error.to_string());
        eprintln!("  finished steps are stored; continue with {}", hint::command_line(&format!("resume {id}")));
        return 1;
    }
    let presented = render_result(plan, state, &outcome.env);
    if global.json {
        print_json(&summary::summarize_run(id, plan, state, &outcome.env));
    } else if !output.events && state.status == Status::Succeeded {
        println!("{}", summary::render_output(&presented.output));
    }
    if let Some(error) = &state.error {
        let place = state.failed.as_ref().map(|path| format!(" at {path}")).unwrap_or_default();
        print_error(error.code, &place, &error.message);
    }
    match state.status {
        Status::Waiting => print_waiting(outcome),
        Status::Uncertain => print_uncertain(outcome),
        _ => {}
    }
    state.status.table_row().exit_code
}

pub(super) fn print_waiting(outcome: &RunOutcome) {
    for step in outcome.state.open_steps() {
        if let Some(question) = step.question {
            eprintln!("{} asks: {}", step.path, question.question);
        }
    }
    eprintln!("waiting for an answer: {}", hint::command_line(&format!("answer {} '…'", outcome.id)));
}

pub(super) fn print_uncertain(outcome: &RunOutcome) {
    for step in outcome.state.open_steps() {
        if step.question.is_none() {
            let target = step.target.map(|target| &**target).unwrap_or_default();
            eprintln!("{}: {target} may or may not have happened; it is not sent again automatically", step.path);
            let command = format!("resolve {} {} --resend | --fail | --value JSON", outcome.id, step.path);
            eprintln!("  {}", hint::command_line(&command));
        }
    }
}
