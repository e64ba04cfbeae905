//! When SQLite's write-ahead log is moved into the database: after a number of commits, or after it has grown by a number
//! of bytes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of commits between two checkpoints: a few megabytes of log.
pub(crate) const COMMITS_PER_CHECKPOINT: u64 = 1000;

/// Number of commits after which the size of the log is read. Large results make large commits.
const COMMITS_PER_READING: u64 = 32;

/// Growth of the log's file that is worth a checkpoint. After one, the log starts again at the beginning of the file, so the
/// file only grows if the log does.
const GROWTH_BYTES: u64 = 16 << 20;

/// Counts the commits of a database.
pub(crate) struct CheckpointSchedule {
    /// The file of the log; `None` for a database without one.
    log: Option<PathBuf>,
    commits: AtomicU64,
    known_bytes: AtomicU64,
}

impl CheckpointSchedule {
    pub(crate) fn new(log: Option<PathBuf>) -> CheckpointSchedule {
        CheckpointSchedule { log, commits: AtomicU64::default(), known_bytes: AtomicU64::default() }
    }

    pub(crate) fn commit_count(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Counts a commit. Returns whether a checkpoint is due.
    pub(crate) fn count_commit(&self) -> bool {
        let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        commits.is_multiple_of(COMMITS_PER_CHECKPOINT)
            || (commits.is_multiple_of(COMMITS_PER_READING) && self.has_grown())
    }

    /// Whether the log's file has grown so much since the last time that this was so. If the file is that large when the
    /// database is opened, earlier processes died before they had moved it.
    pub(crate) fn has_grown(&self) -> bool {
        let Some(Ok(file)) = self.log.as_ref().map(std::fs::metadata) else { return false };
        let has_grown = file.len() >= self.known_bytes.load(Ordering::Relaxed) + GROWTH_BYTES;
        if has_grown {
            self.known_bytes.store(file.len(), Ordering::Relaxed);
        }
        has_grown
    }
}
