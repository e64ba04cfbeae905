//! Backup and restore of the SQLite database while it is in use. Postgres has its own tools for this.

use std::io;
use std::path::{Path, PathBuf};

use crate::damage::Damage;
use crate::db::sqlite::{Sqlite, locks};
use crate::durable_rename::rename_durably;
use crate::error::{BackupError, Corruption, StoreError};
use crate::private;
use crate::settings::{DATABASE_FILE, Durability};
use crate::store::Store;

/// The folder in the data folder in which a backup is checked before it becomes the database.
const RESTORE_FOLDER: &str = "restoring";

impl Store {
    /// Writes a copy of the whole database to `file` while runs continue. Fails with `UsageInvalid` if `file` exists or
    /// the database is Postgres.
    pub fn back_up(&self, file: &Path) -> Result<(), StoreError> {
        if file.exists() {
            return Err(BackupError::Exists(file.to_owned()).into());
        }
        self.read_long_with(|db| db.back_up(file))
    }
}

/// Permissions of a restore.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoreOptions {
    /// Whether the backup takes the place of a database.
    pub replaces: bool,
    /// Whether a backup with damaged rows is restored.
    pub allows_damage: bool,
}

/// The result of a restore.
#[derive(Debug)]
pub struct RestoredBackup {
    /// The file that now holds the replaced database, if there was one.
    pub replaced: Option<PathBuf>,
    /// The damaged rows of the backup; empty unless they are allowed.
    pub damages: Vec<Damage>,
}

/// Restores a backup into a data folder, after checking its pages, the checksums of its rows and each run. Fails with
/// `StoreCorrupt` if the backup is damaged, with `StoreNewer` if a newer program wrote it, with `StoreLocked` if a process
/// drives runs in the folder, and with `UsageInvalid` if a database exists and is not to be replaced.
pub fn restore_backup(folder: &Path, file: &Path, options: RestoreOptions) -> Result<RestoredBackup, StoreError> {
    let failed = |source| StoreError::Backup(restore_failure(file, folder, source));
    if !file.is_file() {
        return Err(BackupError::Missing(file.to_owned()).into());
    }
    let target = folder.join(DATABASE_FILE);
    if target.exists() && !options.replaces {
        return Err(BackupError::DatabaseExists(target).into());
    }
    if locks::is_in_use(folder) {
        return Err(BackupError::InUse(folder.to_owned()).into());
    }
    private::create_folder(folder).map_err(failed)?;
    // Copy next to the database, then rename: after an interruption either the old or the new database exists.
    let place = folder.join(RESTORE_FOLDER);
    ignore_missing(std::fs::remove_dir_all(&place)).map_err(failed)?;
    let checked = copy_and_check(&place, file);
    let finished = checked.and_then(|damages| {
        if !damages.is_empty() && !options.allows_damage {
            return Err(BackupError::Damaged { file: file.to_owned(), damages }.into());
        }
        let replaced = if target.exists() { Some(keep_replaced(&target).map_err(failed)?) } else { None };
        rename_durably(&place.join(DATABASE_FILE), &target).map_err(failed)?;
        Ok(RestoredBackup { replaced, damages })
    });
    let _ = std::fs::remove_dir_all(&place);
    finished
}

fn restore_failure(file: &Path, folder: &Path, source: io::Error) -> BackupError {
    BackupError::Unrestorable { file: file.to_owned(), folder: folder.to_owned(), source }
}

/// Copies a backup into a folder of its own, as a database with the schema of this program. Returns its damaged rows.
fn copy_and_check(place: &Path, file: &Path) -> Result<Vec<Damage>, StoreError> {
    let failed = |source| StoreError::Backup(restore_failure(file, place, source));
    private::create_folder(place).map_err(failed)?;
    let copy = place.join(DATABASE_FILE);
    std::fs::copy(file, &copy).map_err(failed)?;
    // The copy has the mode of the backup.
    private::restrict_file(&copy).map_err(failed)?;
    let name_backup = |error| match error {
        StoreError::Corrupt(what) => {
            StoreError::Corrupt(Corruption::Backup { file: file.to_owned(), what: Box::new(what) })
        }
        // Another data folder would not help.
        StoreError::Newer { found, supported, database, .. } => {
            StoreError::Newer { database, found, supported, is_file: false }
        }
        error => error,
    };
    Sqlite::open(&copy).and_then(|sqlite| sqlite.check_integrity(file)).map_err(name_backup)?;
    let mut damages = Vec::new();
    // The log of the copy becomes a part of it when the store is closed.
    Store::open(place, Durability::Full)?.check_database(&mut |damage| damages.push(damage))?;
    Ok(damages)
}

/// Gives a database a second name, under which it remains when another one takes its place. Returns that name.
fn keep_replaced(database: &Path) -> io::Result<PathBuf> {
    // A damaged database is kept as it is, with its write-ahead log.
    drop(Sqlite::open(database).and_then(|sqlite| sqlite.run_script("PRAGMA wal_checkpoint(TRUNCATE)")));
    let mut number = 1;
    let old_database = loop {
        let name = add_suffix(database, &format!(".replaced-{number}"));
        if !name.exists() {
            break name;
        }
        number += 1;
    };
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
