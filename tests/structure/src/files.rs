//! Lists files of the repository.

use std::path::{Path, PathBuf};

/// Folders that hold build output or downloaded packages, not sources.
const SKIPPED_FOLDERS: [&str; 5] = ["target", "node_modules", ".git", ".tools", ".cache"];

/// The root folder of the repository.
pub fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository exists")
}

/// Every file below `folder` (a path from the repository root) with this extension, sorted, as absolute paths.
pub fn list_files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect_files(&repository_root().join(folder), &mut files);
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

/// The crates below `crates/`, by the names of their folders, sorted.
pub fn list_crates() -> Vec<String> {
    let folders = std::fs::read_dir(repository_root().join("crates")).expect("crates/ is readable");
    let mut names: Vec<String> = folders
        .flatten()
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Reads a text file.
pub fn read_text(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The path of a file from the repository root, with `/` between its parts.
pub fn relative_path(file: &Path) -> String {
    let root = repository_root();
    file.strip_prefix(&root).unwrap_or(file).display().to_string()
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_skipped = SKIPPED_FOLDERS.iter().any(|skipped| entry.file_name() == *skipped);
        if path.is_dir() && !is_skipped {
            collect_files(&path, files);
        } else if path.is_file() {
            files.push(path);
        }
    }
}
