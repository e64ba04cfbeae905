//! Replaces a definition's file as a whole. Its mode and owner stay, so that other programs that read it still can.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::flow_folder::FLOW_FOLDER;
use crate::folders::name_parent;
use crate::project_files::{READ_WRITE_BITS, share_new_file};

/// The mode of a new file in a folder that other programs read, and in which there is no file to go by.
const SHARED_FILE_MODE: u32 = 0o644;

/// The number of drafts that this process has named: a file may be replaced several times at the same time.
static DRAFTS: AtomicU64 = AtomicU64::new(0);

/// Replaces the text of a file, or creates the file. An interruption leaves the old text or the new one. A link stays a
/// link; the file that it leads to changes. Fails if the path names no file, or if the folder cannot be written.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&real).is_ok_and(|found| !found.is_file()) {
        // A pipe or a terminal, such as `/dev/stdout`.
        return fs::write(path, text);
    }
    let name = real.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let folder = name_parent(&real);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = folder.join(format!(".{name}.{}-{number}.new", std::process::id()));
    let written = write_durably(&draft, text, find_rights(&real, folder).as_ref());
    written.and_then(|()| fs::rename(&draft, &real)).inspect_err(|_| drop(fs::remove_file(&draft)))?;
    File::open(folder)?.sync_all()
}

/// The rights of a file: its mode, and its owner if that is to be kept.
struct Rights {
    mode: u32,
    owner: Option<Metadata>,
}

/// The rights of the new version of a file: those of the old version; in AnythingLLM's folder of flows, those of the
/// other flows; elsewhere, what the mask of the user allows.
fn find_rights(file: &Path, folder: &Path) -> Option<Rights> {
    if let Ok(old) = fs::metadata(file) {
        return Some(Rights { mode: old.mode(), owner: Some(old) });
    }
    let is_shared =
        folder.canonicalize().is_ok_and(|folder| folder.file_name().is_some_and(|name| name == FLOW_FOLDER));
    is_shared.then(|| Rights { mode: find_common_mode(folder).unwrap_or(SHARED_FILE_MODE), owner: None })
}

/// The mode of the JSON file of a folder that was changed last.
fn find_common_mode(folder: &Path) -> Option<u32> {
    let files = fs::read_dir(folder).ok()?.flatten();
    let flows = files.filter(|file| file.path().extension().is_some_and(|end| end == "json"));
    let newest = flows.filter_map(|file| file.metadata().ok()).filter(Metadata::is_file).max_by_key(Metadata::mtime)?;
    Some(newest.mode() & READ_WRITE_BITS)
}

fn write_durably(path: &Path, text: &str, rights: Option<&Rights>) -> io::Result<()> {
    let mode = rights.map_or(READ_WRITE_BITS, |rights| rights.mode);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    match rights {
        Some(rights) => {
            if let Some(old) = &rights.owner {
                // Only the superuser can give a file away. If that fails, its readers are still those of the mode.
                let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
            }
            // The mask of the process does not apply to this.
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        None => share_new_file(&file)?,
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(file: &Path) -> u32 {
        fs::metadata(file).expect("a file").mode() & 0o7777
    }

    #[test]
    fn a_file_keeps_its_mode_and_its_link() {
        let root = tempfile::tempdir().expect("a folder");
        let (file, link) = (root.path().join("a.json"), root.path().join("b.json"));
        replace_file(&file, "1").expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o664)).expect("set");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        replace_file(&link, "2").expect("written");
        assert_eq!((fs::read_to_string(&file).expect("a file").as_str(), mode_of(&file)), ("2", 0o664));
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(root.path()).expect("a folder").count(), 2, "nothing else is left");
    }

    #[test]
    fn the_owner_stays_where_that_is_permitted() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("a.json");
        fs::write(&file, "1").expect("written");
        let given = std::os::unix::fs::chown(&file, Some(12_345), Some(12_346)).is_ok();
        let owner = |file: &Path| fs::metadata(file).map(|found| (found.uid(), found.gid())).expect("a file");
        let before = owner(&file);
        replace_file(&file, "2").expect("written");
        assert_eq!(owner(&file), before);
        assert_eq!(given, before == (12_345, 12_346));
    }

    #[test]
    fn a_new_flow_has_the_mode_of_its_siblings() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join(FLOW_FOLDER);
        fs::create_dir(&folder).expect("a folder");
        replace_file(&folder.join("a.json"), "1").expect("written");
        assert_eq!(mode_of(&folder.join("a.json")), 0o644);
        fs::set_permissions(folder.join("a.json"), Permissions::from_mode(0o640)).expect("set");
        replace_file(&folder.join("b.json"), "1").expect("written");
        assert_eq!(mode_of(&folder.join("b.json")), 0o640);
    }
}
