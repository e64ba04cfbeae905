//! The demo's last part: creates a pipeline from a plain-language goal and runs it from its files.

use std::sync::Arc;
use std::time::Instant;

use flowloom_app::authoring::{AuthoringJob, AuthoringOptions, BuiltInWorkflow, to_value};
use flowloom_app::definitions::source::Loader;
use flowloom_app::engines::App;
use flowloom_app::runs::summary;
use flowloom_app::runs::watch::Watcher;
use flowloom_author::evaluation::{load_tasks, recorded_conversation};
use flowloom_core::value::Map;
use flowloom_formats::render_result;
use flowloom_store::SHARED_USER;

use super::ExampleResult;
use crate::cli::{Global, OutputArgs};
use crate::commands::new::{SilentWatcher, authoring_limits, run_built_in, with_scripted_model};
use crate::commands::pipeline_folder::{self, OutputFolder};
use crate::commands::run::run_workflow;
use crate::failure::CommandError;
use crate::terminal::screen::ProgressScreen;
use crate::terminal::stages::StageDisplay;
use crate::terminal::{diagnostics, report};

/// The goal, one of the evaluation tasks.
const DEMO_TASK: &str = "clean-table";

/// Creates a pipeline with the answers of a recorded conversation and runs it.
pub(super) async fn run_authoring(global: &Global, app: &App) -> Result<ExampleResult, CommandError> {
    let lost = |what: &str| CommandError::usage(format!("the bundled demo has no {what}"));
    let case = load_tasks().ok().and_then(|cases| cases.into_iter().find(|case| case.id == DEMO_TASK));
    let case = case.ok_or_else(|| lost("goal"))?;
    eprintln!("\n── flowloom new \"{}\"", case.title);
    eprintln!(
        "These answers come from a recorded conversation: {} is too small for this.",
        super::SMALL_MODEL_DESCRIPTION
    );
    let script = app.store.folder().join("demo.author.json");
    let text = recorded_conversation(DEMO_TASK).ok_or_else(|| lost("conversation"))?;
    std::fs::write(&script, text).map_err(|error| CommandError::usage(format!("{}: {error}", script.display())))?;
    let app = &with_scripted_model(app, format!("scripted:{}", script.display()));
    let began = Instant::now();
    let job = to_value(&AuthoringJob::new(&case.intent, SHARED_USER, AuthoringOptions::from_config(&app.config)))?;
    let watcher: Box<dyn Watcher> = if global.json { Box::new(SilentWatcher) } else { Box::new(StageDisplay::new()) };
    let (outcome, plan) =
        run_built_in(app, BuiltInWorkflow::Planner, job, SHARED_USER, authoring_limits(&app.config)?, watcher).await?;
    if let Some(error) = outcome.find_error() {
        return Err(error.into());
    }
    let made = render_result(&plan, &outcome.state, &outcome.env).output;
    let folder = app.store.folder().join("authored");
    // Removes the output of an earlier demo.
    let _ = std::fs::remove_dir_all(&folder);
    let folder = OutputFolder::prepare(&folder)?;
    let files = folder.write(&made)?;
    if !global.json {
        pipeline_folder::print_summary(&made, &folder, &files);
    }
    let (status, steps) = run_pipeline(global, app, &folder).await?;
    let took = report::format_duration(began.elapsed().as_millis() as u64);
    Ok(ExampleResult { file: "(authored) pipeline.json", status, steps, took })
}

/// Runs the new pipeline. Returns its status and the number of steps.
async fn run_pipeline(
    global: &Global,
    app: &App,
    folder: &OutputFolder,
) -> Result<(&'static str, usize), CommandError> {
    let source = Loader::new(&app.config).compile(folder.path());
    diagnostics::print_diagnostics(&source);
    let refused = || CommandError::usage(format!("{} cannot be run", folder.path().display()));
    let plan = Arc::new(source.compiled.plan.clone().ok_or_else(refused)?);
    let bundle = app.engines.build_bundle(source.name(), source.files(), plan.format);
    let watcher = Box::new(ProgressScreen::new(&OutputArgs::default(), global.json));
    let limits = app.config.limits.clone();
    let workflow = app.engines.prepare_definition(plan, &bundle)?;
    let outcome = run_workflow(app, &workflow, Map::new().into(), SHARED_USER, limits, watcher).await?;
    if !global.json {
        println!("{}", summary::render_output(&render_result(&workflow.plan, &outcome.state, &outcome.env).output));
    }
    let steps = outcome.state.steps().iter().filter(|step| step.kind.is_some()).count();
    Ok((outcome.state.status.name(), steps))
}
