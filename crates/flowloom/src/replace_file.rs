//! Replaces a file by a new version, all of it or nothing.

use std::path::Path;

use crate::failure::CommandError;

/// Replaces the text of a file. Its mode stays. An interruption leaves the old text or the new one.
pub(crate) fn replace_file(path: &Path, text: &str) -> Result<(), CommandError> {
    // A link stays a link; the file that it leads to changes.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = real.parent().unwrap_or(Path::new("."));
    let written = tempfile::Builder::new().prefix(".flowloom-").tempfile_in(folder).and_then(|file| {
        std::fs::write(file.path(), text)?;
        if let Ok(metadata) = std::fs::metadata(&real) {
            std::fs::set_permissions(file.path(), metadata.permissions())?;
        }
        file.persist(&real).map(drop).map_err(|error| error.error)
    });
    written.map_err(|error| CommandError::usage(format!("{} cannot be written: {error}", path.display())))
}
