//! Reads the files of definitions: from the disk, or from the editor in which they are open.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The texts of the files that are open in an editor, by absolute path. They count in the place of what is on the disk.
pub type OpenFiles = BTreeMap<PathBuf, Arc<str>>;

/// Reads files up to a limit.
#[derive(Clone, Copy)]
pub(crate) struct FileReader<'a> {
    /// Bytes of one file at most. Of a larger file, only one byte more is read.
    pub(crate) limit_bytes: u64,
    /// The files that are open in an editor.
    pub(crate) open_files: Option<&'a OpenFiles>,
}

impl FileReader<'_> {
    /// Reads a file.
    pub(crate) fn read_file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        if let Some(text) = self.open_files.and_then(|files| files.get(path)) {
            return Ok(text.as_bytes().to_vec());
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(self.limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a file in a resolved folder or below; `None` if it is elsewhere. A symbolic link may point anywhere, so the
    /// resolved path is checked.
    pub(crate) fn read_inside(&self, folder: &Path, path: &Path) -> Option<Vec<u8>> {
        let resolved = path.canonicalize().ok().filter(|resolved| resolved.starts_with(folder))?;
        match self.open_files.is_some_and(|files| files.contains_key(path)) {
            true => self.read_file(path).ok(),
            false => self.read_file(&resolved).ok(),
        }
    }
}

/// Reads the files of a folder that match a pattern, if they are in the resolved folder `inside`. Returns whether any were
/// found.
pub(super) fn read_files_below(
    folder: &Path,
    inside: &Path,
    patterns: &[&str],
    reader: FileReader<'_>,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> bool {
    let before = files.len();
    for pattern in patterns {
        let mut places = vec![folder.to_owned()];
        for part in pattern.split('/') {
            places = places.iter().flat_map(|place| match_pattern(place, part)).collect();
        }
        for file in places {
            if files.contains_key(&file.display().to_string()) {
                continue;
            }
            // A missing file is reported by the definition that needs it.
            if let Some(bytes) = reader.read_inside(inside, &file) {
                files.insert(file.display().to_string(), bytes);
            }
        }
    }
    files.len() > before
}

fn match_pattern(folder: &Path, part: &str) -> Vec<PathBuf> {
    let Some((start, end)) = part.split_once('*') else { return vec![folder.join(part)] };
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let names =
        std::fs::read_dir(here).into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(start) && name.ends_with(end)).collect();
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The folder of a definition, without symbolic links.
pub(super) fn resolve_folder(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()?.parent().map(Path::to_owned)
}
