//! Files and folders of a project. They get the rights that the mask of the user leaves, so that others can work with them,
//! while everything else that the program creates is private.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::OnceLock;

/// The bits of a mode that are permissions to read and write.
pub(crate) const READ_WRITE_BITS: u32 = 0o666;

/// All permissions, which a new folder has before the mask.
const FOLDER_BITS: u32 = 0o777;

/// The mask of the process at its start, before the program took the rights of others away.
static USER_MASK: OnceLock<u32> = OnceLock::new();

/// Notes the mask that the process had at its start. Until then, and in other programs, the present mask counts.
pub fn keep_user_mask(mask: u32) {
    let _ = USER_MASK.set(mask);
}

/// Gives a file that was just created the rights of a new file of the user. Fails if its mode cannot be set.
pub(crate) fn share_new_file(file: &File) -> io::Result<()> {
    match USER_MASK.get() {
        Some(mask) => file.set_permissions(Permissions::from_mode(READ_WRITE_BITS & !mask)),
        None => Ok(()),
    }
}

/// Creates a file. Fails if it exists, or if its folder cannot be written.
pub fn create_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(READ_WRITE_BITS).open(path)?;
    share_new_file(&file)?;
    Ok(file)
}

/// Writes a file. One that exists keeps its mode. Fails if it cannot be created or written.
pub fn write_file(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    match create_file(path) {
        Ok(mut file) => file.write_all(content.as_ref()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::write(path, content),
        Err(error) => Err(error),
    }
}

/// Creates a folder with the folders above it, unless it exists. Fails if one of them is a file or cannot be created.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
    fs::create_dir_all(path)?;
    let Some(mask) = USER_MASK.get() else { return Ok(()) };
    missing.into_iter().try_for_each(|folder| fs::set_permissions(folder, Permissions::from_mode(FOLDER_BITS & !mask)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_exists_keeps_its_mode() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("a/b/c.json");
        create_folder(file.parent().expect("a folder")).expect("created");
        create_folder(file.parent().expect("a folder")).expect("it exists");
        write_file(&file, "1").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("set");
        write_file(&file, "2").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("a file"), "2");
        assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
        assert!(create_file(&file).is_err(), "it exists");
    }
}
