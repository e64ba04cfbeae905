//! Which process owns a run. Each process holds one lock file for as long as it lives; a run whose owner's file is not
//! locked any more belongs to nobody, however the owner ended.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::id::RunId;

/// This process as an owner of runs.
pub(crate) struct Owner {
    folder: PathBuf,
    name: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lock: Option<File>,
    runs: HashSet<RunId>,
}

impl Owner {
    pub(crate) fn new(folder: &Path) -> Owner {
        let name = uuid::Uuid::now_v7().to_string();
        Owner { folder: folder.join("owners"), name, state: Mutex::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.lock"))
    }

    /// Takes a run for this process, locking its file first.
    pub(crate) fn take(&self, run: RunId) -> Result<(), StepError> {
        let mut state = self.state();
        if state.lock.is_none() {
            state.lock = Some(self.lock().map_err(|error| {
                let message = format!("the lock in {} cannot be made: {error}", self.folder.display());
                StepError::new(Code::StoreReadOnly, message)
            })?);
        }
        if !state.runs.insert(run) {
            return Err(owned(run));
        }
        Ok(())
    }

    fn lock(&self) -> std::io::Result<File> {
        std::fs::create_dir_all(&self.folder)?;
        let file = File::create(self.file(&self.name))?;
        file.try_lock().map_err(std::io::Error::from)?;
        Ok(file)
    }

    /// Gives a run up; `false` if it was not held.
    pub(crate) fn drop_run(&self, run: RunId) -> bool {
        self.state().runs.remove(&run)
    }

    /// Whether the process called `name` lives and may drive `run`. Of itself a process knows better than the database,
    /// which hears of a release a moment later.
    pub(crate) fn drives(&self, name: &str, run: RunId) -> bool {
        if name == self.name {
            return self.state().runs.contains(&run);
        }
        let path = self.file(name);
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

impl Drop for Owner {
    fn drop(&mut self) {
        if self.state().lock.take().is_some() {
            let _ = std::fs::remove_file(self.file(&self.name));
        }
    }
}

pub(crate) fn owned(run: RunId) -> StepError {
    let message = format!("the run {run} is being driven by another command; wait for it, or cancel it");
    StepError::new(Code::RunOwned, message)
}
