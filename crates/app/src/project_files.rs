//! Files and folders of a project. They get the rights that the mask of the user leaves, so that others can work with them,
//! while everything else that the program creates is private.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};

/// The bits of a mode that are permissions to read and write.
pub(crate) const READ_WRITE_BITS: u32 = 0o666;

/// All permissions, which a new folder has before the mask.
const FOLDER_BITS: u32 = 0o777;

/// The permissions of others than the owner.
const OTHERS_BITS: u32 = 0o077;

/// The bits of a mode that are no permissions, such as that of folders whose files get their group.
const SPECIAL_BITS: u32 = 0o7000;

/// The mask of the process at its start, before the program took the rights of others away.
static USER_MASK: OnceLock<u32> = OnceLock::new();

/// Notes the mask that the process had at its start. Until then, and in other programs, the present mask counts.
pub fn keep_user_mask(mask: u32) {
    let _ = USER_MASK.set(mask);
}

/// Gives a file that was just created the rights of a new file of the user. Fails if its mode cannot be read.
pub(crate) fn share_new_file(file: &File) -> io::Result<()> {
    share_new(file, READ_WRITE_BITS)
}

/// Gives what was just created the rights that the mask of the user leaves of `bits`. Rights that others have already stay:
/// an access control list of the folder gives them.
fn share_new(created: &File, bits: u32) -> io::Result<()> {
    let Some(mask) = USER_MASK.get() else { return Ok(()) };
    let mode = created.metadata()?.permissions().mode();
    let shared = (mode & SPECIAL_BITS) | (bits & !mask);
    if mode & OTHERS_BITS == 0 && shared & OTHERS_BITS != 0 {
        // Some file systems have no modes. A private file is of use, too.
        let _ = created.set_permissions(Permissions::from_mode(shared));
    }
    Ok(())
}

/// Opens a folder that was just created, unless another program has replaced it by a link.
fn open_new_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
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
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Ok(()) => share_new(&open_new_folder(folder)?, FOLDER_BITS)?,
            // Another program has just created it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    // Fails if there is a file with this name.
    fs::create_dir_all(path)
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
