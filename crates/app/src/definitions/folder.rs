//! The files of the served folder that may be definitions.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Folders below the served one that are looked into.
const DEPTH: usize = 8;

/// Endings of files that may be definitions.
const ENDINGS: [&str; 3] = ["json", "mdx", "md"];

/// Folders that hold parts of definitions.
const PARTS: [&str; 4] = ["agents", "blocks", "tools", "node_modules"];

/// When the files of a definition changed last.
pub(super) type Stamp = Vec<(PathBuf, Option<SystemTime>)>;

/// Every file of a folder that may be a definition.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(folder, 0, &mut files);
    files
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < DEPTH && !PARTS.contains(&&*name) => collect(&path, depth + 1, files),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|end| ENDINGS.iter().any(|one| end == *one)) => {
                files.push(path);
            }
            _ => {}
        }
    }
}

/// Whether a file is a definition and not only to be read: most files that end in `.md` have no action that asks a model.
pub(crate) fn is_meant(path: &Path, bytes: &[u8]) -> bool {
    let asks = || String::from_utf8_lossy(bytes).to_ascii_lowercase().contains("<gen");
    path.extension().is_none_or(|end| end != "md") || asks()
}

/// `flow/weather.json` as `flow.weather`.
pub fn id_of(file: &str) -> String {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let clean = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '.' };
    stem.chars().map(clean).collect()
}

/// When these files changed last.
pub(super) fn stamp<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Stamp {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    paths.map(|path| (path.clone(), changed(path))).collect()
}
