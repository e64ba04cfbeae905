//! Processes on one machine: each holds one lock file for as long as it lives.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;

/// The folder of the owners' locks.
const OWNERS: &str = "owners";

/// The lock of the server.
const SERVER: &str = "server";

/// The lock files of a data folder.
pub(crate) struct Locks {
    folder: PathBuf,
    own: PathBuf,
    lock: Mutex<Option<File>>,
}

impl Locks {
    pub(crate) fn new(folder: &Path, name: &str) -> Locks {
        let folder = folder.join(OWNERS);
        Locks { own: file(&folder, name), folder, lock: Mutex::default() }
    }

    /// Holds the process's own lock from now on.
    pub(crate) fn hold(&self) -> Result<(), StepError> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_none() {
            *lock = Some(self.make().map_err(|error| {
                let message = format!("the lock in {} cannot be made: {error}", self.folder.display());
                StepError::new(Code::StoreReadOnly, message)
            })?);
        }
        Ok(())
    }

    fn make(&self) -> std::io::Result<File> {
        std::fs::create_dir_all(&self.folder)?;
        let file = File::create(&self.own)?;
        file.try_lock().map_err(std::io::Error::from)?;
        Ok(file)
    }

    /// Whether another process holds its lock.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        let path = file(&self.folder, name);
        let Ok(file) = File::open(&path) else { return false };
        match file.try_lock() {
            Ok(()) => {
                // Its owner is gone; nobody will use the name again.
                let _ = std::fs::remove_file(&path);
                false
            }
            Err(_) => true,
        }
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        let lock = self.lock.get_mut().unwrap_or_else(PoisonError::into_inner);
        if lock.take().is_some() {
            let _ = std::fs::remove_file(&self.own);
        }
    }
}

/// The one server of a data folder.
pub struct Alone {
    _lock: File,
}

impl Alone {
    /// Locks the folder for this process; `StoreLocked` if another has.
    pub(crate) fn with(folder: &Path) -> Result<Alone, StepError> {
        let path = file(folder, SERVER);
        let made = |error: std::io::Error| {
            StepError::new(Code::StoreReadOnly, format!("the lock {} cannot be made: {error}", path.display()))
        };
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(made)?;
        match lock.try_lock() {
            Ok(()) => Ok(Alone { _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                let message = format!(
                    "another server uses the data folder {}; give this one its own with --data-dir, or let both share a \
                     Postgres",
                    folder.display()
                );
                Err(StepError::new(Code::StoreLocked, message))
            }
            Err(TryLockError::Error(error)) => Err(made(error)),
        }
    }
}

/// Whether a server or a run uses a data folder.
pub(crate) fn is_in_use(folder: &Path) -> bool {
    let is_locked = |path: PathBuf| File::open(path).is_ok_and(|file| file.try_lock().is_err());
    let owners = std::fs::read_dir(folder.join(OWNERS)).into_iter().flatten().flatten();
    is_locked(file(folder, SERVER)) || owners.map(|entry| entry.path()).any(is_locked)
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.lock"))
}
