//! Finds the files of the served folder that may be definitions.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Maximum depth of subfolders that are searched.
const MAX_FOLDER_DEPTH: usize = 8;

/// Extensions of files that may be definitions.
const DEFINITION_EXTENSIONS: [&str; 3] = ["json", "mdx", "md"];

/// Folders that contain parts of definitions and are skipped.
const SKIPPED_FOLDERS: [&str; 4] = ["agents", "blocks", "tools", "node_modules"];

/// The files of a definition with their modification times.
pub(super) type ModificationTimes = Vec<(PathBuf, Option<SystemTime>)>;

/// Every file of a folder that may be a definition.
pub fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect_files(folder, 0, &mut files);
    files
}

fn collect_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < MAX_FOLDER_DEPTH && !SKIPPED_FOLDERS.contains(&&*name) => {
                collect_files(&path, depth + 1, files)
            }
            Ok(kind) if kind.is_file() && has_definition_extension(&path) => files.push(path),
            _ => {}
        }
    }
}

/// Whether a file may be a definition, by its extension.
pub(super) fn has_definition_extension(path: &Path) -> bool {
    path.extension().is_some_and(|end| DEFINITION_EXTENSIONS.iter().any(|one| end == *one))
}

/// Whether a file is a definition rather than documentation: most `.md` files contain no action that calls a model.
pub(crate) fn is_definition(path: &Path, bytes: &[u8]) -> bool {
    let asks = || String::from_utf8_lossy(bytes).to_ascii_lowercase().contains("<gen");
    path.extension().is_none_or(|end| end != "md") || asks()
}

/// Derives an id from a path: `flow/weather.json` becomes `flow.weather`.
pub fn id_from_path(file: &str) -> String {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '.' };
    stem.chars().map(clean).collect()
}

/// Reads the modification times of files.
pub(super) fn read_modification_times<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> ModificationTimes {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    paths.map(|path| (path.clone(), changed(path))).collect()
}
