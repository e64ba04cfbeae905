//! [`DefinitionError`]: why a definition cannot be read, stored or run.

use std::path::PathBuf;

use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::path::Path;
use flowloom_core::plan::NotAlone;

use super::stored::MAX_DEFINITION_FILES;
use crate::listing::list_first;

/// The files that a message lists at most.
const MAX_LISTED_FILES: usize = 10;

/// An error of a definition.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// There is none with this id.
    #[error("there is no workflow {0}")]
    NotFound(String),
    /// There is no file with this path and no workflow with this name in the project.
    #[error("there is no file or workflow {name}{}", meant.as_ref().map(|meant| format!("; did you mean {meant}?")).unwrap_or_default())]
    NotInProject {
        /// The name.
        name: String,
        /// The workflow that is probably meant.
        meant: Option<String>,
    },
    /// Several workflows of the project have this file name.
    #[error("{name} fits several workflows: {}", ids.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// Their ids.
        ids: Vec<String>,
    },
    /// A folder that was given in place of a definition has none.
    #[error("there are no workflows in {}", .0.display())]
    EmptyFolder(PathBuf),
    /// A folder that was given in place of a definition has several.
    #[error("the folder {} has {} workflows; name one of them: {}", folder.display(), files.len(), list_first(files.iter().map(|file| file.display()), MAX_LISTED_FILES))]
    SeveralInFolder {
        /// The folder.
        folder: PathBuf,
        /// Their files.
        files: Vec<PathBuf>,
    },
    /// It has errors.
    #[error("the workflow {id} has errors")]
    Invalid {
        /// Its id.
        id: String,
        /// Its diagnostics, as JSON.
        problems: Vec<serde_json::Value>,
    },
    /// It does not compile with the tools that the run may use.
    #[error("the workflow {id} cannot be run: {}", messages.join("; "))]
    ToolsMissing {
        /// Its id.
        id: String,
        /// The errors.
        messages: Vec<String>,
    },
    /// The content is in no known format.
    #[error("this is not a definition")]
    UnknownContent,
    /// There is no such format.
    #[error("there is no format {name:?}; it is one of {}", known.join(", "))]
    UnknownFormat {
        /// The name.
        name: String,
        /// The names of the formats.
        known: Vec<String>,
    },
    /// Two definitions of one request have this id.
    #[error("two workflows have the id {0:?}; give each an id of its own")]
    SharedId(String),
    /// It has too many files.
    #[error("a definition may have at most {MAX_DEFINITION_FILES} files")]
    TooManyFiles,
    /// Its entry is not among its files.
    #[error("the entry {0:?} is not among the files")]
    EntryMissing(String),
    /// A path could leave the folder.
    #[error("{0:?} is not a relative path without empty, \".\" or \"..\" parts")]
    UnsafePath(String),
    /// The stored definition cannot be read.
    #[error("a definition is damaged: {0}")]
    Damaged(#[source] serde_json::Error),
    /// The stored bundle cannot be read.
    #[error("the bundle is damaged: {0}")]
    BundleDamaged(#[source] serde_json::Error),
    /// The stored bundle of a run does not compile.
    #[error("the stored definition of the run no longer compiles: {0}")]
    BundleRejected(String),
    /// A step was changed, and the definition does not compile any more.
    #[error("the definition does not compile with this change: {}", .0.join("; "))]
    EditRejected(Vec<String>),
    /// A step of it cannot run alone.
    #[error("the step {path} cannot run alone: {reason}")]
    NotAlone {
        /// Its path.
        path: Path,
        /// Why not.
        reason: NotAlone,
    },
    /// The workflow has no version with this number.
    #[error("there is no version {version} of the workflow {id}{}", list_versions(versions))]
    NoSuchVersion {
        /// Its id.
        id: String,
        /// The number.
        version: u32,
        /// The numbers of its versions.
        versions: Vec<u32>,
    },
    /// The definition cannot be written as JSON.
    #[error("{0}")]
    Unserializable(#[source] serde_json::Error),
}

impl DefinitionError {
    /// Whether a stored definition is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(
            self,
            DefinitionError::Damaged(_) | DefinitionError::BundleDamaged(_) | DefinitionError::BundleRejected(_)
        )
    }

    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            DefinitionError::NotFound(_)
            | DefinitionError::NoSuchVersion { .. }
            | DefinitionError::NotAlone { reason: NotAlone::Missing, .. } => Code::NotThere,
            DefinitionError::Invalid { .. }
            | DefinitionError::ToolsMissing { .. }
            | DefinitionError::EditRejected(_)
            | DefinitionError::NotAlone { .. }
            | DefinitionError::UnknownContent => Code::StepRefused,
            DefinitionError::SharedId(_) => Code::DuplicateName,
            DefinitionError::UnknownFormat { .. }
            | DefinitionError::Ambiguous { .. }
            | DefinitionError::EmptyFolder(_)
            | DefinitionError::SeveralInFolder { .. } => Code::UsageInvalid,
            DefinitionError::NotInProject { .. } => Code::Unreadable,
            DefinitionError::TooManyFiles | DefinitionError::EntryMissing(_) | DefinitionError::UnsafePath(_) => {
                Code::RequestInvalid
            }
            DefinitionError::Damaged(_) | DefinitionError::BundleDamaged(_) | DefinitionError::BundleRejected(_) => {
                Code::StoreCorrupt
            }
            DefinitionError::Unserializable(_) => Code::StoreFailed,
        }
    }
}

/// The versions that there are, for a message.
fn list_versions(versions: &[u32]) -> String {
    let numbers: Vec<String> = versions.iter().map(u32::to_string).collect();
    if numbers.is_empty() { String::new() } else { format!("; it has the versions {}", numbers.join(", ")) }
}

impl From<DefinitionError> for StepFailure {
    /// The failure as a run records it when one of its steps uses the definition.
    fn from(error: DefinitionError) -> StepFailure {
        StepFailure::new(error.code(), error.to_string())
    }
}
