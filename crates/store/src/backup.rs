//! Backup and restore of the SQLite database while it is in use. Postgres has its own tools for this.

use std::path::Path;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

use crate::db::DbConnection;
use crate::db::sqlite::Sqlite;
use crate::settings::DATABASE_FILE;
use crate::store::Store;
use crate::worker::locks;

impl Store {
    /// Writes a copy of the whole database to `file` while runs continue. Fails with `UsageInvalid` if `file` exists or
    /// the database is Postgres.
    pub fn back_up(&self, file: &Path) -> Result<(), StepError> {
        if file.exists() {
            let message = format!("{} already exists; a backup does not overwrite files", file.display());
            return Err(StepError::new(Code::UsageInvalid, message));
        }
        self.read_with(|connection| match connection {
            DbConnection::Sqlite(sqlite) => sqlite.copy_to(file),
            DbConnection::Postgres(_) => Err(postgres_error().into()),
        })
    }
}

/// Restores a backup into a data folder. Fails with `StoreCorrupt` if the backup is damaged, with `StoreLocked` if a
/// process drives runs in the folder, and with `UsageInvalid` if a database exists and `replaces` is `false`. The
/// replaced database is kept as `flowloom.db.replaced`.
pub fn restore_backup(folder: &Path, file: &Path, replaces: bool) -> Result<(), StepError> {
    let failed =
        |error: std::io::Error| StepError::new(Code::StoreFailed, format!("cannot restore the backup: {error}"));
    if !file.is_file() {
        return Err(StepError::new(Code::UsageInvalid, format!("the backup {} does not exist", file.display())));
    }
    let target = folder.join(DATABASE_FILE);
    if target.exists() && !replaces {
        let message = format!("{} already exists; pass --replace to replace it with the backup", target.display());
        return Err(StepError::new(Code::UsageInvalid, message));
    }
    if locks::is_in_use(folder) {
        let message = format!("{} is in use; stop the server and the runs first", folder.display());
        return Err(StepError::new(Code::StoreLocked, message));
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    // Copy next to the database, then rename: after an interruption either the old or the new database is there.
    let restored = folder.join("flowloom.db.restored");
    std::fs::copy(file, &restored).map_err(failed)?;
    let checked = Sqlite::open(&restored).and_then(|sqlite| sqlite.check_integrity());
    if let Err(error) = checked {
        let _ = std::fs::remove_file(&restored);
        return Err(error.into());
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

fn postgres_error() -> StepError {
    StepError::new(Code::UsageInvalid, "the database is Postgres; use pg_dump and pg_restore instead")
}
