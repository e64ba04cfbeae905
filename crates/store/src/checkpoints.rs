//! When SQLite's write-ahead log is moved into the database: after a number of commits, or when it is large.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of commits between two checkpoints: a few megabytes of log.
const COMMITS_PER_CHECKPOINT: u64 = 1000;

/// Number of commits after which the size of the log is read. Large results make large commits.
const COMMITS_PER_READING: u64 = 32;

/// Size to which a larger file of the log is truncated when the log restarts, in bytes.
pub(crate) const KEPT_LOG_BYTES: u64 = 16 << 20;

/// Size of the log's file from which on a checkpoint is due, in bytes.
const LARGE_LOG_BYTES: u64 = 2 * KEPT_LOG_BYTES;

/// Counts the commits of a database.
pub(crate) struct CheckpointSchedule {
    /// The file of the log; `None` for a database without one.
    log: Option<PathBuf>,
    commits: AtomicU64,
}

impl CheckpointSchedule {
    pub(crate) fn new(log: Option<PathBuf>) -> CheckpointSchedule {
        CheckpointSchedule { log, commits: AtomicU64::default() }
    }

    pub(crate) fn commit_count(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Counts a commit. Returns whether a checkpoint is due.
    pub(crate) fn count_commit(&self) -> bool {
        let commits = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        commits.is_multiple_of(COMMITS_PER_CHECKPOINT)
            || (commits.is_multiple_of(COMMITS_PER_READING) && self.is_log_large())
    }

    /// Whether the log's file is large. If it is when the database is opened, earlier processes died before a checkpoint.
    pub(crate) fn is_log_large(&self) -> bool {
        let file = self.log.as_ref().map(std::fs::metadata);
        matches!(file, Some(Ok(file)) if file.len() >= LARGE_LOG_BYTES)
    }
}
