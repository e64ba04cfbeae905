//! Resource limits of a worker, and the user it runs as.

use std::io;
use std::path::Path;

use rustix::process::{Resource, Rlimit, geteuid, setrlimit};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::error::{LockError, LockStep};

/// Id of the unprivileged user `nobody`.
pub(crate) const NOBODY_ID: u32 = 65534;

/// The first of the user ids of workers. They are above the ranges that systemd, containers and directory services
/// allocate, and below 2^31.
const FIRST_WORKER_ID: u32 = 2_100_000_000;

/// The user id of the worker with a process id, which no other process has: process ids of the machine are unique, and
/// at most 2^22.
pub(crate) fn worker_id(process: u32) -> u32 {
    FIRST_WORKER_ID + process
}

/// Becomes the user `id` if the process is root, which drops all capabilities. Where this id does not exist, as in some
/// containers, the user is `nobody`. Returns whether the process has its own user.
pub(crate) fn leave_root(id: u32) -> io::Result<bool> {
    if !geteuid().is_root() {
        return Ok(false);
    }
    if become_user(id).is_ok() {
        return Ok(true);
    }
    become_user(NOBODY_ID).map(|()| false)
}

fn become_user(id: u32) -> io::Result<()> {
    let (uid, gid) = (rustix::fs::Uid::from_raw(id), rustix::fs::Gid::from_raw(id));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

/// Makes the kernel end this process, and those that it starts, before others when memory runs out.
pub(crate) fn prefer_as_victim() -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", "1000")
}

/// Moves the process, and those that it will start, into a cgroup.
pub(crate) fn join_cgroup(folder: &Path) -> Result<(), LockError> {
    // 0 means the process that writes.
    LockStep::JoinCgroup(folder.to_owned()).check(std::fs::write(folder.join("cgroup.procs"), "0"))
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
