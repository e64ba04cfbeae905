//! From a request in plain language to a pipeline that passes its check.
//!
//! [`clarify`] asks until the request is clear; [`think`] then runs the stages decompose, search, create and wire. Each
//! stage is a function of what it is given, and all it does to the world goes through [`World`]: no clock, no
//! randomness, no storage. [`rehearse`] tries blocks and pipelines for an implementation of it. Saving what was made, and
//! running it, is the caller's.
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

/// How often an answer that cannot be used goes back to the model, each time with everything that was wrong.
pub const REPAIRS: usize = 3;
