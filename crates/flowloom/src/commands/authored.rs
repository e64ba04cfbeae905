//! The end of an authoring run, which `new` started and `resume` may have continued: its files, or why there are none.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use flowloom_app::authoring::{
    AuthoringEvents, AuthoringOptions, BuiltInWorkflow, OutputTarget, parse_as, store_new_block,
};
use flowloom_app::definitions::source;
use flowloom_app::engines::App;
use flowloom_app::wiring;
use flowloom_core::error::StepFailure;
use flowloom_core::event::{Event, Record};
use flowloom_core::plan::{Format, Plan};
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::render_result;
use flowloom_runtime::RunOutcome;
use flowloom_runtime::effects::Model as _;
use flowloom_store::Actor;

use super::budget_limits::is_budget;
use super::pipeline_folder::{self, OutputFolder};
use super::results::{print_explanation, print_json};
use crate::cli::Global;
use crate::failure::{CommandError, CommandResult, print_failure};

/// Exit code of a command whose budget is used up, whichever limit it set.
pub(super) const BUDGET_EXIT_CODE: u8 = 5;

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
pub(super) async fn finish_authoring(global: &Global, app: &App, run: &AuthoredRun<'_>) -> CommandResult {
    let AuthoredRun { outcome, plan, target, is_resumed } = run;
    if outcome.state.status != Status::Succeeded {
        let stored = store_passed_blocks(app, outcome).await?;
        return Ok(print_refusal(global, outcome, stored));
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
fn print_refusal(global: &Global, outcome: &RunOutcome, stored: Vec<String>) -> u8 {
    if let Some(error) = outcome.find_error() {
        print_failure(error.code, "", &error.message);
    }
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
    match &outcome.state.error {
        Some(error) if is_budget(error.code) => BUDGET_EXIT_CODE,
        _ => outcome.state.status.table_row().exit_code,
    }
}

/// Stores the blocks of an unsuccessful run that passed their trials, so that the next attempt finds them, and returns their
/// ids. Fails if they cannot be stored.
async fn store_passed_blocks(app: &App, outcome: &RunOutcome) -> Result<Vec<String>, CommandError> {
    let user = outcome.state.created.as_deref().map(|created| created.user.clone()).unwrap_or_default();
    let passed = find_passed_blocks(&outcome.records);
    for block in passed.values() {
        store_new_block(&app.store, &app.blocks, &user, block, &Actor::run(outcome.id, &user)).await?;
    }
    Ok(passed.into_keys().collect())
}

/// The blocks that passed their trials, by id. A retried stage reports its blocks again.
fn find_passed_blocks(records: &[Arc<Record>]) -> BTreeMap<String, Value> {
    let (mut written, mut passed) = (HashMap::new(), BTreeMap::new());
    for record in records {
        let Event::Progress { name, data } = &record.event else { continue };
        let id = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
        match &**name {
            "block_created" => {
                written.extend(id("block_id").and_then(|id| Some((id, data.get("block")?.clone()))));
            }
            "block_test_passed" => {
                passed.extend(id("block_id").and_then(|id| written.remove(&id).map(|block| (id, block))));
            }
            _ => {}
        }
    }
    passed
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
