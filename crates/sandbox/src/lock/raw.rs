//! The unsafe calls: system calls that neither std nor rustix wraps, or that they wrap as unsafe.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

fn check_result(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The side of a fork that the code runs on.
pub(crate) enum ForkSide {
    Child,
    Parent(rustix::process::Pid),
}

/// Forks. Only for a process with one thread, such as the launcher.
pub(crate) fn fork_process() -> io::Result<ForkSide> {
    // SAFETY: the launcher is called at the start of main and starts no thread, so the child finds no lock held by a
    // thread that it does not have.
    let pid = unsafe { libc::fork() };
    check_result(pid.into())?;
    Ok(rustix::process::Pid::from_raw(pid).map_or(ForkSide::Child, ForkSide::Parent))
}

/// The processor time that a process has used.
pub(crate) fn read_processor_time(process: rustix::process::Pid) -> io::Result<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the kernel writes a clock id.
    match unsafe { libc::clock_getcpuclockid(process.as_raw_nonzero().get(), &raw mut clock) } {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a time.
    check_result(unsafe { libc::clock_gettime(clock, &raw mut time) }.into())?;
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Ok(Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), nanoseconds))
}

/// Makes the descriptor number `to` a copy of `from` that stays open across exec.
pub(crate) fn duplicate_descriptor(from: BorrowedFd<'_>, to: RawFd) -> io::Result<()> {
    // SAFETY: plain integers. A previous owner of `to` has a descriptor that now means something else; the launcher
    // calls this for its standard streams and for numbers that it has just closed.
    check_result(unsafe { libc::dup2(from.as_raw_fd(), to) }.into())?;
    Ok(())
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: libc::c_uint) {
    // SAFETY: the launcher calls this before it opens anything of its own, so nothing that is closed has an owner.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
}

/// Sets the host name of the namespace of this process.
pub(crate) fn set_host_name(name: &str) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the text has.
    check_result(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into())?;
    Ok(())
}

/// Prevents the process from gaining privileges by exec, which filters require.
pub(crate) fn set_no_new_privileges() -> io::Result<()> {
    // SAFETY: sets a flag of the process.
    check_result(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    Ok(())
}

/// The signal that ends a process at [`exit_after_cpu_time`].
pub(crate) const CPU_TIME_SIGNAL: libc::c_int = libc::SIGPROF;

/// Ends the process after `after` of real time, whatever it is doing; zero cancels the timer.
pub(crate) fn exit_after(after: Duration) -> io::Result<()> {
    set_timer(libc::ITIMER_REAL, after)
}

/// Ends the process after `after` of its CPU time, in user mode and in the kernel; zero cancels the timer.
pub(crate) fn exit_after_cpu_time(after: Duration) -> io::Result<()> {
    set_timer(libc::ITIMER_PROF, after)
}

/// Makes the signal of [`exit_after_cpu_time`] end the process, whatever it inherited.
pub(crate) fn reset_cpu_time_signal() {
    // SAFETY: the default action runs no code of this program.
    unsafe { libc::signal(CPU_TIME_SIGNAL, libc::SIG_DFL) };
}

fn set_timer(which: libc::c_int, after: Duration) -> io::Result<()> {
    let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let once = libc::timeval { tv_sec: after.as_secs() as i64, tv_usec: i64::from(after.subsec_micros()) };
    let timer = libc::itimerval { it_interval: none, it_value: once };
    // SAFETY: `timer` outlives the call, and the old value is not asked for.
    check_result(unsafe { libc::setitimer(which as _, &timer, std::ptr::null_mut()) }.into())?;
    Ok(())
}

/// Leaves namespaces.
pub(crate) fn unshare_namespaces(flags: rustix::thread::UnshareFlags) -> io::Result<()> {
    // SAFETY: no flag here unshares the table of descriptors, the one case in which this breaks what others rely on.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Installs a filter. With `ask`, returns the descriptor on which reported calls arrive.
pub(crate) fn install_filter(program: &[libc::sock_filter], ask: bool) -> io::Result<Option<OwnedFd>> {
    let len = libc::c_ushort::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let flags = if ask { libc::SECCOMP_FILTER_FLAG_NEW_LISTENER } else { 0 };
    // SAFETY: `program` points to `len` instructions that outlive the call; the kernel copies and checks them.
    let got = check_result(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, std::ptr::from_ref(&program))
    })?;
    // SAFETY: with that flag the call gives a new descriptor, which nothing else owns.
    Ok(ask.then(|| unsafe { OwnedFd::from_raw_fd(got as RawFd) }))
}

/// A system call that waits for a decision.
pub(crate) struct ReportedCall {
    id: u64,
    pub(crate) call: libc::c_long,
}

/// Waits for the next call to decide about.
pub(crate) fn receive_call(listener: BorrowedFd<'_>) -> io::Result<ReportedCall> {
    // SAFETY: the structure is plain data, for which the kernel wants zeros.
    let mut notice: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: `notice` is what this request fills, and outlives the call.
    check_result(unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) }.into())?;
    Ok(ReportedCall { id: notice.id, call: notice.data.nr.into() })
}

/// Permits or refuses a call.
pub(crate) fn decide_call(listener: BorrowedFd<'_>, call: &ReportedCall, allow: bool) -> io::Result<()> {
    let flags = if allow { libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 } else { 0 };
    let error = if allow { 0 } else { -libc::EPERM };
    let mut answer = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
    // SAFETY: `answer` is what this request reads, and outlives the call.
    check_result(unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) }.into())?;
    Ok(())
}
