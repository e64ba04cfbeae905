//! Backup and restore of the SQLite database while it is in use. Postgres has its own tools for this.

use std::io;
use std::path::{Path, PathBuf};

use crate::db::DbConnection;
use crate::db::sqlite::Sqlite;
use crate::error::{BackupError, Corruption, StoreError};
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
            DbConnection::Sqlite(sqlite) => write_copy(sqlite, file),
            DbConnection::Postgres(_) => Err(BackupError::Postgres.into()),
        })
    }
}

/// Writes a copy beside `file`, which is there only when the copy is complete.
fn write_copy(sqlite: &Sqlite, file: &Path) -> Result<(), StoreError> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".part");
    let partial = PathBuf::from(partial);
    // A backup may have been interrupted.
    let _ = std::fs::remove_file(&partial);
    let copied = private::create_file(&partial)
        .map_err(|error| BackupError::Unwritable(error).into())
        // SQLite accepts an empty file, and keeps its mode.
        .and_then(|_| sqlite.copy_to(&partial))
        .and_then(|()| Ok(std::fs::rename(&partial, file).map_err(BackupError::Unwritable)?));
    if copied.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    copied
}

/// Restores a backup into a data folder. Fails with `StoreCorrupt` if the backup is damaged, with `StoreLocked` if a
/// process drives runs in the folder, and with `UsageInvalid` if a database exists and `replaces` is `false`. Returns the
/// file that now holds the replaced database, if there was one.
pub fn restore_backup(folder: &Path, file: &Path, replaces: bool) -> Result<Option<PathBuf>, StoreError> {
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
        return Err(match error {
            StoreError::Corrupt(what) => {
                StoreError::Corrupt(Corruption::Backup { file: file.to_owned(), what: Box::new(what) })
            }
            error => error,
        });
    }
    let replaced = if target.exists() { Some(keep_replaced(&target).map_err(failed)?) } else { None };
    std::fs::rename(&restored, &target).map_err(failed)?;
    Ok(replaced)
}

/// Gives a database a second name, under which it remains when another one takes its place. Returns that name.
fn keep_replaced(database: &Path) -> io::Result<PathBuf> {
    // A damaged database is kept as it is, with its write-ahead log.
    drop(Sqlite::open(database).and_then(|sqlite| sqlite.run_script("PRAGMA wal_checkpoint(TRUNCATE)")));
    let mut names = (1..).map(|number| add_suffix(database, &format!(".replaced-{number}")));
    let old_database = names.find(|name| !name.exists()).unwrap_or_default();
    // Not every file system has hard links.
    std::fs::hard_link(database, &old_database).or_else(|_| std::fs::copy(database, &old_database).map(drop))?;
    // The new database must not find the log of the old one.
    ignore_missing(std::fs::rename(add_suffix(database, "-wal"), add_suffix(&old_database, "-wal")))?;
    ignore_missing(std::fs::remove_file(add_suffix(database, "-shm")))?;
    Ok(old_database)
}

fn add_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
