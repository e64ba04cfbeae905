//! Gives a file its final name so that this survives a loss of power.

use std::fs::File;
use std::io;
use std::path::Path;

/// Renames a file, in a way that either name has the whole file after a loss of power. Fails if the file or the folder cannot
/// be synchronised.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    File::open(from)?.sync_all()?;
    std::fs::rename(from, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
