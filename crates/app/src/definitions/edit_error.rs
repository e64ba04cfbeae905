//! [`EditError`]: why a step of a definition cannot be edited.

use flowloom_core::path::Path;

/// Why a step cannot be edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The definition has no such step.
    #[error("the definition has no step {path}; its steps are {}", steps.join(", "))]
    NoSuchStep {
        /// The path.
        path: Path,
        /// The paths of its steps.
        steps: Vec<String>,
    },
    /// The step is part of an included definition.
    #[error("the step {0} is part of an included definition; edit that file")]
    Included(Path),
    /// The step has no such field.
    #[error("the step {path} has no field {field:?}; it has {}", fields.join(", "))]
    NoSuchField {
        /// The path.
        path: Path,
        /// The field.
        field: String,
        /// The fields that it has.
        fields: Vec<String>,
    },
}
