//! The lock-down: restrictions that the kernel enforces on a process.
//!
//! `filter` restricts system calls, `files` (Landlock) and `jail` (namespaces and a minimal file system) restrict
//! visible files, and `limits` restricts resources and the user. `report` lists which of them are active. `raw`
//! contains every unsafe call of this crate.

pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod jail;
pub(crate) mod limits;
pub(crate) mod raw;
pub(crate) mod report;

use std::path::Path;

use error::{LockError, LockStep};

/// Locks down a worker for expressions: it can read and write open descriptors, use memory, and exit.
pub(crate) fn lock_down_expressions(memory_bytes: usize, cgroup: Option<&Path>) -> Result<(), LockError> {
    cgroup.map_or(Ok(()), limits::join_cgroup)?;
    let _ = limits::prefer_as_victim();
    // A worker that opens nothing does not need another user; it leaves root if it can.
    let _ = limits::leave_root(limits::worker_id(std::process::id()));
    limits::set_expression_limits(memory_bytes)?;
    LockStep::SetNoNewPrivileges.check(raw::set_no_new_privileges())?;
    let _ = files::allow_nothing();
    LockStep::InstallFilter.check(filter::SyscallFilter::for_expressions().install_filter())
}
