//! Converts definitions between formats through their plan, and reports what became of each construct.
//!
//! A plan is read as a draft (`draft`, with calls in `calls`, requests in `requests` and agents in `turns`), which a writer for each format
//! (`emit`) turns into text (`text`, `prose`, `json_text`). Whatever a format cannot say is reported, never written as
//! something that behaves differently.
#![warn(missing_docs)]

mod calls;
mod convert;
mod draft;
mod emit;
mod json_text;
mod names;
mod prose;
mod report;
mod requests;
mod text;
mod turns;

pub use convert::{Conversion, ConversionSource, convert_definition};
pub use report::{Fate, Finding};
