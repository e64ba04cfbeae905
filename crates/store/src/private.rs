//! Files and folders that only their owner can read. They hold prompts, answers and memories.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::error::StoreError;

/// Mode of a folder that only its owner can use.
const FOLDER_MODE: u32 = 0o700;

/// Mode of a file that only its owner can use.
const FILE_MODE: u32 = 0o600;

/// The part of a mode that gives rights to others than the owner.
const OTHERS_MODE: u32 = 0o077;

/// Creates a folder with the folders above it, unless it exists.
pub(crate) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

/// Creates an empty file unless it exists, so that what writes to it later does not choose its mode.
pub(crate) fn create_file(file: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(file)
}

/// Creates the file of a database unless it exists. One that exists is not opened: closing it would release the locks that
/// this process has on it.
pub(crate) fn create_database_file(file: &Path) -> io::Result<()> {
    match OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop),
    }
}

/// Takes the rights of others at a file away.
pub(crate) fn restrict_file(file: &Path) -> io::Result<()> {
    std::fs::set_permissions(file, Permissions::from_mode(FILE_MODE))
}

/// Fails with `DataReadable` if others than its owner have rights at a folder, and with `ConfigInvalid` if it is a file. A
/// folder that does not exist is fine.
pub fn check_private(folder: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(folder) {
        Ok(metadata) if !metadata.is_dir() => Err(StoreError::FolderIsFile(folder.to_owned())),
        Ok(metadata) if metadata.mode() & OTHERS_MODE != 0 => {
            Err(StoreError::ReadableByOthers { folder: folder.to_owned(), mode: metadata.mode() & 0o7777 })
        }
        // What else is wrong is found when it is used.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        std::fs::metadata(path).expect("it exists").mode() & 0o777
    }

    #[test]
    fn what_is_created_is_for_its_owner() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("a/b");
        create_folder(&folder).expect("created");
        assert_eq!((mode_of(&folder), mode_of(&place.path().join("a"))), (0o700, 0o700));
        let file = folder.join("file");
        create_file(&file).expect("created");
        assert_eq!(mode_of(&file), 0o600);
        let database = folder.join("database");
        create_database_file(&database).expect("created");
        std::fs::write(&database, "content").expect("written");
        create_database_file(&database).expect("it exists");
        assert_eq!((mode_of(&database), std::fs::read(&database).expect("readable").len()), (0o600, 7));
        std::fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("set");
        restrict_file(&file).expect("set");
        assert_eq!(mode_of(&file), 0o600);
    }

    #[test]
    fn a_folder_that_others_can_read_is_refused() {
        let place = tempfile::tempdir().expect("a folder");
        assert!(check_private(&place.path().join("missing")).is_ok());
        let file = place.path().join("file");
        create_file(&file).expect("created");
        let error = check_private(&file).expect_err("a file").to_string();
        assert!(error.contains("is a file; move the file away"), "{error}");
        for (mode, is_fine) in [(0o700, true), (0o500, true), (0o755, false), (0o740, false), (0o701, false)] {
            std::fs::set_permissions(place.path(), Permissions::from_mode(mode)).expect("set");
            assert_eq!(check_private(place.path()).is_ok(), is_fine, "{mode:o}");
        }
        let error = check_private(place.path()).expect_err("refused").to_string();
        assert!(error.contains("chmod -R go= "), "{error}");
    }
}
