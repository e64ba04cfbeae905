//! Namespaces and a minimal file system: the process sees the interpreter, its library, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, mount_remount, unmount,
};
use rustix::process::{getegid, geteuid, pivot_root};
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

use super::{Missing, limits, raw};

/// Content of the minimal file system, by the paths outside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct View {
    /// The interpreter.
    pub(crate) interpreter: PathBuf,
    /// The dynamic loader, as the interpreter names it.
    pub(crate) loader: Option<PathBuf>,
    /// Libraries, by their real paths.
    pub(crate) files: Vec<PathBuf>,
    /// Symbolic links to the libraries: the link and its target.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Folders with everything in them.
    pub(crate) folders: Vec<PathBuf>,
    /// Folders within those that appear empty.
    pub(crate) masked: Vec<PathBuf>,
}

/// Mount point of the minimal file system: a folder that every Linux has, and that contains nothing of the view.
const SITE: &str = "/proc";

fn said<T, E: std::fmt::Display>(what: impl FnOnce() -> String, result: Result<T, E>) -> Result<T, Missing> {
    result.map_err(|error| format!("{}: {error}", what()))
}

/// Leaves every namespace that can be left. Child processes get their own process namespace.
pub(crate) fn unshare() -> Result<(), Missing> {
    let own =
        UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS;
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    // Root needs no user namespace, and keeps its right to read the interpreter's folder until it drops the privilege.
    if uid == 0 && raw::unshare(own).is_ok() {
        return Ok(());
    }
    said(|| "user namespaces".to_owned(), raw::unshare(own | UnshareFlags::NEWUSER))?;
    let _ = fs::write("/proc/self/setgroups", "deny");
    said(|| "user namespaces: uid_map".to_owned(), fs::write("/proc/self/uid_map", map(uid)))?;
    said(|| "user namespaces: gid_map".to_owned(), fs::write("/proc/self/gid_map", map(gid)))
}

/// Inside, the user is `nobody`, whoever it is outside.
fn map(outside: u32) -> String {
    format!("{} {outside} 1", limits::NOBODY)
}

/// Makes the view the root of this process.
pub(crate) fn enter(view: &View) -> Result<(), Missing> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    said(|| "mounts of its own".to_owned(), mount_change("/", private))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    said(|| "a tmpfs".to_owned(), mount("tmpfs", SITE, "tmpfs", flags, Some(c"size=1m,nr_inodes=4096,mode=755")))?;
    for folder in &view.folders {
        show(folder, true)?;
    }
    for folder in &view.masked {
        let bare = inside(Path::new("/.empty"));
        said(|| "a folder".to_owned(), fs::create_dir_all(&bare))?;
        said(|| format!("hiding {}", folder.display()), mount_bind_recursive(&bare, inside(folder)))?;
    }
    for file in view.files.iter().chain([&view.interpreter]) {
        show(file, false)?;
    }
    let loader = view.loader.iter().filter_map(|path| Some((path, fs::canonicalize(path).ok()?)));
    for (link, target) in view.links.iter().map(|(link, target)| (link, target.clone())).chain(loader) {
        let at = inside(link);
        if let Some(folder) = at.parent() {
            said(|| "a folder".to_owned(), fs::create_dir_all(folder))?;
        }
        // The name exists already if it is in a folder of the view.
        if fs::symlink_metadata(&at).is_err() {
            said(|| format!("a link at {}", link.display()), std::os::unix::fs::symlink(target, &at))?;
        }
    }
    said(|| "a new root".to_owned(), std::env::set_current_dir(SITE))?;
    said(|| "pivot_root".to_owned(), pivot_root(".", "."))?;
    said(|| "the old root".to_owned(), unmount(".", UnmountFlags::DETACH))?;
    said(|| "the new root".to_owned(), std::env::set_current_dir("/"))?;
    let bare = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    said(|| "a read-only root".to_owned(), mount_remount("/", bare, c""))
}

fn inside(path: &Path) -> PathBuf {
    Path::new(SITE).join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts a file or folder of the machine read-only.
fn show(path: &Path, folder: bool) -> Result<(), Missing> {
    let at = inside(path);
    // A file within a mounted folder exists already.
    if fs::symlink_metadata(&at).is_ok() {
        return Ok(());
    }
    let around = if folder { Some(at.as_path()) } else { at.parent() };
    if let Some(around) = around {
        said(|| "a folder".to_owned(), fs::create_dir_all(around))?;
    }
    if !folder {
        said(|| "a file".to_owned(), fs::write(&at, ""))?;
    }
    said(|| format!("showing {}", path.display()), mount_bind_recursive(path, &at))?;
    // In a user namespace, flags of the machine's own mount cannot be removed.
    let kept = statvfs(&at).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::NOEXEC));
    let mut flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::NOEXEC, kept);
    said(|| format!("showing {} read only", path.display()), mount_remount(&at, flags, c""))
}
