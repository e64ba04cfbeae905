//! The data model: workflows (`Plan`, `Value`, `Template`) and the history of runs (`Event`, `RunState`).
//!
//! Pure data and pure functions: no I/O, no async, no clock and no randomness. The five front ends (`formats`)
//! produce a [`plan::Plan`], the interpreter (`runtime`) walks it, and everything else reads [`event::Record`]s.
#![warn(missing_docs)]

pub mod args;
pub mod bind;
pub mod block;
pub mod budget;
pub mod code;
pub mod content;
pub mod diagnostic;
pub mod error;
pub mod event;
pub mod expr;
pub mod hash;
pub mod http;
pub mod id;
pub mod js;
pub mod json;
pub mod limits;
pub mod path;
pub mod plan;
pub mod render;
pub mod request;
pub mod rich;
pub mod state;
pub mod status;
pub mod template;
pub mod thread;
pub mod value;
pub mod vars;

pub use code::Code;
pub use diagnostic::{Diagnostic, Severity, Span};
pub use error::StepError;
pub use event::{Event, Record};
pub use hash::Hash;
pub use id::RunId;
pub use path::Path;
pub use plan::Plan;
pub use status::Status;
pub use value::{Map, Number, Value};
