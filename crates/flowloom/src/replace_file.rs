//! Replaces a file by a new version, all of it or nothing.

use std::path::Path;

use flowloom_app::definitions::replace_file;

use crate::failure::CommandError;

/// Replaces the text of a file. Its mode stays. An interruption leaves the old text or the new one.
pub(crate) fn replace_file(path: &Path, text: &str) -> Result<(), CommandError> {
    replace_file::replace_file(path, text)
        .map_err(|error| CommandError::usage(format!("{} cannot be written: {error}", path.display())))
}
