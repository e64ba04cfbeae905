//! `flowloom run FILE`: runs a definition.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;

use flowloom_app::blocks::PythonSyntax;
use flowloom_app::config::Config;
use flowloom_app::definitions::bundle::Bundle;
use flowloom_app::definitions::error::DefinitionError;
use flowloom_app::definitions::find::{find_definition, name_workflow};
use flowloom_app::definitions::source::{self, LoadedDefinition, Loader};
use flowloom_app::engines::App;
use flowloom_app::model_choice::split_model_choice;
use flowloom_app::runs::start::{PreparedDefinition, StartRun};
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_app::runs::{summary, watch};
use flowloom_app::tools::agents;
use flowloom_app::wiring;
use flowloom_core::limits::Limits;
use flowloom_core::plan::Plan;
use flowloom_core::value::Value;
use flowloom_runtime::RunOutcome;

use super::dev::{WatchedFile, watch_file};
use super::display::{OnInterrupt, RunDisplay, drive_watched};
use super::plan_models::{check_needs, propose_better_model, report_unchanged_models, uses_small_model};
use super::results::print_json;
use super::send::DrivenRun;
use crate::cli::{Global, RunArgs};
use crate::commands::result_files;
use crate::failure::{CommandError, CommandResult};
use crate::inputs;
use crate::terminal::{ask, diagnostics};

pub(crate) async fn run_definition(global: &Global, arguments: &RunArgs) -> CommandResult {
    run_and_list_files(global, arguments, &mut Vec::new()).await
}

/// Runs a definition. Adds the files on which it depends to `files`, as soon as they are known.
pub(super) async fn run_and_list_files(
    global: &Global,
    arguments: &RunArgs,
    files: &mut Vec<WatchedFile>,
) -> CommandResult {
    let mut config = global.load_config()?;
    choose_models(&mut config, &arguments.model);
    let file = match find_definition(&config, &arguments.file) {
        Err(DefinitionError::NotInProject { name, meant }) => {
            return run_stored(global, config, arguments, DefinitionError::NotInProject { name, meant }).await;
        }
        found => found?,
    };
    let format = source::parse_format(arguments.format.as_deref())?;
    let loader = Loader { format, lenient: arguments.lenient, ..Loader::new(&config) };
    let servers = wiring::build_mcp_servers(&config)?;
    let mut source = loader.compile_to_run(&file, &servers).await?;
    source.add_python_errors(&PythonSyntax::with_system_python(&config)).await;
    let paths = source.files().keys().map(PathBuf::from).chain([file.clone()]).chain(config.file.clone());
    files.extend(paths.map(watch_file));
    diagnostics::print_diagnostics(&source);
    let plan = source.compiled.plan.clone().filter(|_| !source.is_refused());
    let Some(plan) = plan else { return Ok(report_refused(global, &source)) };
    // Prompt before anything is opened that a waiting person could hold up.
    let wanted = read_request(global, &config, arguments, &plan)?;
    if let Some(folder) = &arguments.out {
        result_files::create_folder(folder)?;
    }
    let app = Arc::new(App::open_with(config, servers)?);
    let source =
        agents::attach_workflows(&app.catalog_parts(), &file, arguments.lenient, source, &arguments.user).await?;
    let Some(plan) = source.compiled.plan.clone() else {
        diagnostics::print_diagnostics(&source);
        return Ok(report_refused(global, &source));
    };
    let bundle = app.engines.build_bundle(source.name(), source.files(), plan.format);
    let bundle = Bundle { lenient: arguments.lenient, ..bundle }.with_tools(source.available_tools());
    report_unchanged_models(&app.config, &plan, &arguments.model);
    check_needs(&app, &bundle, &plan)?;
    let id = name_workflow(&app.config, &file, Some(&plan));
    let workflow = app.engines.prepare_definition(Arc::new(plan), &bundle)?;
    start_and_print(global, &app, arguments, &workflow, RunRequest { id, ..wanted }).await
}

/// The input of a run at its start.
struct RunRequest {
    /// The id under which the project has the workflow; `None` if it is not in the project.
    id: Option<String>,
    inputs: Value,
    limits: Limits,
}

/// Reads the inputs and the budget of a run, and prompts for inputs that are missing.
fn read_request(
    global: &Global,
    config: &Config,
    arguments: &RunArgs,
    plan: &Plan,
) -> Result<RunRequest, CommandError> {
    let mut limits = config.limits.narrow_to(&plan.limits);
    if let Some(budget) = &arguments.budget {
        inputs::parse_budget(budget, &mut limits)?;
    }
    let mut inputs = inputs::read_inputs(config, plan, &arguments.input_values, arguments.input.as_deref())?;
    if !global.json && ask::can_prompt() {
        inputs = tokio::task::block_in_place(|| ask::prompt_missing_inputs(config, plan, inputs))?;
    }
    inputs::check_subject(plan, &inputs)?;
    inputs::check_required(plan, &inputs)?;
    Ok(RunRequest { id: None, inputs, limits })
}

/// Runs a workflow that is stored in the data of the project. Fails with `missing` if there is none with this id.
async fn run_stored(global: &Global, config: Config, arguments: &RunArgs, missing: DefinitionError) -> CommandResult {
    if !config.has_data() {
        return Err(missing.into());
    }
    let root = config.project.root.clone();
    let app = Arc::new(App::open(config)?);
    let catalog = app.build_catalog(root);
    let id = arguments.file.display().to_string();
    let Some(entry) = catalog.find_definition(&arguments.user, &id)? else { return Err(missing.into()) };
    let Some(workflow) = entry.prepare_for_run(&catalog, &arguments.user).await? else {
        return Err(CommandError::usage(format!("the stored workflow {id} has errors")));
    };
    let wanted = read_request(global, &app.config, arguments, &workflow.plan)?;
    if let Some(folder) = &arguments.out {
        result_files::create_folder(folder)?;
    }
    report_unchanged_models(&app.config, &workflow.plan, &arguments.model);
    check_needs(&app, &workflow.parse_bundle()?, &workflow.plan)?;
    start_and_print(global, &app, arguments, &workflow, RunRequest { id: Some(id), ..wanted }).await
}

/// Starts a run, drives it, and prints its result.
async fn start_and_print(
    global: &Global,
    app: &App,
    arguments: &RunArgs,
    workflow: &PreparedDefinition,
    wanted: RunRequest,
) -> CommandResult {
    let RunRequest { id, inputs, limits } = wanted;
    let is_first = !global.json && std::io::stderr().is_terminal() && app.store.list_runs(1)?.is_empty();
    let start = StartRun::new(workflow, inputs.clone(), &arguments.user, limits);
    let trigger = Some(TriggerKind::Terminal.to_trigger());
    let start = StartRun { workflow_id: id, agent: arguments.agent.clone(), trigger, ..start }.start(&app.store)?;
    let display = RunDisplay::new(global, app, &arguments.output);
    let outcome = display.drive_run(&workflow.plan, &inputs, start.run).await?;
    let driven = DrivenRun { plan: workflow.plan.clone(), outcome };
    let DrivenRun { outcome, .. } = display.answer_questions(driven, &arguments.user).await?;
    let exit = display.print_outcome(&workflow.plan, &outcome);
    if let Some(folder) = &arguments.out {
        result_files::write_result(folder, &workflow.plan, &outcome)?;
    }
    if is_first && exit == 0 && uses_small_model(app, &workflow.plan) {
        propose_better_model(app).await;
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
    let trigger = Some(TriggerKind::Terminal.to_trigger());
    let start =
        StartRun { workflow_id: workflow.plan.id.clone(), trigger, ..StartRun::new(workflow, inputs, user, limits) };
    drive_watched(app, start.start(&app.store)?.run, watcher, OnInterrupt::Leave).await
}

/// Applies `--model`: `p:m` sets the default model, `name=p:m` adds an alias.
pub(super) fn choose_models(config: &mut Config, models: &[String]) {
    for model in models {
        match split_model_choice(model) {
            (Some(named), target) => config.aliases.push((named.to_owned(), target.to_owned())),
            (None, target) => {
                config.default_model.value = Some(target.to_owned());
                config.default_model.origin = "--model".to_owned();
            }
        }
    }
}

/// The fields that the summary of a definition with errors has in addition to the first error.
#[derive(serde::Serialize)]
struct RejectionFields {
    /// All problems of the definition.
    problems: Vec<serde_json::Value>,
}

/// Reports a definition with errors. Returns the exit code.
pub(super) fn report_refused(global: &Global, source: &LoadedDefinition) -> u8 {
    let errors: Vec<_> = source.compiled.diagnostics.iter().filter(|problem| problem.is_error()).collect();
    if let (true, Some(first)) = (global.json, errors.first()) {
        let format = source.compiled.format.as_ref().map(flowloom_core::plan::Format::name);
        let problems = RejectionFields { problems: source.problems() };
        print_json(&summary::summarize_rejection(format, first.code, &first.message).with_fields(problems));
    }
    let noun = if errors.len() == 1 { "error" } else { "errors" };
    eprintln!("{} not run: {} {noun}", source.name(), errors.len());
    2
}
