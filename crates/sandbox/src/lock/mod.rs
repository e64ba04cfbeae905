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
pub(crate) type Missing = String;

/// Locks down a worker for expressions: it can read and write open descriptors, use memory, and exit.
pub(crate) fn expressions(memory_bytes: usize) -> Result<(), Missing> {
    // A worker that opens nothing does not need another user; it leaves root if it can.
    let _ = limits::leave_root();
    limits::for_expressions(memory_bytes)?;
    raw::no_new_privileges().map_err(|error| format!("no_new_privs: {error}"))?;
    let _ = files::nothing();
    filter::Filter::expressions().install().map_err(|error| format!("seccomp: {error}"))
}
