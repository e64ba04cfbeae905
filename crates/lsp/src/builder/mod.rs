//! Building definitions with forms: the parts of a definition as values with the schemas of their forms, and changes of
//! these values in the text of the definition. Pure: texts go in, texts come out.
//!
//! The text stays the only truth. A change replaces what it names and keeps the rest as it is written: comments, order
//! and layout.

mod block_fields;
pub mod connect;
pub mod edit;
pub mod forms;
pub mod inspect;
pub mod json_edit;
mod json_slots;
mod json_write;
pub mod kinds;
mod markdown_edit;
pub(crate) mod markdown_parts;
pub(crate) mod markdown_values;
mod names;
pub mod skeletons;
mod yaml_edit;

pub use edit::{Edit, EditContext, EditEnv, Edited, apply_edits};
pub use inspect::{Inspection, inspect_definition};

use flowloom_core::json::MAX_DEPTH;

use crate::analysis::json_place::{JsonPath, PathStep};

/// Why a definition cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The text cannot be read.
    #[error("the source cannot be read ({0}); correct it first")]
    Unreadable(String),
    /// A key is repeated, so that a change could be of either.
    #[error("the source has the key {0:?} twice in one object; remove one of them first")]
    Duplicate(String),
    /// A path leads nowhere.
    #[error("the definition has nothing at {}", show_path(.0))]
    Nothing(JsonPath),
    /// A path is longer than any definition is deep.
    #[error("a path has at most {MAX_DEPTH} keys and positions")]
    DeepPath,
    /// The format has no such kind of part.
    #[error("this format has no part of the kind {0:?}")]
    UnknownKind(String),
    /// A name cannot be given.
    #[error("{0}")]
    Name(String),
    /// Two parts cannot be connected.
    #[error("these parts cannot be connected: {0}")]
    Connection(String),
    /// A text that is pasted is not a part.
    #[error("the pasted text is not a part of this format: {0}")]
    Paste(String),
}

/// A path for people.
pub fn show_path(path: &[PathStep]) -> String {
    let steps = path.iter().map(|step| match step {
        PathStep::Key(key) => key.clone(),
        PathStep::Index(index) => index.to_string(),
    });
    steps.collect::<Vec<_>>().join(".")
}

/// A path of keys.
pub(crate) fn key_path(keys: &[&str]) -> JsonPath {
    keys.iter().map(|key| PathStep::Key((*key).to_owned())).collect()
}

/// A path with one more step.
pub(crate) fn join_step(path: &[PathStep], step: PathStep) -> JsonPath {
    path.iter().cloned().chain([step]).collect()
}

/// A path with one more key.
pub(crate) fn join_key(path: &[PathStep], key: &str) -> JsonPath {
    join_step(path, PathStep::Key(key.to_owned()))
}
