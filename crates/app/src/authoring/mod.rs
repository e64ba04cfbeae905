//! Pipelines from plain language: the stages of `flowloom_author` as functions of a step list, so that a record, resume,
//! budget, replay and cancel come with it. Every model call, search and trial is a step below its stage's, and what the
//! stages tell is in the run's record (docs/author.md).

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

/// The workflows that every installation has.
#[derive(Clone, Copy, Debug)]
pub enum BuiltIn {
    /// Asks what is unclear in a wish.
    Clarifier,
    /// Makes a pipeline of a wish.
    Thinker,
}

impl BuiltIn {
    /// Its id.
    pub fn id(self) -> &'static str {
        match self {
            BuiltIn::Clarifier => "clarifier",
            BuiltIn::Thinker => "thinker",
        }
    }

    /// Its definition.
    pub fn content(self) -> Content {
        let text = match self {
            BuiltIn::Clarifier => include_str!("clarifier.json"),
            BuiltIn::Thinker => include_str!("thinker.json"),
        };
        Content::single(&format!("{}.json", self.id()), text.to_owned())
    }
}

/// What the stages reach.
pub struct Author {
    /// Where blocks and pipelines are stored.
    pub store: Arc<Store>,
    /// The models that the stages ask.
    pub models: Arc<Models>,
    /// The sandbox in which blocks are tried.
    pub code: Arc<dyn Code>,
    /// The block registry.
    pub blocks: Arc<Registry>,
    /// Functions and the like that a pipeline's blocks may use.
    pub sources: Sources,
}

impl Author {
    /// What tries blocks and pipelines for `owner`.
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
