//! The end of an authoring run, which `new` started and `resume` may have continued: its files, or why there are none.

use flowloom_app::authoring::{AuthoringEvents, AuthoringOptions, BuiltInWorkflow, OutputTarget, parse_as};
use flowloom_app::definitions::source;
use flowloom_app::engines::App;
use flowloom_app::wiring;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::{Format, Plan};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_runtime::RunOutcome;
use flowloom_runtime::effects::Model as _;

use super::pipeline_folder::{self, OutputFolder};
use super::results::{print_explanation, print_json};
use crate::cli::Global;
use crate::failure::{CommandError, CommandResult, print_failure};

/// Exit code of a command whose budget is used up, whichever limit it set.
const BUDGET_EXIT_CODE: u8 = 5;

/// An authoring run that is no longer driven.
pub(super) struct AuthoredRun<'a> {
    pub(super) outcome: &'a RunOutcome,
    pub(super) plan: &'a Plan,
    pub(super) target: &'a OutputTarget,
    /// Whether the pipeline may have been written before.
    pub(super) is_resumed: bool,
}

/// The folder that an authoring run was started for; `None` for other runs.
pub(super) fn find_target(plan: &Plan, outcome: &RunOutcome) -> Option<OutputTarget> {
    let is_planner = plan.id.as_deref() == Some(BuiltInWorkflow::Planner.id());
    let inputs = outcome.state.inputs();
    let how = inputs.get("how").filter(|_| is_planner)?;
    parse_as::<AuthoringOptions>(how, "options of an authoring run").ok()?.output
}

/// Writes the pipeline of an authoring run and reports it, or reports why there is none.
pub(super) fn finish_authoring(global: &Global, app: &App, run: &AuthoredRun<'_>) -> CommandResult {
    let AuthoredRun { outcome, plan, target, is_resumed } = run;
    if outcome.state.status != Status::Succeeded {
        return Ok(print_refusal(global, outcome));
    }
    let made = render_result(plan, &outcome.state, &outcome.env).output;
    let into = source::parse_format(target.into.as_deref())?;
    let folder = match (&target.folder, is_resumed) {
        (_, true) => OutputFolder::find_or_choose(target, &made)?,
        (Some(folder), false) => OutputFolder::prepare(folder)?,
        (None, false) => OutputFolder::choose_free(&target.base, &made),
    };
    let mut written = folder.write(&made)?;
    let lacks = match into {
        Some(format) => folder.write_as(format, &made, &resolve_model(app)?, &mut written)?,
        None => Vec::new(),
    };
    match global.json {
        true => print_json(&build_summary(&made, outcome, &folder, &written)),
        false => pipeline_folder::print_summary(&made, &folder, &written),
    }
    if !lacks.is_empty() {
        let problems = lacks.join("\n  ");
        let format = into.as_ref().map_or("", Format::name);
        return Err(CommandError::usage(format!(
            "the pipeline was written, but {format} cannot express it:\n  {problems}"
        )));
    }
    Ok(0)
}

/// The default model, for formats whose prompts must name one.
fn resolve_model(app: &App) -> Result<String, CommandError> {
    Ok(wiring::build_default_models(&app.config).resolve(None)?)
}

/// Prints why there is no pipeline. The stages have printed their own failures already.
fn print_refusal(global: &Global, outcome: &RunOutcome) -> u8 {
    if let Some(error) = outcome.find_error() {
        print_failure(error.code, "", &error.message);
    }
    let stored = stored_blocks(outcome);
    match stored.is_empty() {
        true => eprintln!("  nothing was written; for the completed stages: flowloom show {}", outcome.id),
        false => eprintln!(
            "  no pipeline was written, but these blocks passed their trials and are stored: {}\n  they are found the \
             next time; list them with flowloom blocks list; for the completed stages: flowloom show {}",
            stored.join(", "),
            outcome.id
        ),
    }
    if let Some(error) = &outcome.state.error {
        print_explanation(error.code);
    }
    if global.json {
        let describe = |error: &StepFailure| {
            Value::map([("code", error.code.to_string().into()), ("message", error.message.as_str().into())])
        };
        let error = outcome.state.error.as_ref().map_or(Value::Null, describe);
        let stored = Value::list(stored.into_iter().map(Value::from).collect());
        print_json(&Value::map([("run_id", outcome.id.to_string().into()), ("error", error), ("kept_blocks", stored)]));
    }
    let is_budget = |code| matches!(code, Code::BudgetTokens | Code::BudgetMoney | Code::LimitSteps | Code::LimitTime);
    match &outcome.state.error {
        Some(error) if is_budget(error.code) => BUDGET_EXIT_CODE,
        _ => outcome.state.status.table_row().exit_code,
    }
}

/// The blocks that an unsuccessful run has stored: those that passed their trials.
fn stored_blocks(outcome: &RunOutcome) -> Vec<String> {
    let mut events = AuthoringEvents::default();
    let events = outcome.records.iter().filter_map(|record| events.convert(record));
    let passed = events.filter(|event| event.name == "block_test_passed");
    // A retried stage reports its blocks again.
    let mut ids: Vec<String> = Vec::new();
    for id in passed.filter_map(|event| Some(event.data.get("block_id")?.as_str()?.to_owned())) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

fn build_summary(made: &Value, outcome: &RunOutcome, folder: &OutputFolder, written: &[String]) -> Value {
    let mut events = AuthoringEvents::default();
    outcome.records.iter().for_each(|record| drop(events.convert(record)));
    let field = |name: &str| made.get(name).cloned().unwrap_or_default();
    Value::map([
        ("run_id", outcome.id.to_string().into()),
        ("folder", folder.display_path().display().to_string().into()),
        ("files", Value::list(written.iter().map(|file| file.as_str().into()).collect())),
        ("pipeline_json", field("pipeline_json")),
        ("tried", field("tried")),
        ("usage", events.usage()),
    ])
}
