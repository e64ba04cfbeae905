//! Dry runs: the engine executes a pipeline without touching the outside world.
//!
//! Python blocks really run, in the sandbox. Everything that would reach further is mocked ([`stand_in`]): there is no
//! network, functions are never called, memory is a copy, and secrets are never resolved.

mod memory;
mod play;
mod report;
mod stand_in;

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::expr::Data;
use flowloom_core::hash::Hash;
use flowloom_core::limits::Limits;
use flowloom_core::plan::{Composite, Kind, Leaf, Plan};
use flowloom_core::value::{Map, Value};
use flowloom_formats::{Sources, pipeline};
use flowloom_runtime::effects::{Clock, Code as Sandbox, Effects, Model};
use flowloom_runtime::{Engine, Start};

pub use play::{Fixture, Fixtures, Source};
pub use report::{Excuse, Node, NodeStatus, Rehearsal};

use crate::wanted::required;
use crate::wiring::compiled;
use memory::Copied;
use stand_in::StandIn;

/// The id of the only node in a block's trial.
const ONLY: &str = "n1";

/// Executes dry runs and trials.
#[derive(Clone)]
pub struct Rehearser {
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
    pub owner: String,
}

/// The initial conditions of a dry run.
#[derive(Clone, Debug, Default)]
pub struct Given {
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
    Asked,
    /// They are mocked like functions.
    Played,
}

impl Rehearser {
    /// Executes a definition, `{pipeline, blocks}`. An error is a failure of the environment; the results of nodes are
    /// in the report.
    pub async fn rehearse(&self, definition: &Value, given: &Given) -> Result<Rehearsal, StepError> {
        let plan = self.plan(definition)?;
        let blocks = definition.get("blocks").and_then(Value::as_list).unwrap_or_default();
        let blocks = blocks.iter().chain(pipeline::built_in()).cloned().collect();
        let stand_in = StandIn::new(self, given, &plan, blocks);
        self.run(plan, stand_in, given).await
    }

    /// Runs one block with these inputs, for its trial. Prompts call the model, and nothing is mocked if a block needs
    /// more than the trial provides.
    pub async fn attempt(&self, block: &Value, inputs: &Value) -> Result<Rehearsal, StepError> {
        let mut plan = self.plan(&alone(block, inputs))?;
        // The inputs of a trial are data, even if they look like references.
        give(&mut plan, inputs);
        let given = Given::default();
        let stand_in = StandIn::new(self, &given, &plan, Vec::new());
        self.run(plan, stand_in, &given).await
    }

    fn plan(&self, definition: &Value) -> Result<Plan, StepError> {
        let compiled = compiled(definition, &self.sources);
        let fault = compiled.diagnostics.into_iter().find(|found| found.is_error());
        let fault = fault.map(|found| StepError::new(found.code, found.message));
        compiled.plan.ok_or_else(|| fault.unwrap_or_else(|| StepError::new(Code::StepRefused, "there is no plan")))
    }

    async fn run(&self, plan: Plan, stand_in: StandIn, given: &Given) -> Result<Rehearsal, StepError> {
        let (plan, stand_in) = (Arc::new(plan), Arc::new(stand_in));
        let effects = Effects {
            model: stand_in.clone(),
            http: stand_in.clone(),
            scraper: stand_in.clone(),
            functions: stand_in.clone(),
            code: stand_in.clone(),
            clock: self.clock.clone(),
        };
        let start = Start {
            plan: plan.clone(),
            bundle: Hash::of(b"rehearsal"),
            inputs: Map::new().into(),
            owner: self.owner.clone(),
            agent: None,
            limits: self.limits.within(&plan.limits),
            depth: 0,
            workflow: None,
            keep: None,
            id: None,
        };
        let journal = Arc::new(Copied::new(&self.owner, given));
        let outcome = Engine::new(effects, journal).start(start)?.drive().await;
        report::of(&plan, &outcome, &stand_in.notes())
    }
}

/// A pipeline of one block. Its inputs are declared here and set later.
fn alone(block: &Value, inputs: &Value) -> Value {
    let given = inputs.as_map().into_iter().flat_map(|map| map.keys()).map(|name| &**name);
    let needed = required(block.get("input_schema").unwrap_or(&Value::Null));
    let named = Value::map(given.chain(needed).map(|name| (name, Value::Null)));
    let id = block.get("id").cloned().unwrap_or_default();
    let node = Value::map([("id", ONLY.into()), ("block_id", id), ("inputs", named)]);
    let pipeline = Value::map([("id", "trial".into()), ("nodes", Value::list(vec![node]))]);
    Value::map([("pipeline", pipeline), ("blocks", Value::list(vec![block.clone()]))])
}

/// Sets the inputs of a plan's blocks, without resolving references.
fn give(plan: &mut Plan, inputs: &Value) {
    let Kind::Composite(Composite::Sequence(steps)) = &mut plan.root.kind else { return };
    for step in steps {
        let Kind::Composite(Composite::Dag(dag)) = &mut step.kind else { continue };
        for node in &mut dag.nodes {
            if let Kind::Leaf(Leaf::Block(block)) = &mut node.step.kind {
                block.inputs = Data::Constant(inputs.clone());
            }
        }
    }
}
