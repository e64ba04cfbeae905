//! Creating pipelines from plain language. The stages of `flowloom_author` run as functions of a step list, which gives
//! them journal, resume, budget, replay and cancel. Every model call, search and trial is a child step of its stage,
//! and the events of the stages are in the run's journal (docs/author.md).

pub mod agentflow_event;
mod events;
mod functions;
mod job;
mod persist;
mod trials;
mod world;

use std::sync::Arc;

use flowloom_author::dry_run::DryRunner;
use flowloom_core::limits::Limits;
use flowloom_formats::Sources;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::{CodeRunner, Model};
use flowloom_store::Store;

use crate::blocks::BlockRegistry;
use crate::definitions::stored::DefinitionContent;
pub use events::AuthoringEvents;
pub use functions::build_functions;
pub use job::{AuthoringJob, AuthoringOptions, OutputTarget, parse_as, to_value};
pub use persist::store_new_block;
pub use trials::dry_run_definition;

/// Workflows that every installation has.
#[derive(Clone, Copy, Debug)]
pub enum BuiltInWorkflow {
    /// Asks for clarification of a goal.
    Clarifier,
    /// Creates a pipeline from a goal.
    Planner,
}

impl BuiltInWorkflow {
    /// Id of the workflow.
    pub fn id(self) -> &'static str {
        match self {
            BuiltInWorkflow::Clarifier => "clarifier",
            BuiltInWorkflow::Planner => "thinker",
        }
    }

    /// The workflow's definition.
    pub fn load_content(self) -> DefinitionContent {
        let text = match self {
            BuiltInWorkflow::Clarifier => include_str!("clarifier.json"),
            BuiltInWorkflow::Planner => include_str!("thinker.json"),
        };
        DefinitionContent::single(&format!("{}.json", self.id()), text.to_owned())
    }
}

/// The environment of the authoring stages: store, models, sandbox and block registry.
pub struct AuthoringEnv {
    /// Where blocks and pipelines are stored.
    pub store: Arc<Store>,
    /// The models that the stages ask.
    pub models: Arc<dyn Model>,
    /// The sandbox in which generated blocks are tried.
    pub trial_code: Arc<dyn CodeRunner>,
    /// The sandbox of dry runs.
    pub dry_run_code: Arc<dyn CodeRunner>,
    /// The block registry.
    pub blocks: Arc<BlockRegistry>,
    /// Functions and other names that a pipeline's blocks may use.
    pub sources: Sources,
}

impl AuthoringEnv {
    /// Builds the dry runner that tests pipelines for a user, given by id.
    pub fn build_dry_runner(&self, model: Option<&str>, limits: Limits, user: &str) -> DryRunner {
        DryRunner {
            model: self.models.clone(),
            named: model.map(str::to_owned),
            code: self.dry_run_code.clone(),
            clock: Arc::new(SystemClock),
            sources: self.sources.clone(),
            limits,
            user: user.to_owned(),
        }
    }
}
