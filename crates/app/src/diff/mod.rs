//! Comparing: two runs step by step, or two definitions by what they mean.

pub mod called;
pub mod definitions;
mod describe;
mod matching;
mod run_tree;
pub mod runs;

use serde::Serialize;

/// A text that differs. `None` where there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// Its name, for example `input` or `model`.
    pub name: &'static str,
    /// The text in the first one.
    pub before: Option<String>,
    /// The text in the second one.
    pub after: Option<String>,
}

impl FieldChange {
    /// The change between two texts; `None` if they are the same.
    fn between(name: &'static str, before: Option<String>, after: Option<String>) -> Option<FieldChange> {
        (before != after).then_some(FieldChange { name, before, after })
    }
}
