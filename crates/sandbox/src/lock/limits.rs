//! Resource limits of a worker, and the user it runs as.

use std::io;

use rustix::process::{Resource, Rlimit, geteuid, setrlimit};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::error::{LockError, LockStep};

/// Id of the unprivileged user `nobody`.
pub(crate) const NOBODY_ID: u32 = 65534;

/// Changes to `nobody` if the process is root. This drops all capabilities.
pub(crate) fn leave_root() -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(NOBODY_ID), rustix::fs::Gid::from_raw(NOBODY_ID));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

fn set_limit(resource: Resource, name: &'static str, value: u64) -> Result<(), LockError> {
    // A limit that is lower already is kept.
    let old = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Some(value.min(old));
    LockStep::SetLimit(name).check(setrlimit(resource, Rlimit { current: limit, maximum: limit }))
}

fn set_common_limits() -> Result<(), LockError> {
    set_limit(Resource::Core, "CORE", 0)?;
    set_limit(Resource::Fsize, "FSIZE", 0)?;
    set_limit(Resource::Memlock, "MEMLOCK", 0)?;
    set_limit(Resource::Stack, "STACK", 8 << 20)
}

/// Limits of an interpreter: one process without threads, whatever the filter permits.
pub(crate) fn set_interpreter_limits(memory_bytes: u64, cpu_seconds: u64) -> Result<(), LockError> {
    set_common_limits()?;
    set_limit(Resource::As, "AS", memory_bytes)?;
    // A signal at the limit, which explains the end, and a kill one second later.
    let (soft, hard) = (Some(cpu_seconds), Some(cpu_seconds + 1));
    LockStep::SetLimit("CPU").check(setrlimit(Resource::Cpu, Rlimit { current: soft, maximum: hard }))?;
    set_limit(Resource::Nofile, "NOFILE", 64)?;
    set_limit(Resource::Nproc, "NPROC", 1)
}

/// Limits of a worker that evaluates expressions. The engine limits its memory itself; this is a second barrier.
pub(crate) fn set_expression_limits(memory_bytes: usize) -> Result<(), LockError> {
    set_common_limits()?;
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = pages.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(256 << 8);
    let own = pages * rustix::param::page_size() as u64;
    set_limit(Resource::As, "AS", own + 2 * memory_bytes as u64 + (64 << 20))?;
    set_limit(Resource::Nofile, "NOFILE", 8)?;
    set_limit(Resource::Nproc, "NPROC", 1)
}
