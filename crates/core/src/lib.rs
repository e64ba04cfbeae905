//! The model of a workflow ([`Plan`], [`Value`]) and of its runs ([`Event`], [`state::RunState`]).
//!
//! Pure data and pure functions: no I/O, no async, no clock and no randomness. The front ends (`formats`) produce a
//! [`Plan`], the interpreter (`runtime`) walks it, and everything else reads [`Record`]s.
//!
//! The modules are in reading order; each uses only those before it (`tests/structure/tests/cycles.rs`).
#![warn(missing_docs)]

// Failures and where they are.
pub mod category;
pub mod code;
pub mod diagnostic;
pub mod error;

// Values: one idea in several files, which use each other.
pub mod hash;
pub mod image;
pub mod json;
pub mod render;
pub mod rich;
pub mod schema_work;
pub mod value;
mod value_size;

// Names and limits of runs, steps and texts.
pub mod id;

pub mod path;
pub mod status;
pub mod text_size;
pub mod trace;
pub mod trigger;

// A definition, from its expressions to its plan and to the worst case of it.
pub mod expr;

pub mod chat;

pub mod limits;

pub mod budget;

pub mod plan;

pub mod bound;

// A run: the effects that its steps request, the events that are recorded, and the state that follows from the record.
pub mod effect;

pub mod event;

pub mod state;

// Apart from the rest: blocks as a registry sees them and what their inputs become, and selectors of elements of a page.
pub mod block;
pub mod block_inputs;
pub mod selector;

pub use code::Code;
pub use diagnostic::{Diagnostic, Severity, Span};
pub use error::StepFailure;
pub use event::{Event, Record};
pub use hash::Hash;
pub use id::RunId;
pub use path::Path;
pub use plan::Plan;
pub use status::Status;
pub use value::{Map, Number, Value};
