//! Copies a database while it is in use.

use std::path::{Path, PathBuf};

use super::Sqlite;
use crate::durable_rename::rename_durably;
use crate::error::{BackupError, StoreError};
use crate::private;

impl Sqlite {
    /// Writes a copy next to `file`, which exists only when the copy is complete.
    pub(crate) fn back_up(&self, file: &Path) -> Result<(), StoreError> {
        let mut partial = file.as_os_str().to_owned();
        partial.push(".part");
        let partial = PathBuf::from(partial);
        // A backup may have been interrupted.
        let _ = std::fs::remove_file(&partial);
        let unwritable = |source| StoreError::Backup(BackupError::Unwritable { file: file.to_owned(), source });
        let copied = private::create_file(&partial)
            .map_err(unwritable)
            // SQLite accepts an empty file, and keeps its mode.
            .and_then(|_| self.copy_to(&partial))
            .and_then(|()| rename_durably(&partial, file).map_err(unwritable));
        if copied.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        copied
    }

    fn copy_to(&self, file: &Path) -> Result<(), StoreError> {
        self.connection.execute("VACUUM INTO ?1", [file.to_string_lossy()])?;
        Ok(())
    }
}
