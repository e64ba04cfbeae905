//! Dry runs: the engine executes a pipeline without touching the outside world.
//!
//! Python blocks really run, in the sandbox. Everything that would reach further is mocked (`mock_effects`): there is no
//! network, functions are never called, memory is a copy, and secrets are never resolved.

mod memory;
mod mock_effects;
mod mocks;
mod report;

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::expr::Data;
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Composite, Leaf, Plan, StepKind};
use flowloom_core::value::{Map, Value};
use flowloom_formats::{Sources, pipeline};
use flowloom_runtime::effects::{Clock, CodeRunner as Sandbox, Effects, Model};
use flowloom_runtime::{Engine, StartOptions};

pub use mocks::{Fixture, Fixtures, MockSource};
pub use report::{DryRun, Excuse, NodeReport, NodeStatus};

use crate::required::required_names;
use crate::wiring::compile_definition;
use memory::CopiedJournal;
use mock_effects::MockEffects;

/// The id of the only node in a block's trial.
const ONLY_NODE_ID: &str = "n1";

/// Executes dry runs and trials.
#[derive(Clone)]
pub struct DryRunner {
    /// The model for prompts that are really sent.
    pub model: Arc<dyn Model>,
    /// The model for prompts that name none; `None` for the default of `model`.
    pub named: Option<String>,
    /// The sandbox.
    pub code: Arc<dyn Sandbox>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Functions and the like that blocks may name; none of them is called.
    pub sources: Sources,
    /// The limits of each dry run.
    pub limits: Limits,
    /// The user who would own the runs.
    pub user: String,
}

/// The initial conditions of a dry run.
#[derive(Clone, Debug, Default)]
pub struct DryRunInputs {
    /// The user's memory. Writes are discarded.
    pub memory: Map,
    /// The user's profile.
    pub profile: Map,
    /// The outputs of mocked blocks.
    pub fixtures: Fixtures,
    /// The treatment of prompts.
    pub prompts: Prompts,
}

/// The treatment of blocks that call a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prompts {
    /// The model is called.
    #[default]
    Called,
    /// They are mocked like functions.
    Mocked,
}

impl DryRunner {
    /// Executes a definition, `{pipeline, blocks}`. An error is a failure of the environment; the results of nodes are
    /// in the report. Fails if the definition does not compile.
    pub async fn dry_run(&self, definition: &Value, given: &DryRunInputs) -> Result<DryRun, StepFailure> {
        let plan = self.compile_plan(definition)?;
        let blocks = definition.get("blocks").and_then(Value::as_list).unwrap_or_default();
        let blocks = blocks.iter().chain(pipeline::built_in_blocks()).cloned().collect();
        let mock_effects = MockEffects::new(self, given, &plan, blocks);
        self.run_plan(plan, mock_effects, given).await
    }

    /// Runs one block with these inputs, for its trial. Prompts call the model, and nothing is mocked if a block needs
    /// more than the trial provides. Fails if the block does not compile; a failure of the block itself is in the
    /// result.
    pub async fn try_block(&self, block: &Value, inputs: &Value) -> Result<DryRun, StepFailure> {
        let mut plan = self.compile_plan(&single_block_definition(block, inputs))?;
        // The inputs of a trial are data, even if they look like references.
        set_inputs(&mut plan, inputs);
        let given = DryRunInputs::default();
        let mock_effects = MockEffects::new(self, &given, &plan, Vec::new());
        self.run_plan(plan, mock_effects, &given).await
    }

    fn compile_plan(&self, definition: &Value) -> Result<Plan, StepFailure> {
        let compiled = compile_definition(definition, &self.sources);
        let fault = compiled.diagnostics.into_iter().find(|found| found.is_error());
        let fault = fault.map(|found| StepFailure::new(found.code, found.message));
        compiled.plan.ok_or_else(|| fault.unwrap_or_else(|| StepFailure::new(Code::StepRefused, "there is no plan")))
    }

    async fn run_plan(
        &self,
        plan: Plan,
        mock_effects: MockEffects,
        given: &DryRunInputs,
    ) -> Result<DryRun, StepFailure> {
        let (plan, mock_effects) = (Arc::new(plan), Arc::new(mock_effects));
        let effects = Effects {
            model: mock_effects.clone(),
            http: mock_effects.clone(),
            scraper: mock_effects.clone(),
            functions: mock_effects.clone(),
            code: mock_effects.clone(),
            clock: self.clock.clone(),
        };
        let start = StartOptions {
            limits: self.limits.narrow_to(&plan.limits),
            ..StartOptions::new(plan.clone(), Hash::of_bytes(b"rehearsal"), Map::new().into(), self.user.clone())
        };
        let journal = Arc::new(CopiedJournal::new(&self.user, given));
        let outcome = Engine::new(effects, journal).start_run(start)?.drive_to_end().await;
        report::build_report(&plan, &outcome, &mock_effects.collect_node_notes())
    }
}

/// A pipeline of one block. Its inputs are declared here and set later.
fn single_block_definition(block: &Value, inputs: &Value) -> Value {
    let given = inputs.as_map().into_iter().flat_map(|map| map.keys()).map(|name| &**name);
    let needed = required_names(block.get("input_schema").unwrap_or(&Value::Null));
    let named = Value::map(given.chain(needed).map(|name| (name, Value::Null)));
    let id = block.get("id").cloned().unwrap_or_default();
    let node = Value::map([("id", ONLY_NODE_ID.into()), ("block_id", id), ("inputs", named)]);
    let pipeline = Value::map([("id", "trial".into()), ("nodes", Value::list(vec![node]))]);
    Value::map([("pipeline", pipeline), ("blocks", Value::list(vec![block.clone()]))])
}

/// Sets the inputs of a plan's blocks, without resolving references.
fn set_inputs(plan: &mut Plan, inputs: &Value) {
    let StepKind::Composite(Composite::Sequence(steps)) = &mut plan.root.kind else { return };
    for step in steps {
        let StepKind::Composite(Composite::Dag(dag)) = &mut step.kind else { continue };
        for node in &mut dag.nodes {
            if let StepKind::Leaf(Leaf::Block(block)) = &mut node.step.kind {
                block.inputs = Data::Constant(inputs.clone());
            }
        }
    }
}
