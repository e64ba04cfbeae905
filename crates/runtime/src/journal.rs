//! Where events are kept. Implemented in memory ([`crate::memory`]) and on databases (`store`).

use std::sync::Arc;

use flowloom_core::error::StepError;
use flowloom_core::event::{Record, Resolution};
use flowloom_core::id::RunId;
use flowloom_core::path::Path;
use flowloom_core::value::{Map, Value};

use crate::effects::Boxed;

/// The right to write a run's events; lost when another process claims the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// The turn of ownership; every append is checked against it.
    pub epoch: u64,
}

/// The answer to an append: at once, or later.
pub enum Append {
    /// Stored, or not.
    Done(Result<(), StepError>),
    /// Stored, or not, when this is ready.
    Later(Boxed<'static, Result<(), StepError>>),
}

/// What someone outside asks of a run; durable until its owner has obeyed.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// End the run.
    Cancel {
        /// Who asks.
        by: String,
    },
    /// Answer a question.
    Answer {
        /// The step that asked.
        path: Path,
        /// The answer.
        value: Value,
        /// Who answers.
        by: String,
    },
    /// Decide about an uncertain effect.
    Resolve {
        /// The effect.
        path: Path,
        /// The decision.
        how: Resolution,
        /// Who decides.
        by: String,
    },
}

/// The journal of all runs, and what is committed with it.
pub trait Journal: Send + Sync {
    /// Takes a new run. Its first append holds `RunCreated`.
    fn begin(&self, run: RunId) -> Result<Lease, StepError>;

    /// Takes an existing run under a new epoch; `RunOwned` while its owner lives.
    fn claim(&self, run: RunId) -> Boxed<'_, Result<Lease, StepError>>;

    /// Gives the run up.
    fn release(&self, lease: Lease);

    /// Stores records, all or none, in the order of the calls. Memory writes in them happen in the same transaction.
    fn append(&self, lease: Lease, records: Vec<Arc<Record>>) -> Append;

    /// Whether `append` always answers at once, so that waiting for it costs nothing.
    fn is_immediate(&self) -> bool {
        false
    }

    /// The records of a run after position `after`.
    fn read(&self, run: RunId, after: u64) -> Boxed<'_, Result<Vec<Arc<Record>>, StepError>>;

    /// An owner's whole memory, by key. A profile is kept like a memory, under [`profile_holder`].
    fn memories<'a>(&'a self, owner: &'a str) -> Boxed<'a, Result<Map, StepError>>;

    /// A value of an owner's memory.
    fn memory<'a>(&'a self, owner: &'a str, key: &'a str) -> Boxed<'a, Result<Option<Value>, StepError>>;

    /// Ready with the wishes for a run as soon as there are any; `None` if wishes cannot come from elsewhere.
    fn wishes(&self, run: RunId) -> Option<Boxed<'static, Vec<Wish>>>;
}

/// Under whose name the conversations of `owner` are kept, each under its workflow's id.
pub fn thread_holder(owner: &str) -> String {
    format!("{owner}\u{1}thread")
}

/// Under whose name the profile of `owner` is kept: no owner's own name, which has no control characters.
pub fn profile_holder(owner: &str) -> String {
    format!("{owner}\u{1}profile")
}
