//! The models and the functions that a plan names. Those that cannot be used are reported before the first step.

use flowloom_app::config::Config;
use flowloom_app::definitions::bundle::Bundle;
use flowloom_app::engines::App;
use flowloom_app::function_settings::check_functions;
use flowloom_app::model_choice::split_model_choice;
use flowloom_app::models::ModelList;
use flowloom_app::used_models::{UsedModel, list_reached_models, list_used_models};
use flowloom_app::wiring::build_default_models;
use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::Plan;
use flowloom_runtime::effects::Model as _;

use crate::cli::SMALL_MODEL;
use crate::failure::CommandError;

/// Fails if a step would fail for want of a model or of a setting: no key, no file, no such provider, no search engine.
pub(super) fn check_needs(app: &App, bundle: &Bundle, plan: &Plan) -> Result<(), CommandError> {
    let found = check_models(app, bundle, plan).and_then(|()| check_functions(&app.config, plan));
    // The same exit code as that of a run which fails for this reason.
    found.map_err(|failure| CommandError { exit: 1, ..CommandError::from(failure) })
}

/// Fails if a model that the plan names, or its default, cannot be used. The error names all of them.
fn check_models(app: &App, bundle: &Bundle, plan: &Plan) -> Result<(), StepFailure> {
    let models = app.engines.build_models(bundle);
    let unusable = list_reached_models(plan, &app.config).into_iter().filter_map(|used| {
        let failure = models.resolve(used.name.as_deref()).err()?;
        Some((used, failure))
    });
    let unusable: Vec<(UsedModel, StepFailure)> = unusable.collect();
    match unusable.as_slice() {
        [] => Ok(()),
        [(_, failure)] => Err(failure.clone()),
        several @ [(_, first), ..] => {
            let described: Vec<String> = several.iter().map(|(used, failure)| used.describe_failure(failure)).collect();
            Err(StepFailure { message: described.join("; "), ..first.clone() })
        }
    }
}

/// Fails if a model that was given for a run cannot be used: `p:m`, or `name=p:m` for an alias.
pub(super) fn check_given_models(app: &App, given: &[String]) -> Result<(), CommandError> {
    let models = build_default_models(&app.config);
    given.iter().try_for_each(|model| Ok(models.resolve(Some(split_model_choice(model).1)).map(drop)?))
}

/// Reports where `--model` has no effect: aliases that no step names, and steps that name their own model.
pub(super) fn report_unchanged_models(config: &Config, plan: &Plan, given: &[String]) {
    report_unused_aliases(config, plan, given);
    report_fixed_models(plan, given);
}

fn report_unused_aliases(config: &Config, plan: &Plan, given: &[String]) {
    let aliases = given.iter().filter_map(|model| split_model_choice(model).0);
    let aliases: Vec<&str> = aliases.filter(|alias| *alias != "*").collect();
    if aliases.is_empty() {
        return;
    }
    let named: Vec<String> = list_reached_models(plan, config).into_iter().filter_map(|used| used.name).collect();
    for alias in aliases.into_iter().filter(|alias| !named.iter().any(|name| name == alias)) {
        let similar = find_similar_name(alias, named.iter().map(String::as_str));
        let meant = similar.map_or_else(String::new, |name| format!("; did you mean {name}?"));
        eprintln!("no step of {} names the model {alias}{meant}", plan.name);
    }
}

/// Reports which steps `--model` does not change, because they name their own model.
fn report_fixed_models(plan: &Plan, given: &[String]) {
    let Some(default) = given.iter().find(|model| !model.contains('=')) else { return };
    // Every name has an alias then.
    if given.iter().any(|model| model.starts_with("*=")) {
        return;
    }
    // An empty name means the default model.
    let names = list_used_models(plan).into_iter().filter_map(|used| used.name);
    let names = names.filter(|name| name != default && !name.is_empty());
    let mut fixed: Vec<String> = names.filter(|name| !given.iter().any(|model| is_alias_of(model, name))).collect();
    fixed.sort_unstable();
    fixed.dedup();
    if !fixed.is_empty() {
        eprintln!(
            "steps that name their own model keep it: {}; to change them all: --model '*={default}'",
            fixed.join(", ")
        );
    }
}

/// Whether a model that the plan names, or its default, is the small local one.
pub(super) fn uses_small_model(app: &App, plan: &Plan) -> bool {
    let models = build_default_models(&app.config);
    let is_small = |used: &UsedModel| models.resolve(used.name.as_deref()).is_ok_and(|model| model == SMALL_MODEL);
    list_used_models(plan).iter().any(is_small)
}

/// Names a better model at the end of a first run.
pub(super) async fn propose_better_model(app: &App) {
    let better = ModelList::collect(&app.config).await.find_better_model(SMALL_MODEL);
    let proposal = match better {
        Some(model) => format!("for a better answer: --model {model}"),
        None => {
            "for better answers: set OPENAI_API_KEY or another key, or start Ollama (flowloom models list)".to_owned()
        }
    };
    eprintln!("{SMALL_MODEL} is a very small model; {proposal}");
}

fn is_alias_of(given: &str, name: &str) -> bool {
    split_model_choice(given).0 == Some(name)
}
