//! Namespaces and a minimal file system: the process sees the interpreter, its library, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, mount_remount, unmount,
};
use rustix::process::{DumpableBehavior, getegid, geteuid, pivot_root, set_dumpable_behavior};
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

use super::error::{LockError, LockStep};
use super::{limits, raw};

/// Content of the minimal file system, by the paths outside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct JailView {
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
const MOUNT_POINT: &str = "/proc";

/// The host name inside.
const HOST_NAME: &str = "sandbox";

/// The namespaces to leave. Child processes get their own process namespace.
fn own_namespaces() -> UnshareFlags {
    UnshareFlags::NEWNS | UnshareFlags::NEWPID | UnshareFlags::NEWNET | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS
}

/// Leaves the namespaces of the machine, as root.
pub(crate) fn leave_namespaces() -> Result<(), LockError> {
    LockStep::LeaveNamespaces.check(raw::unshare_namespaces(own_namespaces()))?;
    hide_host_name();
    Ok(())
}

/// A new namespace begins with the name of the machine.
fn hide_host_name() {
    // Without the right to do so, the name stays visible, which harms nothing else.
    let _ = raw::set_host_name(HOST_NAME);
}

/// Leaves the namespaces of the machine and that of its users, which an ordinary user can do.
pub(crate) fn leave_user_namespace() -> Result<(), LockError> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    // The files in /proc belong to root after a change of the user.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    LockStep::LeaveNamespaces.check(raw::unshare_namespaces(own_namespaces() | UnshareFlags::NEWUSER))?;
    let _ = fs::write("/proc/self/setgroups", "deny");
    LockStep::MapUser.check(fs::write("/proc/self/uid_map", id_mapping(uid)))?;
    LockStep::MapGroup.check(fs::write("/proc/self/gid_map", id_mapping(gid)))?;
    hide_host_name();
    Ok(())
}

/// Inside, the user is `nobody`, regardless of the user outside.
fn id_mapping(outside: u32) -> String {
    format!("{} {outside} 1", limits::NOBODY_ID)
}

/// Makes the view the root of this process.
pub(crate) fn enter_jail(view: &JailView) -> Result<(), LockError> {
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    LockStep::OwnMounts.check(mount_change("/", private))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = c"size=1m,nr_inodes=4096,mode=755";
    LockStep::MountTmpfs.check(mount("tmpfs", MOUNT_POINT, "tmpfs", flags, Some(options)))?;
    for folder in &view.folders {
        mount_read_only(folder, true)?;
    }
    for folder in &view.masked {
        let bare = path_inside(Path::new("/.empty"));
        LockStep::CreateFolder.check(fs::create_dir_all(&bare))?;
        LockStep::Hide(folder.clone()).check(mount_bind_recursive(&bare, path_inside(folder)))?;
    }
    for file in view.files.iter().chain([&view.interpreter]) {
        mount_read_only(file, false)?;
    }
    let loader = view.loader.iter().filter_map(|path| Some((path, fs::canonicalize(path).ok()?)));
    for (link, target) in view.links.iter().map(|(link, target)| (link, target.clone())).chain(loader) {
        let at = path_inside(link);
        if let Some(folder) = at.parent() {
            LockStep::CreateFolder.check(fs::create_dir_all(folder))?;
        }
        // The name exists already if it is in a folder of the view.
        if fs::symlink_metadata(&at).is_err() {
            LockStep::Link(link.clone()).check(std::os::unix::fs::symlink(target, &at))?;
        }
    }
    LockStep::EnterNewRoot.check(std::env::set_current_dir(MOUNT_POINT))?;
    LockStep::PivotRoot.check(pivot_root(".", "."))?;
    LockStep::UnmountOldRoot.check(unmount(".", UnmountFlags::DETACH))?;
    LockStep::EnterRoot.check(std::env::set_current_dir("/"))?;
    let bare = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    LockStep::RemountRoot.check(mount_remount("/", bare, c""))
}

fn path_inside(path: &Path) -> PathBuf {
    Path::new(MOUNT_POINT).join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts a file or folder of the machine read-only.
fn mount_read_only(path: &Path, folder: bool) -> Result<(), LockError> {
    let at = path_inside(path);
    // A file within a mounted folder exists already.
    if fs::symlink_metadata(&at).is_ok() {
        return Ok(());
    }
    let around = if folder { Some(at.as_path()) } else { at.parent() };
    if let Some(around) = around {
        LockStep::CreateFolder.check(fs::create_dir_all(around))?;
    }
    if !folder {
        LockStep::CreateFile.check(fs::write(&at, ""))?;
    }
    LockStep::Show(path.to_owned()).check(mount_bind_recursive(path, &at))?;
    // In a user namespace, flags of the machine's own mount cannot be removed.
    let is_noexec = statvfs(&at).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::NOEXEC));
    let mut flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::NOEXEC, is_noexec);
    LockStep::ShowReadOnly(path.to_owned()).check(mount_remount(&at, flags, c""))
}
