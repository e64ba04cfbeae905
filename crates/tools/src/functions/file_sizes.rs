//! The sizes of the folders of users. A folder is measured when its size is not known, and again after a minute, because
//! other processes write too.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::error::FileError;

/// How long a measured size is used.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The sizes that are known, by user.
#[derive(Default)]
pub(super) struct FileSizes(Mutex<HashMap<String, KnownSize>>);

#[derive(Clone, Copy)]
struct KnownSize {
    bytes: u64,
    measured_at: Instant,
}

/// The change of a folder by a file that is written, in bytes.
#[derive(Clone, Copy)]
pub(super) struct SizeChange {
    /// The size of the new content.
    pub(super) added: u64,
    /// The size of the old content.
    pub(super) replaced: u64,
}

impl FileSizes {
    /// Reserves room for a file before it is written. Fails if the files in `folder` would then have more than `limit` bytes,
    /// or if the folder cannot be measured.
    pub(super) fn reserve_bytes(
        &self,
        user: &str,
        folder: &Path,
        change: SizeChange,
        limit: u64,
    ) -> Result<(), FileError> {
        let is_known = self.0.lock().get(user).is_some_and(KnownSize::is_fresh);
        // The folder is measured without the lock, so that other users do not wait.
        let measured = if is_known { None } else { Some(measure_folder(folder)) };
        let measured = measured.transpose().map_err(|source| FileError::FolderNotMeasured { source })?;
        let mut sizes = self.0.lock();
        if let Some(bytes) = measured
            && !sizes.get(user).is_some_and(KnownSize::is_fresh)
        {
            sizes.retain(|_, size| size.is_fresh());
            sizes.insert(user.to_owned(), KnownSize { bytes, measured_at: Instant::now() });
        }
        let known = sizes.entry(user.to_owned()).or_insert(KnownSize { bytes: 0, measured_at: Instant::now() });
        let SizeChange { added, replaced } = change;
        let after = (known.bytes + added).saturating_sub(replaced);
        if added > replaced && after > limit {
            return Err(FileError::QuotaExceeded {
                user: user.to_owned(),
                used_bytes: known.bytes,
                limit_bytes: limit,
            });
        }
        known.bytes = after;
        Ok(())
    }

    /// Gives back the room of a file that was not written.
    pub(super) fn release_bytes(&self, user: &str, SizeChange { added, replaced }: SizeChange) {
        if let Some(known) = self.0.lock().get_mut(user) {
            known.bytes = (known.bytes + replaced).saturating_sub(added);
        }
    }
}

impl KnownSize {
    fn is_fresh(&self) -> bool {
        self.measured_at.elapsed() < MAX_AGE
    }
}

/// The size of all files in a folder, in bytes; zero if there is no such folder. Links are not followed. Fails if a folder
/// cannot be read.
pub(super) fn measure_folder(folder: &Path) -> io::Result<u64> {
    let mut open = vec![folder.to_owned()];
    let mut bytes = 0;
    while let Some(folder) = open.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => open.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                // A temporary file was renamed in the meantime.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(bytes)
}
