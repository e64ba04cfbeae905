//! The plan: the compiled form of every definition, and all that the interpreter knows of it.
//!
//! A tree of steps (`step`). Composites schedule their children; leaves (`leaf`, `http`) are effects; agents (`agent`) ask
//! a model with tools. A format's quirks are data here (text rules, what an error does, where results go), never a
//! question about the format at run time. `input` and `start` say what a run begins with, `env` what a step sees, and
//! `bind` how outputs become variables. `fields` lists the parts of a leaf, so that they can be compared and explained.

mod agent;
mod alone;
pub mod bind;
mod env;
mod fields;
mod format;
mod http;
mod index_limit;
mod input;
mod leaf;
mod missing;
mod reads;
mod start;
mod step;

pub use agent::*;
pub use alone::*;
pub use env::*;
pub use fields::{Field, FieldContent};
pub use format::*;
pub use http::*;
pub use index_limit::*;
pub use input::*;
pub use leaf::*;
pub use missing::MissingReferences;
pub use reads::{
    find_called_function, find_scoped, list_called_functions, list_read_names, list_scoped_names, list_variable_names,
};
pub use step::*;
