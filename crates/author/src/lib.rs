//! The planner: from a goal in plain language to a pipeline that passes its check.
//!
//! [`clarify`] asks questions until the goal is clear. [`think`] then runs the stages decompose, search, create and
//! wire. Each stage is a function of its arguments; everything it does outside goes through [`World`]: no clock, no
//! randomness, no storage. [`rehearse`] implements trials and dry runs. Saving and running the result is up to the
//! caller.
#![warn(missing_docs)]

mod answer;
mod block;
pub mod choose;
pub mod clarify;
pub mod create;
pub mod decompose;
pub mod evaluation;
pub mod event;
mod into;
mod marked;
pub mod rehearse;
mod sample;
pub mod search;
pub mod think;
mod trial;
mod wanted;
pub mod wire;
mod wiring;
pub mod world;

pub use event::Event;
pub use into::{TARGETS, Written, into};
pub use rehearse::{Rehearsal, Rehearser};
pub use think::{Draft, Stage, think};
pub use wanted::Wanted;
pub use world::{Answer, Candidate, Question, Settings, Trial, World};

/// How often an unusable answer is sent back to the model, each time with all errors so far.
pub const REPAIRS: usize = 3;
