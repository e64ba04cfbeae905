//! The system call filter (seccomp). Every call that is not listed is refused, including calls of future kernels.

use std::io;
use std::os::fd::OwnedFd;

use libc::{c_long, sock_filter};

use super::raw;

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCHITECTURE: u32 = 0xc000_00b7;

/// Offsets in the data that a filter reads.
const CALL_OFFSET: u32 = 0;
const ARCH_OFFSET: u32 = 4;
const FIRST_ARGUMENT_OFFSET: u32 = 16;

/// Result of calls that are not listed.
const REFUSED_ACTION: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
/// Result of calls that libraries try first and can do without.
const UNKNOWN_ACTION: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// Memory, time and open descriptors: enough to compute and to answer.
const COMPUTE_CALLS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_sched_yield,
    libc::SYS_restart_syscall,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What an interpreter needs in addition: reading its library, sleeping, and information about itself. None of these
/// calls opens a connection, starts a process or a thread, or reaches another process.
const INTERPRETER_CALLS: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_getres,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
];

/// Older equivalents of these calls, which aarch64 never had.
#[cfg(target_arch = "x86_64")]
const LEGACY_CALLS: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(target_arch = "aarch64")]
const LEGACY_CALLS: &[c_long] = &[];

/// A filter under construction.
pub(crate) struct SyscallFilter {
    program: Vec<sock_filter>,
}

impl SyscallFilter {
    fn new() -> SyscallFilter {
        let mut filter = SyscallFilter { program: Vec::new() };
        filter.load_word(ARCH_OFFSET);
        filter.jump_if_equal(AUDIT_ARCHITECTURE, 1, 0);
        filter.return_action(libc::SECCOMP_RET_KILL_PROCESS);
        filter.load_word(CALL_OFFSET);
        filter
    }

    /// Filter of a worker that evaluates expressions.
    pub(crate) fn for_expressions() -> SyscallFilter {
        let mut filter = SyscallFilter::new();
        filter.allow_calls(COMPUTE_CALLS);
        filter.allow_calls(&[libc::SYS_setitimer]);
        filter.return_action(REFUSED_ACTION);
        filter
    }

    /// Filter of an interpreter. Every exec is reported to the launcher, which permits the one that starts the
    /// interpreter.
    pub(crate) fn for_interpreter() -> SyscallFilter {
        let mut filter = SyscallFilter::new();
        filter.allow_calls(COMPUTE_CALLS);
        filter.allow_calls(INTERPRETER_CALLS);
        filter.allow_calls(LEGACY_CALLS);
        filter.add_rule(libc::SYS_execve, libc::SECCOMP_RET_USER_NOTIF);
        // There is no socket to send on, except the one that transfers the listener and is closed by exec.
        filter.add_rule(libc::SYS_sendmsg, libc::SECCOMP_RET_ALLOW);
        filter.allow_on_self(libc::SYS_prlimit64);
        // Interpreters and libc probe these calls and continue without them.
        filter.add_rule(libc::SYS_ioctl, libc::SECCOMP_RET_ERRNO | libc::ENOTTY as u32);
        filter.add_rule(libc::SYS_clone3, UNKNOWN_ACTION);
        filter.add_rule(libc::SYS_openat2, UNKNOWN_ACTION);
        filter.return_action(REFUSED_ACTION);
        filter
    }

    fn push_instruction(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        self.program.push(sock_filter { code: code as u16, jt, jf, k });
    }

    fn load_word(&mut self, offset: u32) {
        self.push_instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    }

    fn jump_if_equal(&mut self, value: u32, equal: u8, other: u8) {
        self.push_instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, equal, other, value);
    }

    fn return_action(&mut self, answer: u32) {
        self.push_instruction(libc::BPF_RET | libc::BPF_K, 0, 0, answer);
    }

    fn add_rule(&mut self, call: c_long, answer: u32) {
        self.jump_if_equal(call as u32, 0, 1);
        self.return_action(answer);
    }

    /// Permits a call on the process itself, which is when its first argument is 0.
    fn allow_on_self(&mut self, call: c_long) {
        self.jump_if_equal(call as u32, 0, 4);
        self.load_word(FIRST_ARGUMENT_OFFSET);
        self.jump_if_equal(0, 0, 1);
        self.return_action(libc::SECCOMP_RET_ALLOW);
        self.return_action(REFUSED_ACTION);
    }

    fn allow_calls(&mut self, calls: &[c_long]) {
        for call in calls {
            self.add_rule(*call, libc::SECCOMP_RET_ALLOW);
        }
    }

    /// Installs the filter.
    pub(crate) fn install_filter(self) -> io::Result<()> {
        raw::install_filter(&self.program, false).map(|_| ())
    }

    /// Installs the filter and returns the descriptor on which reported calls arrive.
    pub(crate) fn install_with_listener(self) -> io::Result<OwnedFd> {
        let listener = raw::install_filter(&self.program, true)?;
        listener.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result of a filter for a call, computed by running its program as the kernel would.
    fn run_filter(filter: &SyscallFilter, architecture: u32, call: c_long, first: u32) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = filter.program[at];
            at += 1;
            match u32::from(code) {
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => {
                    at += usize::from(if loaded == k { jt } else { jf });
                }
                _ => {
                    loaded = [(CALL_OFFSET, call as u32), (ARCH_OFFSET, architecture), (FIRST_ARGUMENT_OFFSET, first)]
                        .iter()
                        .find(|(offset, _)| *offset == k)
                        .expect("a known offset")
                        .1
                }
            }
        }
    }

    #[test]
    fn what_is_not_named_is_refused() {
        let filter = SyscallFilter::for_interpreter();
        let dangerous = [
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_clone,
            libc::SYS_ptrace,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_keyctl,
            libc::SYS_process_vm_readv,
            libc::SYS_memfd_create,
            libc::SYS_execveat,
            libc::SYS_kill,
            libc::SYS_tgkill,
            libc::SYS_prctl,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_pidfd_open,
            // A call of a future kernel, and one of the x32 interface.
            9999,
            0x4000_0000,
        ];
        for call in dangerous {
            assert_eq!(run_filter(&filter, AUDIT_ARCHITECTURE, call, 0), REFUSED_ACTION, "{call}");
            assert_eq!(
                run_filter(&SyscallFilter::for_expressions(), AUDIT_ARCHITECTURE, call, 0),
                REFUSED_ACTION,
                "{call}"
            );
        }
        assert_eq!(run_filter(&filter, AUDIT_ARCHITECTURE, libc::SYS_clone3, 0), UNKNOWN_ACTION);
        assert_eq!(run_filter(&filter, AUDIT_ARCHITECTURE, libc::SYS_execve, 0), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(
            run_filter(&SyscallFilter::for_expressions(), AUDIT_ARCHITECTURE, libc::SYS_execve, 0),
            REFUSED_ACTION
        );
        assert_eq!(
            run_filter(&SyscallFilter::for_expressions(), AUDIT_ARCHITECTURE, libc::SYS_openat, 0),
            REFUSED_ACTION
        );
        assert_eq!(run_filter(&filter, AUDIT_ARCHITECTURE ^ 1, libc::SYS_read, 0), libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn limits_are_asked_of_the_process_itself_only() {
        let filter = SyscallFilter::for_interpreter();
        assert_eq!(run_filter(&filter, AUDIT_ARCHITECTURE, libc::SYS_prlimit64, 0), libc::SECCOMP_RET_ALLOW);
        assert_eq!(run_filter(&filter, AUDIT_ARCHITECTURE, libc::SYS_prlimit64, 1), REFUSED_ACTION);
        assert_eq!(run_filter(&filter, AUDIT_ARCHITECTURE, libc::SYS_read, 7), libc::SECCOMP_RET_ALLOW);
    }
}
