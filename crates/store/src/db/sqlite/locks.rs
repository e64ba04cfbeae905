//! Liveness of processes on one machine: each holds a lock file as long as it lives.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::db::DbConnection;
use crate::db::liveness::{Liveness, LivingWorkers};
use crate::error::StoreError;
use crate::private;

/// Folder of the workers' lock files.
const WORKERS_FOLDER: &str = "owners";

/// Name of the server's lock.
const SERVER_LOCK: &str = "server";

/// The lock files of a data folder.
pub(crate) struct LockFiles {
    folder: PathBuf,
    own_file: PathBuf,
    lock: Mutex<Option<File>>,
}

impl LockFiles {
    pub(crate) fn new(folder: &Path, name: &str) -> LockFiles {
        let folder = folder.join(WORKERS_FOLDER);
        LockFiles { own_file: lock_path(&folder, name), folder, lock: Mutex::default() }
    }

    fn create_lock(&self) -> std::io::Result<File> {
        private::create_folder(&self.folder)?;
        let file = private::create_file(&self.own_file)?;
        file.try_lock().map_err(std::io::Error::from)?;
        Ok(file)
    }
}

impl Liveness for LockFiles {
    /// Acquires this process's lock, unless it is held already.
    fn show_process(&self) -> Result<(), StoreError> {
        let mut lock = self.lock.lock();
        if lock.is_none() {
            *lock = Some(self.create_lock().map_err(|source| StoreError::NotCreated {
                what: "create a lock file in",
                path: self.folder.clone(),
                source,
            })?);
        }
        Ok(())
    }

    fn read_living(&self, _db: &DbConnection) -> Result<LivingWorkers, StoreError> {
        Ok(LivingWorkers::Locks)
    }

    /// Whether another process holds its lock.
    fn is_alive(&self, name: &str) -> bool {
        let path = lock_path(&self.folder, name);
        let Ok(file) = File::open(&path) else { return false };
        match file.try_lock() {
            Ok(()) => {
                // Its worker is gone, and names are never reused.
                let _ = std::fs::remove_file(&path);
                false
            }
            Err(_) => true,
        }
    }
}

impl Drop for LockFiles {
    fn drop(&mut self) {
        if self.lock.get_mut().take().is_some() {
            let _ = std::fs::remove_file(&self.own_file);
        }
    }
}

/// Lock held by the only server of a data folder.
pub struct ServerLock {
    _lock: File,
}

impl ServerLock {
    /// Locks the folder for this process. Fails with `StoreLocked` if another process holds the lock.
    pub(crate) fn acquire_in(folder: &Path) -> Result<ServerLock, StoreError> {
        let path = lock_path(folder, SERVER_LOCK);
        let made = |source| StoreError::NotCreated { what: "create the lock file", path: path.clone(), source };
        let lock = private::create_file(&path).map_err(made)?;
        match lock.try_lock() {
            Ok(()) => Ok(ServerLock { _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StoreError::FolderInUse(folder.to_owned())),
            Err(TryLockError::Error(error)) => Err(made(error)),
        }
    }
}

/// Whether a server or a run uses a data folder.
pub(crate) fn is_in_use(folder: &Path) -> bool {
    let is_locked = |path: PathBuf| File::open(path).is_ok_and(|file| file.try_lock().is_err());
    let owners = std::fs::read_dir(folder.join(WORKERS_FOLDER)).into_iter().flatten().flatten();
    is_locked(lock_path(folder, SERVER_LOCK)) || owners.map(|entry| entry.path()).any(is_locked)
}

fn lock_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.lock"))
}
