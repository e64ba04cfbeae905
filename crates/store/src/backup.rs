//! A copy of the database while it is in use, and the way back. For SQLite; a Postgres has tools of its own.

use std::path::Path;

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

use crate::db::Connection;
use crate::db::sqlite::Sqlite;
use crate::owner::locks;
use crate::{FILE, Store};

impl Store {
    /// Writes a copy of everything into a new file, while runs go on.
    pub fn backup(&self, file: &Path) -> Result<(), StepError> {
        if file.exists() {
            let message = format!("{} is there already; a backup overwrites nothing", file.display());
            return Err(StepError::new(Code::UsageInvalid, message));
        }
        self.read_with(|connection| match connection {
            Connection::Sqlite(sqlite) => sqlite.copy_to(file),
            Connection::Postgres(_) => Err(of_postgres().into()),
        })
    }
}

/// Puts the database of a backup into a data folder. Refused if the backup is damaged, if a process drives runs there, or
/// if there is a database already and `replaces` does not say that it goes; it is kept beside the new one.
pub fn restore(folder: &Path, file: &Path, replaces: bool) -> Result<(), StepError> {
    let failed =
        |error: std::io::Error| StepError::new(Code::StoreFailed, format!("the backup is not restored: {error}"));
    if !file.is_file() {
        return Err(StepError::new(Code::UsageInvalid, format!("there is no backup {}", file.display())));
    }
    let target = folder.join(FILE);
    if target.exists() && !replaces {
        let message = format!("{} is there already; --replace puts the backup in its place", target.display());
        return Err(StepError::new(Code::UsageInvalid, message));
    }
    if locks::is_in_use(folder) {
        let message = format!("{} is in use; stop the server and the runs first", folder.display());
        return Err(StepError::new(Code::StoreLocked, message));
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    // Beside the database and renamed over it: an interruption leaves the old one or the new one.
    let beside = folder.join("flowloom.db.restored");
    std::fs::copy(file, &beside).map_err(failed)?;
    let checked = Sqlite::open(&beside).and_then(|sqlite| sqlite.check());
    if let Err(error) = checked {
        let _ = std::fs::remove_file(&beside);
        return Err(error.into());
    }
    if target.exists() {
        let old = folder.join("flowloom.db.replaced");
        let fold = Sqlite::open(&target).and_then(|sqlite| sqlite.run("PRAGMA wal_checkpoint(TRUNCATE)"));
        // One that is damaged goes as it is.
        drop(fold);
        std::fs::rename(&target, &old).map_err(failed)?;
    }
    for log in ["flowloom.db-wal", "flowloom.db-shm"] {
        match std::fs::remove_file(folder.join(log)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    std::fs::rename(&beside, &target).map_err(failed)
}

fn of_postgres() -> StepError {
    StepError::new(Code::UsageInvalid, "the database is a Postgres; use pg_dump and pg_restore")
}
