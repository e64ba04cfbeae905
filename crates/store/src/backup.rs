//! Backup and restore of the SQLite database while it is in use. Postgres has its own tools for this.

use std::path::Path;

use crate::db::DbConnection;
use crate::db::sqlite::Sqlite;
use crate::error::{BackupError, StoreError};
use crate::private;
use crate::settings::DATABASE_FILE;
use crate::store::Store;
use crate::worker::locks;

impl Store {
    /// Writes a copy of the whole database to `file` while runs continue. Fails with `UsageInvalid` if `file` exists or
    /// the database is Postgres.
    pub fn back_up(&self, file: &Path) -> Result<(), StoreError> {
        if file.exists() {
            return Err(BackupError::Exists(file.to_owned()).into());
        }
        self.read_with(|connection| match connection {
            DbConnection::Sqlite(sqlite) => {
                // SQLite accepts an empty file, and keeps its mode.
                private::create_file(file).map_err(BackupError::Unwritable)?;
                sqlite.copy_to(file)
            }
            DbConnection::Postgres(_) => Err(BackupError::Postgres.into()),
        })
    }
}

/// Restores a backup into a data folder. Fails with `StoreCorrupt` if the backup is damaged, with `StoreLocked` if a
/// process drives runs in the folder, and with `UsageInvalid` if a database exists and `replaces` is `false`. The
/// replaced database is kept as `flowloom.db.replaced`.
pub fn restore_backup(folder: &Path, file: &Path, replaces: bool) -> Result<(), StoreError> {
    let failed = |error| StoreError::Backup(BackupError::Io(error));
    if !file.is_file() {
        return Err(BackupError::Missing(file.to_owned()).into());
    }
    let target = folder.join(DATABASE_FILE);
    if target.exists() && !replaces {
        return Err(BackupError::DatabaseExists(target).into());
    }
    if locks::is_in_use(folder) {
        return Err(BackupError::InUse(folder.to_owned()).into());
    }
    private::create_folder(folder).map_err(failed)?;
    // Copy next to the database, then rename: after an interruption either the old or the new database is there.
    let restored = folder.join("flowloom.db.restored");
    std::fs::copy(file, &restored).map_err(failed)?;
    // The copy has the mode of the backup.
    private::restrict_file(&restored).map_err(failed)?;
    let checked = Sqlite::open(&restored).and_then(|sqlite| sqlite.check_integrity());
    if let Err(error) = checked {
        let _ = std::fs::remove_file(&restored);
        return Err(error);
    }
    if target.exists() {
        let old = folder.join("flowloom.db.replaced");
        let fold = Sqlite::open(&target).and_then(|sqlite| sqlite.run_script("PRAGMA wal_checkpoint(TRUNCATE)"));
        // A damaged database is moved away as it is.
        drop(fold);
        std::fs::rename(&target, &old).map_err(failed)?;
    }
    for log in ["flowloom.db-wal", "flowloom.db-shm"] {
        match std::fs::remove_file(folder.join(log)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    std::fs::rename(&restored, &target).map_err(failed)
}
