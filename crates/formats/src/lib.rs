//! The front ends: each compiles the definitions of a format into a plan, and renders the result of a run in that
//! format.
//!
//! Pure: no I/O, no clock. What a definition refers to comes in [`Sources`]; what is missing goes back in
//! [`Compiled::needs`], for the program to load before it compiles again. A further format implements [`FrontEnd`] and is
//! added to a [`Registry`].
#![warn(missing_docs)]

pub mod agent;
mod conversation;
mod detect;
pub mod flow;
mod front_end;
mod functions;
pub mod graph;
pub mod markdown;
pub mod pipeline;
mod problems;
mod reader;
mod registry;
mod servers;
mod shape;
mod sources;
mod spoken;
pub mod steps;

pub use front_end::{Compiled, FrontEnd, Presented, Source};
pub use problems::Problems;
pub use registry::{Registry, beside, compile, find_format, formats, present, schema, spoken};
pub use shape::Shape;
pub use sources::{Approval, FunctionDeclaration, Sources, ToolHost, ToolServer};
pub use spoken::Spoken;
