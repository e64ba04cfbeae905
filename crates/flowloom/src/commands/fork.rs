//! `flowloom fork`: a new run that begins with the record of another one.

use std::path::Path;
use std::sync::Arc;

use flowloom_app::definitions::bundle::Bundle;
use flowloom_app::definitions::edit::StepEdit;
use flowloom_app::definitions::find::find_named;
use flowloom_app::definitions::source::Loader;
use flowloom_app::engines::App;
use flowloom_app::listing::count_noun;
use flowloom_app::runs::fork::{ForkChanges, prepare_fork};
use flowloom_app::runs::retry::parse_step_path;
use flowloom_app::runs::start::StartRun;
use flowloom_app::runs::stored::LoadedRun;
use flowloom_app::runs::trigger::TriggerKind;
use flowloom_app::tools::agents;
use flowloom_core::path::Path as StepPath;
use flowloom_core::state::RunState;
use flowloom_core::value::Value;

use super::author_session::ClarifiedRun;
use super::display::RunDisplay;
use super::plan_models::check_given_models;
use super::resume::report_resumed;
use super::run::report_refused;
use super::send::DrivenRun;
use crate::cli::{ForkArgs, Global};
use crate::failure::{CommandError, CommandResult};
use crate::inputs::{parse_pair, read_text_file};
use crate::terminal::diagnostics;

pub(crate) async fn fork_run(global: &Global, arguments: ForkArgs) -> CommandResult {
    let app = Arc::new(global.open_existing()?);
    let from = app.runs.open_run(&arguments.run).await?;
    let (parent, user) = (from.id, from.state().created.map(|created| created.user.clone()).unwrap_or_default());
    let definition = match &arguments.definition {
        Some(file) => match load_definition(global, &app, file, &user).await? {
            Ok(bundle) => Some(bundle),
            Err(exit) => return Ok(exit),
        },
        None => None,
    };
    check_given_models(&app, &arguments.model)?;
    let edits: Vec<StepEdit> = arguments.edit.iter().map(|text| parse_edit(text)).collect::<Result<_, _>>()?;
    let shared = if definition.is_none() { list_shared_edits(&from, &edits) } else { Vec::new() };
    let changes = ForkChanges {
        at: arguments.at,
        set: arguments.set.iter().map(|text| parse_setting(text)).collect::<Result<_, _>>()?,
        edits,
        definition,
        models: arguments.model,
        budget: arguments.budget,
        exceeds_limits: true,
        tenant: None,
        repeats_effects: arguments.yes,
    };
    let prepared = prepare_fork(&app.runs, from, changes)?;
    shared.iter().for_each(|note| eprintln!("{note}"));
    let inputs = prepared.inputs().clone();
    let trigger = Some(TriggerKind::Terminal.to_trigger());
    let started = prepared.start(&app.runs, |start| StartRun { trigger, ..start }).await?;
    let plan = started.plan;
    let display = RunDisplay::new(global, &app, &arguments.output);
    let outcome = display.drive_run(&plan, &inputs, started.run).await?;
    let driven = display.answer_questions(DrivenRun { plan: plan.clone(), outcome }, &user).await?;
    if !global.json {
        eprintln!("forked from {parent}: {}", describe_reuse(&driven.outcome.state));
    }
    if let Some(clarified) = ClarifiedRun::find(&plan, &driven.outcome) {
        return clarified.continue_authoring(global).await;
    }
    report_resumed(&display, &plan, &driven.outcome).await
}

/// Compiles the definition that a fork follows. Returns the exit code if it has errors.
async fn load_definition(
    global: &Global,
    app: &Arc<App>,
    file: &Path,
    user: &str,
) -> Result<Result<Bundle, u8>, CommandError> {
    let file = find_named(&app.config, file)?;
    let source = Loader::new(&app.config).compile_to_run(&file, &app.servers).await?;
    let mut source = agents::attach_workflows(&app.catalog_parts(), &file, false, source, user).await?;
    source.add_python_errors(app.blocks.python_syntax()).await;
    diagnostics::print_diagnostics(&source);
    match source.compiled.plan.as_ref().filter(|_| !source.is_refused()) {
        None => Ok(Err(report_refused(global, &source))),
        Some(plan) => {
            let bundle = app.engines.build_bundle(source.name(), source.files(), plan.format);
            Ok(Ok(bundle.with_tools(source.available_tools())))
        }
    }
}

/// A note for each edit that also changes other steps, because they share the agent or the block.
fn list_shared_edits(from: &LoadedRun, edits: &[StepEdit]) -> Vec<String> {
    let describe = |edit: &StepEdit| {
        let shared = from.bundle().list_shared_steps(&from.plan, edit);
        let note = || format!("the edit of {} also changes the {} of {}", edit.path, edit.field, shared.join(", "));
        (!shared.is_empty()).then(note)
    };
    edits.iter().filter_map(describe).collect()
}

fn parse_setting(text: &str) -> Result<(String, Value), CommandError> {
    let (name, value) = parse_pair("--set", text)?;
    Ok((name.to_owned(), value))
}

/// Parses `PATH.FIELD=TEXT` or `PATH.FIELD=@FILE`.
fn parse_edit(text: &str) -> Result<StepEdit, CommandError> {
    let split = || {
        let (place, value) = text.split_once('=')?;
        let step = place.rfind('/').map_or(0, |slash| slash + 1);
        let dot = step + place[step..].find('.')?;
        Some((parse_step_path(&place[..dot])?, place[dot + 1..].to_owned(), value))
    };
    let (path, field, value): (StepPath, String, &str) = split().ok_or_else(|| {
        CommandError::usage(format!(
            "{text:?} is not a change of a step; write PATH.FIELD=TEXT, for example /summary.prompt=@prompt.txt"
        ))
    })?;
    let text = match value.strip_prefix('@') {
        Some(file) => {
            let read = read_text_file(Path::new(file), "file", "after an @, the path of a text file is expected")?;
            read.trim_end_matches('\n').to_owned()
        }
        None => value.to_owned(),
    };
    Ok(StepEdit { path, field, text })
}

fn describe_reuse(state: &RunState) -> String {
    let performed = state.steps().iter().filter(|step| step.attempts > 0 && !step.is_reused).count();
    let reused = state.steps().iter().filter(|step| step.is_reused).count();
    format!("{} from its record, {performed} performed", count_noun(reused, "step"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_names_path_and_field() {
        let edit = parse_edit("/a[2]/summary.config.instruction=x = y").expect("an edit");
        assert_eq!((edit.path.as_str(), &*edit.field, &*edit.text), ("/a[2]/summary", "config.instruction", "x = y"));
        assert!(parse_edit("/summary=x").is_err());
        assert!(parse_edit("/summary.prompt").is_err());
    }
}
