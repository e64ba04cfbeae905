//! The models that a plan names: what is wrong with them is said before the first step.

use flowloom_app::definitions::bundle::Bundle;
use flowloom_app::engines::App;
use flowloom_app::models::ModelList;
use flowloom_app::wiring::build_default_models;
use flowloom_core::plan::{Block, BlockCode, Composite, Generate, Leaf, Plan, Step, StepKind};
use flowloom_runtime::effects::Model as _;

use crate::cli::SMALL_MODEL;
use crate::failure::CommandError;

/// Fails if a model that the plan names, or its default, cannot be used: no key, no file, no such provider.
pub(super) fn check_models(app: &App, bundle: &Bundle, plan: &Plan) -> Result<(), CommandError> {
    let models = app.build_models(bundle);
    for named in list_models(plan) {
        // The same exit code as that of a run which fails for this reason.
        models.resolve(named.as_deref()).map_err(|error| CommandError { exit: 1, ..CommandError::from(error) })?;
    }
    Ok(())
}

/// Says which steps `--model` does not change, because they name their own model.
pub(super) fn report_fixed_models(plan: &Plan, given: &[String]) {
    let Some(default) = given.iter().find(|model| !model.contains('=')) else { return };
    // Every name has an alias then.
    if given.iter().any(|model| model.starts_with("*=")) {
        return;
    }
    // An empty name means the default model.
    let names = list_models(plan).into_iter().flatten().filter(|name| name != default && !name.is_empty());
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
    list_models(plan).iter().any(|named| models.resolve(named.as_deref()).is_ok_and(|model| model == SMALL_MODEL))
}

/// Says at the end of a first run which better model there is.
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
    given.split_once('=').is_some_and(|(alias, _)| alias == name)
}

/// The models of the steps, `None` for the default, each once. Names that are computed are left out.
fn list_models(plan: &Plan) -> Vec<Option<String>> {
    let mut models = Vec::new();
    collect_models(&plan.root, &mut models);
    models
}

fn collect_models(root: &Step, models: &mut Vec<Option<String>>) {
    root.visit(&mut |step| {
        // The plan of another definition is no child of its step.
        if let StepKind::Composite(Composite::Subflow(subflow)) = &step.kind {
            collect_models(&subflow.plan.root, models);
        }
        let named = match find_generate(step).map(|generate| &generate.model) {
            None => return,
            Some(None) => None,
            Some(Some(model)) => match model.as_literal() {
                Some(name) => Some(name.to_owned()),
                None => return,
            },
        };
        if !models.contains(&named) {
            models.push(named);
        }
    });
}

/// The model call of a step.
fn find_generate(step: &Step) -> Option<&Generate> {
    match &step.kind {
        StepKind::Leaf(Leaf::Generate(generate)) => Some(generate),
        StepKind::Leaf(Leaf::Block(Block { code: BlockCode::Prompt { generate, .. }, .. })) => Some(generate),
        StepKind::Composite(Composite::Agent(agent)) => Some(&agent.generate),
        StepKind::Composite(Composite::Turn(turn)) => Some(&turn.generate),
        _ => None,
    }
}
