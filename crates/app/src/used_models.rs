//! The models that the steps of a plan name, and those of the workflows that its functions run.

use std::collections::{HashMap, HashSet};

use flowloom_core::diagnostic::Span;
use flowloom_core::error::StepFailure;
use flowloom_core::plan::{Block, BlockCode, Composite, Generate, Leaf, Plan, Step, StepKind, find_called_function};

use crate::config::Config;
use crate::definitions::source::Loader;
use crate::listing::list_first;

/// A model of a plan, with the steps that use it.
pub struct UsedModel {
    /// The name as it is written; `None` for the default.
    pub name: Option<String>,
    /// The titles of the steps.
    steps: Vec<String>,
    /// The places of those steps that are in the definition itself, not in a workflow that it calls.
    pub(crate) spans: Vec<Span>,
}

impl UsedModel {
    /// A failure of the model, with the first steps that use it.
    pub fn describe_failure(&self, failure: &StepFailure) -> String {
        format!("{}: {}", list_first(self.steps.iter(), MAX_NAMED_STEPS), failure.message)
    }
}

/// Maximum number of steps that an error about a model names.
const MAX_NAMED_STEPS: usize = 3;

/// The models of the steps, each once. Names that are computed are left out.
pub fn list_used_models(plan: &Plan) -> Vec<UsedModel> {
    let mut collector = ModelCollector::default();
    collector.add_steps(&plan.root, true);
    collector.models
}

/// The same, with the models of the workflows that functions of the configuration run. Reads their files.
pub fn list_reached_models(plan: &Plan, config: &Config) -> Vec<UsedModel> {
    let mut collector = ModelCollector { config: Some(config), ..ModelCollector::default() };
    collector.add_steps(&plan.root, true);
    collector.models
}

#[derive(Default)]
struct ModelCollector<'c> {
    models: Vec<UsedModel>,
    /// The index of each model, by name.
    places: HashMap<Option<String>, usize>,
    /// The configuration whose functions are followed.
    config: Option<&'c Config>,
    /// The functions whose workflows were read.
    functions: HashSet<String>,
}

impl ModelCollector<'_> {
    fn add_steps(&mut self, root: &Step, is_own: bool) {
        root.visit(&mut |step| {
            // The plan of another definition is no child of its step.
            if let StepKind::Composite(Composite::Subflow(subflow)) = &step.kind {
                self.add_steps(&subflow.plan.root, false);
            }
            if let Some(function) = find_called_function(step) {
                self.add_function(function);
            }
            let span = is_own.then_some(step.span);
            match find_generate(step).map(|generate| &generate.model) {
                None => {}
                Some(None) => self.add_model(None, &step.title, span),
                Some(Some(model)) => {
                    if let Some(name) = model.as_literal() {
                        self.add_model(Some(name.to_owned()), &step.title, span);
                    }
                }
            }
        });
    }

    fn add_model(&mut self, name: Option<String>, title: &str, span: Option<Span>) {
        let place = *self.places.entry(name.clone()).or_insert(self.models.len());
        if place == self.models.len() {
            self.models.push(UsedModel { name, steps: Vec::new(), spans: Vec::new() });
        }
        self.models[place].steps.push(title.to_owned());
        self.models[place].spans.extend(span);
    }

    /// Adds the models of the workflow that a function runs. One that cannot be read is another problem.
    fn add_function(&mut self, function: &str) {
        let Some(config) = self.config else { return };
        let workflow = config.functions.get(function).and_then(|settings| settings.workflow.as_ref());
        let Some(file) = workflow.filter(|_| self.functions.insert(function.to_owned())) else { return };
        let compiled = Loader::new(config).compile(&config.base_folder().join(file)).compiled;
        if let Some(plan) = compiled.plan {
            self.add_steps(&plan.root, false);
        }
    }
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
