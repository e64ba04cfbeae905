//! The interpreter of plans, and what it needs: effect traits, the journal, the clock.
//!
//! Knows no format, no provider and no database. The only crate that spawns run tasks ([`engine`]).
#![warn(missing_docs)]

pub mod clock;
mod drive;
pub mod effects;
pub mod engine;
mod interpret;
pub mod journal;
mod log;
pub mod memory;
pub mod publish;
pub mod schema;
mod scope;
pub mod sim;

pub use drive::Control;
pub use engine::{Engine, Outcome, Run, Start};
pub use publish::Listen;

/// The meaning of plans in this version. A run that was created under another one is refused.
pub const ENGINE_SEMANTICS: u32 = 1;
