//! Replaces a file by a new version, all of it or nothing.

use std::path::Path;

use flowloom_app::definitions::replace_file;

use crate::failure::CommandError;

/// Fails if a file exists that a command would replace, unless the user wants that.
pub(crate) fn check_new_file(path: &Path, is_forced: bool) -> Result<(), CommandError> {
    match path.is_file() && !is_forced {
        true => Err(CommandError::usage(format!("{} exists; use --force to replace it", path.display()))),
        false => Ok(()),
    }
}

/// Replaces the text of a file. Its mode stays. An interruption leaves the old text or the new one.
pub(crate) fn replace_file(path: &Path, text: &str) -> Result<(), CommandError> {
    replace_file::replace_file(path, text)
        .map_err(|error| CommandError::usage(format!("{} cannot be written: {error}", path.display())))
}
