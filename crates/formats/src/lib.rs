//! The front ends: each compiles the definitions of a format into a plan, and renders the result of a run in that
//! format.
//!
//! Pure: no I/O, no clock. The files that a definition refers to come in [`Sources`]; missing ones go back in
//! [`Compiled::missing_files`], for the program to load before it compiles again. A further format implements [`FrontEnd`] and is
//! added to a [`Registry`].
#![warn(missing_docs)]

pub mod agent;
mod answer_source;
mod conversation;
mod detect;
mod distinctive;
pub mod flow;
mod front_end;
mod functions;
pub mod graph;
mod json_mistake;
mod json_recovery;
pub mod json_schema;
mod jsonc;
mod layout;
pub mod markdown;
mod notations;
pub mod pipeline;
mod problems;
mod reader;
mod registry;
mod servers;
mod shape;
mod sources;
pub mod steps;
mod stop;
mod wording;

pub use answer_source::AnswerSource;
pub use conversation::present_stored_messages;
pub use distinctive::{guess_broken_format, is_found_definition, recognise_found};
pub use front_end::{Compiled, DefinitionSource, FrontEnd, OmittedProblems, RenderedResult};
pub use functions::{FunctionRisk, find_built_in_parameters, find_built_in_risk, list_built_in_functions};
pub use jsonc::{blank_comments, to_plain_json};
pub use layout::{format_part, format_source};
pub use problems::{MAX_PROBLEMS, Problems};
pub use registry::{
    Registry, compile, find_answer_source, find_format, format_schema, formats, is_test, may_be_test, recognise,
    related_file_patterns, render_result,
};
pub use servers::tool_name;
pub use shape::DocumentShape;
pub use sources::{Approval, FunctionDeclaration, Sources, ToolHost, ToolServer};
pub use stop::StopFlag;
