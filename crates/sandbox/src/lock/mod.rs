//! The lock-down: what the kernel is asked to refuse to a process from now on.
//!
//! `filter` says which system calls are left, `files` (Landlock) and `jail` (namespaces, a bare file system) what can be
//! seen, `limits` how much may be used and as whom. `raw` holds every unsafe call of this crate.

pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod jail;
pub(crate) mod limits;
pub(crate) mod raw;

/// What could not be set up, in words for the person at the machine.
pub(crate) type Missing = String;

/// Locks a worker for expressions down: it can read and write what is open, use memory, and end.
pub(crate) fn expressions(memory_bytes: usize) -> Result<(), Missing> {
    // A worker that has nothing to open needs no user of its own; it leaves root where it can.
    let _ = limits::leave_root();
    limits::for_expressions(memory_bytes)?;
    raw::no_new_privileges().map_err(|error| format!("no_new_privs: {error}"))?;
    let _ = files::nothing();
    filter::Filter::expressions().install().map_err(|error| format!("seccomp: {error}"))
}
