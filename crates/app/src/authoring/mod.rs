//! Creating pipelines from plain language. The stages of `flowloom_author` run as functions of a step list, which gives
//! them journal, resume, budget, replay and cancel. Every model call, search and trial is a child step of its stage,
//! and the events of the stages are in the run's journal (docs/author.md).

mod functions;
pub mod happened;
mod job;
mod kept;
mod told;
mod trials;
mod world;

use std::sync::Arc;

use flowloom_author::rehearse::Rehearser;
use flowloom_core::limits::Limits;
use flowloom_formats::Sources;
use flowloom_models::Models;
use flowloom_runtime::clock::SystemClock;
use flowloom_runtime::effects::Code;
use flowloom_store::Store;

use crate::blocks::Registry;
use crate::definitions::stored::Content;
pub use functions::functions;
pub use job::{How, Job, read, value_of};
pub use told::Telling;
pub use trials::rehearsed;

/// Workflows that every installation has.
#[derive(Clone, Copy, Debug)]
pub enum BuiltIn {
    /// Asks for clarification of a goal.
    Clarifier,
    /// Creates a pipeline from a goal.
    Thinker,
}

impl BuiltIn {
    /// Id of the workflow.
    pub fn id(self) -> &'static str {
        match self {
            BuiltIn::Clarifier => "clarifier",
            BuiltIn::Thinker => "thinker",
        }
    }

    /// The workflow's definition.
    pub fn content(self) -> Content {
        let text = match self {
            BuiltIn::Clarifier => include_str!("clarifier.json"),
            BuiltIn::Thinker => include_str!("thinker.json"),
        };
        Content::single(&format!("{}.json", self.id()), text.to_owned())
    }
}

/// What the authoring stages need: store, models, sandbox and block registry.
pub struct Author {
    /// Where blocks and pipelines are stored.
    pub store: Arc<Store>,
    /// The models that the stages ask.
    pub models: Arc<Models>,
    /// The sandbox in which blocks are tried.
    pub code: Arc<dyn Code>,
    /// The block registry.
    pub blocks: Arc<Registry>,
    /// Functions and other names that a pipeline's blocks may use.
    pub sources: Sources,
}

impl Author {
    /// Builds the dry runner that tests blocks and pipelines for a user, given by id.
    pub fn rehearser(&self, model: Option<&str>, limits: Limits, owner: &str) -> Rehearser {
        Rehearser {
            model: self.models.clone(),
            named: model.map(str::to_owned),
            code: self.code.clone(),
            clock: Arc::new(SystemClock),
            sources: self.sources.clone(),
            limits,
            owner: owner.to_owned(),
        }
    }
}
