//! The lock-down: restrictions that the kernel enforces on a process.
//!
//! `filter` restricts system calls, `files` (Landlock) and `jail` (namespaces and a minimal file system) restrict
//! visible files, and `limits` restricts resources and the user. `raw` contains every unsafe call of this crate.

pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod jail;
pub(crate) mod limits;
pub(crate) mod raw;

/// Description of what could not be set up, for people.
pub(crate) type MissingFeature = String;

/// Locks down a worker for expressions: it can read and write open descriptors, use memory, and exit.
pub(crate) fn lock_down_expressions(memory_bytes: usize) -> Result<(), MissingFeature> {
    // A worker that opens nothing does not need another user; it leaves root if it can.
    let _ = limits::leave_root();
    limits::set_expression_limits(memory_bytes)?;
    raw::set_no_new_privileges().map_err(|error| format!("no_new_privs: {error}"))?;
    let _ = files::allow_nothing();
    filter::SyscallFilter::for_expressions().install_filter().map_err(|error| format!("seccomp: {error}"))
}
