//! Reads the files of definitions, and other files of projects, up to a limit: from the disk, or from the editor in which
//! they are open. A pipe or a device that is found in a project is not waited for.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::folders::{name_folder, name_parent};

/// The texts of the files that are open in an editor, by absolute path. They take precedence over the files on the
/// disk.
pub type OpenFiles = BTreeMap<PathBuf, Arc<str>>;

/// The bytes of a configuration or `.env` file at most.
pub(crate) const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// The bytes of the file of a test at most. A recorded one holds what every step received.
pub(crate) const MAX_TEST_BYTES: u64 = 64 << 20;

/// Reads files up to a limit.
#[derive(Clone, Copy)]
pub(crate) struct FileReader<'a> {
    /// Bytes of one file at most. Of a larger file, only one byte more is read.
    pub(crate) limit_bytes: u64,
    /// The files that are open in an editor.
    pub(crate) open_files: Option<&'a OpenFiles>,
}

impl FileReader<'_> {
    /// Reads a file. Fails if it cannot be read, or is neither a regular file nor a stream that the process was started
    /// with.
    pub(crate) fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        if let Some(text) = self.open_files.and_then(|files| files.get(path)) {
            return Ok(text.as_bytes().to_vec());
        }
        read_start(path, self.limit_bytes)
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

/// Reads the text of a file. Fails if it has more bytes than the limit.
pub fn read_bounded_text(path: &Path, limit_bytes: u64) -> io::Result<String> {
    let bytes = read_start(path, limit_bytes)?;
    check_length(&bytes, limit_bytes)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Fails if a file has more bytes than the limit.
pub(crate) fn check_length(content: impl AsRef<[u8]>, limit_bytes: u64) -> io::Result<()> {
    match content.as_ref().len() as u64 > limit_bytes {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit_bytes} bytes"))),
        false => Ok(()),
    }
}

/// Reads a file; of a larger one than the limit, one byte more than the limit.
fn read_start(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file, or a stream that the process was started with.
fn open_file(path: &Path) -> io::Result<File> {
    if is_inherited_stream(path) {
        return File::open(path);
    }
    refuse_special(&fs::metadata(path)?)?;
    // Nothing waits for a pipe that takes the place of the file meanwhile.
    let no_wait = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path)?;
    refuse_special(&file.metadata()?)?;
    Ok(file)
}

/// Whether a path names a stream that the process was started with: `/dev/stdin`, or a shell's `<(…)`.
fn is_inherited_stream(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

/// Fails for a pipe, a device or a socket. Reading a folder has an error of its own.
fn refuse_special(found: &Metadata) -> io::Result<()> {
    match found.is_file() || found.is_dir() {
        true => Ok(()),
        false => {
            let message = "it is a pipe or a device, not a regular file; `-` or /dev/stdin reads a stream";
            Err(io::Error::new(io::ErrorKind::InvalidInput, message))
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
    let names = fs::read_dir(name_folder(folder))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(start) && name.ends_with(end)).collect();
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The folder of a definition, without symbolic links. The file itself may be open in an editor and not be saved yet.
pub(super) fn resolve_folder(path: &Path) -> Option<PathBuf> {
    if let Ok(file) = path.canonicalize() {
        return file.parent().map(Path::to_owned);
    }
    name_parent(path).canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_up_to_a_limit() {
        let place = tempfile::tempdir().expect("a folder");
        let (file, pipe, link) = (place.path().join("a"), place.path().join("pipe"), place.path().join("link"));
        fs::write(&file, "12345").expect("written");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(status.success());
        std::os::unix::fs::symlink("/dev/zero", &link).expect("a link");
        let reader = FileReader { limit_bytes: 3, open_files: None };
        assert_eq!(reader.read_file(&file).expect("read"), b"1234");
        assert_eq!(read_bounded_text(&file, 5).expect("read"), "12345");
        let errors = [(&file, "more than 3 bytes"), (&pipe, "a pipe or a device"), (&link, "a pipe or a device")];
        for (path, message) in errors {
            let error = read_bounded_text(path, 3).expect_err("refused").to_string();
            assert!(error.contains(message), "{error}");
        }
        assert_eq!(reader.read_inside(&place.path().canonicalize().expect("a folder"), &pipe), None);
    }
}
