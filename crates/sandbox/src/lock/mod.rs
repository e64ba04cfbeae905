//! The lock-down: restrictions that the kernel enforces on a process.
//!
//! `filter` restricts system calls, `files` (Landlock) and `jail` (namespaces and a minimal file system) restrict
//! visible files, and `limits` restricts resources and the user. `raw` contains every unsafe call of this crate.

pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod jail;
pub(crate) mod limits;
pub(crate) mod raw;

use error::{LockError, LockStep};

/// Locks down a worker for expressions: it can read and write open descriptors, use memory, and exit.
pub(crate) fn lock_down_expressions(memory_bytes: usize) -> Result<(), LockError> {
    // A worker that opens nothing does not need another user; it leaves root if it can.
    let _ = limits::leave_root();
    limits::set_expression_limits(memory_bytes)?;
    LockStep::SetNoNewPrivileges.check(raw::set_no_new_privileges())?;
    let _ = files::allow_nothing();
    LockStep::InstallFilter.check(filter::SyscallFilter::for_expressions().install_filter())
}
