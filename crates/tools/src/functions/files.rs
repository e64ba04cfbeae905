//! Files that functions may read and write: those below one folder.
//!
//! A path is opened component by component, starting at the open folder, and no component may be a symbolic link. A
//! change between a check and its use cannot lead out of the folder, because opening is the check.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::FileError;

/// Maximum size of a file that is read or written, in bytes.
const MAX_FILE_BYTES: usize = 10 << 20;

/// Numbers the temporary files of this process.
static NEXT_TEMP_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The folder that contains the files.
#[derive(Clone, Debug)]
pub(super) struct FileFolder {
    root: PathBuf,
    /// The folders that lead from the root to the files. Writing creates them, for nobody else to read.
    below: Vec<OsString>,
}

impl FileFolder {
    pub(super) fn new(root: PathBuf, below: Vec<OsString>) -> FileFolder {
        FileFolder { root, below }
    }

    /// Where the files are.
    pub(super) fn to_path(&self) -> PathBuf {
        self.below.iter().fold(self.root.clone(), |folder, part| folder.join(part))
    }

    /// Whether a path begins with the folder `name`. The case of letters does not count: file systems may ignore it.
    pub(super) fn is_in_subfolder(&self, path: &str, name: &str) -> bool {
        let Ok((parents, file)) = self.split_path(path) else { return false };
        parents.first().unwrap_or(&file).eq_ignore_ascii_case(name)
    }

    /// The size of a file in bytes, zero if there is none.
    pub(super) fn size_of_file(&self, path: &str) -> Result<u64, FileError> {
        let (parents, name) = self.split_path(path)?;
        let folder = match self.open_folder(path, &parents, false) {
            Err(FileError::Missing { .. }) => return Ok(0),
            folder => folder?,
        };
        match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(u64::try_from(stat.st_size).unwrap_or_default()),
            Err(Errno::NOENT) => Ok(0),
            Err(error) => Err(open_error(path, error)),
        }
    }

    /// Reads a file as UTF-8 text.
    pub(super) fn read_text(&self, path: &str) -> Result<String, FileError> {
        let (parents, name) = self.split_path(path)?;
        let folder = self.open_folder(path, &parents, false)?;
        // Non-blocking, because opening a pipe without a writer would wait forever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, Mode::empty()).map_err(|error| open_error(path, error))?;
        let stat = rustix::fs::fstat(&file).map_err(|error| open_error(path, error))?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(FileError::NotAFile { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        let read = File::from(file).take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|source| FileError::NotRead { path: path.to_owned(), source })?;
        if bytes.len() > MAX_FILE_BYTES {
            return Err(file_too_large(path));
        }
        String::from_utf8(bytes).map_err(|_| FileError::NotUtf8 { path: path.to_owned() })
    }

    /// Writes `content` to a file atomically, creating missing folders. Returns the number of bytes.
    pub(super) fn write_text(&self, path: &str, content: &str) -> Result<usize, FileError> {
        if content.len() > MAX_FILE_BYTES {
            return Err(file_too_large(path));
        }
        let (parents, name) = self.split_path(path)?;
        let folder = self.open_folder(path, &parents, true)?;
        let mode = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Mode::from_raw_mode(stat.st_mode & 0o777),
                FileType::Symlink => return Err(open_error(path, Errno::LOOP)),
                _ => return Err(FileError::NotAFile { path: path.to_owned() }),
            },
            Err(Errno::NOENT) => Mode::from_raw_mode(0o644),
            Err(error) => return Err(open_error(path, error)),
        };
        let number = NEXT_TEMP_NUMBER.fetch_add(1, Ordering::Relaxed);
        let draft = format!(".flowloom-{}-{number}.tmp", std::process::id());
        let result = write_new_file(&folder, &draft, mode, content)
            .and_then(|()| rustix::fs::renameat(&folder, &draft, &folder, name).map_err(Into::into))
            .and_then(|()| rustix::fs::fsync(&folder).map_err(Into::into));
        result.map_err(|source| {
            // Nothing can be done about a temporary file that cannot be removed.
            let _ = rustix::fs::unlinkat(&folder, &draft, AtFlags::empty());
            FileError::NotWritten { path: path.to_owned(), source }
        })?;
        Ok(content.len())
    }

    /// Splits a path into its folders and its last component.
    fn split_path<'a>(&self, path: &'a str) -> Result<(Vec<&'a OsStr>, &'a OsStr), FileError> {
        let outside = || FileError::Outside { path: path.to_owned(), root: self.root.clone() };
        if path.contains('\0') {
            return Err(outside());
        }
        let whole = Path::new(path);
        let inner = whole.strip_prefix(&self.root).unwrap_or(whole);
        let mut parts = Vec::new();
        for part in inner.components() {
            match part {
                Component::Normal(name) => parts.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        let name = parts.pop().ok_or_else(|| FileError::NoFileName { path: path.to_owned() })?;
        Ok((parts, name))
    }

    fn open_folder(&self, path: &str, parents: &[&OsStr], create: bool) -> Result<OwnedFd, FileError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = rustix::fs::open(&self.root, flags, Mode::empty())
            .map_err(|error| FileError::RootNotOpened { root: self.root.clone(), source: error.into() })?;
        let below = self.below.iter().map(|part| (part.as_os_str(), 0o700));
        for (part, mode) in below.chain(parents.iter().map(|part| (*part, 0o755))) {
            let flags = flags | OFlags::NOFOLLOW;
            let mut next = rustix::fs::openat(&folder, part, flags, Mode::empty());
            if create && next.as_ref().err() == Some(&Errno::NOENT) {
                match rustix::fs::mkdirat(&folder, part, Mode::from_raw_mode(mode)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(open_error(path, error)),
                }
                next = rustix::fs::openat(&folder, part, flags, Mode::empty());
            }
            folder = match next {
                Ok(next) => next,
                // Linux reports "not a folder" for a link that was not followed.
                Err(Errno::NOTDIR) if is_link(&folder, part) => return Err(open_error(path, Errno::LOOP)),
                Err(error) => return Err(open_error(path, error)),
            };
        }
        Ok(folder)
    }
}

fn write_new_file(folder: &OwnedFd, draft: &str, mode: Mode, content: &str) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, draft, flags, mode)?);
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

fn is_link(folder: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

fn open_error(path: &str, error: Errno) -> FileError {
    let path = path.to_owned();
    match error {
        Errno::LOOP => FileError::SymbolicLink { path },
        Errno::NOENT => FileError::Missing { path },
        _ => FileError::NotOpened { path, source: error.into() },
    }
}

fn file_too_large(path: &str) -> FileError {
    FileError::TooLarge { path: path.to_owned(), limit_bytes: MAX_FILE_BYTES }
}
