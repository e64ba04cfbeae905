//! The models that a plan names. Those that cannot be used are reported before the first step.

use std::collections::HashMap;

use flowloom_app::definitions::bundle::Bundle;
use flowloom_app::engines::App;
use flowloom_app::listing::list_first;
use flowloom_app::models::{ModelList, split_model_choice};
use flowloom_app::wiring::build_default_models;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::{Block, BlockCode, Composite, Generate, Leaf, Plan, Step, StepKind};
use flowloom_runtime::effects::Model as _;

use crate::cli::SMALL_MODEL;
use crate::failure::CommandError;

/// Fails if a model that the plan names, or its default, cannot be used: no key, no file, no such provider. The error names
/// all of them.
pub(super) fn check_models(app: &App, bundle: &Bundle, plan: &Plan) -> Result<(), CommandError> {
    let models = app.engines.build_models(bundle);
    let unusable = list_models(plan).into_iter().filter_map(|used| {
        let failure = models.resolve(used.name.as_deref()).err()?;
        Some((used, failure))
    });
    let unusable: Vec<(UsedModel, StepFailure)> = unusable.collect();
    let failure = match unusable.as_slice() {
        [] => return Ok(()),
        [(_, failure)] => failure.clone(),
        several @ [(_, first), ..] => {
            let described: Vec<String> = several.iter().map(|(used, failure)| used.describe_failure(failure)).collect();
            StepFailure { message: described.join("; "), ..first.clone() }
        }
    };
    // The same exit code as that of a run which fails for this reason.
    Err(CommandError { exit: 1, ..CommandError::from(failure) })
}

/// Fails if a model that was given for a run cannot be used: `p:m`, or `name=p:m` for an alias.
pub(super) fn check_given_models(app: &App, given: &[String]) -> Result<(), CommandError> {
    let models = build_default_models(&app.config);
    given.iter().try_for_each(|model| Ok(models.resolve(Some(split_model_choice(model).1)).map(drop)?))
}

/// Reports which steps `--model` does not change, because they name their own model.
pub(super) fn report_fixed_models(plan: &Plan, given: &[String]) {
    let Some(default) = given.iter().find(|model| !model.contains('=')) else { return };
    // Every name has an alias then.
    if given.iter().any(|model| model.starts_with("*=")) {
        return;
    }
    // An empty name means the default model.
    let names = list_models(plan).into_iter().filter_map(|used| used.name);
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
    list_models(plan).iter().any(is_small)
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

/// A model of a plan, with the steps that use it.
struct UsedModel {
    /// The name as it is written; `None` for the default.
    name: Option<String>,
    /// The titles of the steps.
    steps: Vec<String>,
}

impl UsedModel {
    /// A failure of the model, with the first steps that use it.
    fn describe_failure(&self, failure: &StepFailure) -> String {
        format!("{}: {}", list_first(self.steps.iter(), MAX_NAMED_STEPS), failure.message)
    }
}

/// Maximum number of steps that an error about a model names.
const MAX_NAMED_STEPS: usize = 3;

/// The models of the steps, each once. Names that are computed are left out.
fn list_models(plan: &Plan) -> Vec<UsedModel> {
    let mut models = UsedModels::default();
    collect_models(&plan.root, &mut models);
    models.list
}

#[derive(Default)]
struct UsedModels {
    list: Vec<UsedModel>,
    /// The index in the list, by name.
    places: HashMap<Option<String>, usize>,
}

impl UsedModels {
    fn add_step(&mut self, name: Option<String>, title: String) {
        let place = *self.places.entry(name.clone()).or_insert(self.list.len());
        match self.list.get_mut(place) {
            Some(used) => used.steps.push(title),
            None => self.list.push(UsedModel { name, steps: vec![title] }),
        }
    }
}

fn collect_models(root: &Step, models: &mut UsedModels) {
    root.visit(&mut |step| {
        // The plan of another definition is no child of its step.
        if let StepKind::Composite(Composite::Subflow(subflow)) = &step.kind {
            collect_models(&subflow.plan.root, models);
        }
        let name = match find_generate(step).map(|generate| &generate.model) {
            None => return,
            Some(None) => None,
            Some(Some(model)) => match model.as_literal() {
                Some(name) => Some(name.to_owned()),
                None => return,
            },
        };
        models.add_step(name, step.title.clone());
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
