//! The system call filter (seccomp). Every call that is not listed is refused, including calls of future kernels.
//!
//! Calls with several operations are listed with the operations that are allowed (`fcntl`) or with the bits that are not
//! (`mmap`). `prctl`, `ioctl` and `clone` are not allowed with any argument.

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
const ARGUMENT_BYTES: u32 = 8;

/// Position of the command of `fcntl` among its arguments, and of the command's own argument.
const FCNTL_COMMAND: u32 = 1;
const FCNTL_VALUE: u32 = 2;
/// Position of the protection of `mmap` and `mprotect`.
const MEMORY_PROTECTION: u32 = 2;

/// Result of calls that are not listed.
const REFUSED_ACTION: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
/// Result of calls that libraries try first and can do without.
const UNKNOWN_ACTION: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// Memory, time and open descriptors: enough to compute and to answer.
const COMPUTE_CALLS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_munmap,
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

/// System calls that an interpreter needs in addition: to read its library, sleep, and inspect itself. None of these
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

/// The operation of `arch_prctl` with which libc sets up the memory of a thread.
#[cfg(target_arch = "x86_64")]
const ARCH_SET_FS: libc::c_int = 0x1002;

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
];
#[cfg(target_arch = "aarch64")]
const LEGACY_CALLS: &[c_long] = &[];

/// Commands of `fcntl` that copy a descriptor or describe it. The others reach further: a signal to another process
/// (`F_SETOWN` with `F_SETSIG`), the size of a pipe, leases, notifications.
const DESCRIPTOR_COMMANDS: &[libc::c_int] =
    &[libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];

/// The call with which the runner announces to the launcher that untrusted code comes next. The launcher never performs
/// it.
pub(crate) const END_OF_START_CALL: c_long = libc::SYS_sync;

/// The answer to a request for executable memory. Memory that is also writable is refused in each case.
#[derive(Clone, Copy)]
enum ExecutableMemory {
    /// Never: the program is complete.
    Refused,
    /// The launcher decides, which permits it until untrusted code runs: an interpreter loads libraries.
    Reported,
}

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
        filter.add_memory_rules(ExecutableMemory::Refused);
        filter.allow_calls(&[libc::SYS_setitimer]);
        filter.return_action(REFUSED_ACTION);
        filter
    }

    /// Filter of an interpreter. Every exec is reported to the launcher, which permits the one that starts the
    /// interpreter. So is executable memory, which the launcher permits until the runner ends the start.
    pub(crate) fn for_interpreter() -> SyscallFilter {
        let mut filter = SyscallFilter::new();
        filter.allow_calls(COMPUTE_CALLS);
        filter.allow_calls(INTERPRETER_CALLS);
        filter.allow_calls(LEGACY_CALLS);
        filter.add_memory_rules(ExecutableMemory::Reported);
        filter.add_descriptor_rule();
        filter.add_rule(libc::SYS_execve, libc::SECCOMP_RET_USER_NOTIF);
        filter.add_rule(END_OF_START_CALL, libc::SECCOMP_RET_USER_NOTIF);
        // There is no socket to send on, except the one that transfers the listener and is closed by exec.
        filter.add_rule(libc::SYS_sendmsg, libc::SECCOMP_RET_ALLOW);
        // On the process itself.
        filter.allow_with_argument(libc::SYS_prlimit64, 0, &[0]);
        #[cfg(target_arch = "x86_64")]
        filter.allow_with_argument(libc::SYS_arch_prctl, 0, &[ARCH_SET_FS]);
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

    /// Adds a rule whose result depends on arguments: `decide` adds instructions that return a result in each case.
    fn add_rule_with_arguments(&mut self, call: c_long, decide: impl FnOnce(&mut SyscallFilter)) {
        let jump = self.program.len();
        self.jump_if_equal(call as u32, 0, 0);
        decide(self);
        let length = self.program.len() - jump - 1;
        debug_assert!(length <= usize::from(u8::MAX), "a jump over {length} instructions");
        self.program[jump].jf = length as u8;
    }

    /// Loads the lower half of an argument. Each argument that a rule looks at is an `int` in the kernel, or has no
    /// meaning in its upper half, so the upper half changes nothing.
    fn load_argument(&mut self, position: u32) {
        self.load_word(FIRST_ARGUMENT_OFFSET + position * ARGUMENT_BYTES);
    }

    /// Permits a call if an argument has one of these values.
    fn allow_with_argument(&mut self, call: c_long, position: u32, values: &[libc::c_int]) {
        self.add_rule_with_arguments(call, |filter| {
            filter.load_argument(position);
            filter.allow_loaded(values);
            filter.return_action(REFUSED_ACTION);
        });
    }

    /// Permits the call if the loaded argument has one of these values.
    fn allow_loaded(&mut self, values: &[libc::c_int]) {
        for value in values {
            self.jump_if_equal(*value as u32, 0, 1);
            self.return_action(libc::SECCOMP_RET_ALLOW);
        }
    }

    /// Returns a result if the loaded argument has one of these bits.
    fn return_if_any_bit(&mut self, bits: libc::c_int, answer: u32) {
        self.push_instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits as u32);
        self.return_action(answer);
    }

    /// Permits the harmless commands of `fcntl`. Status flags may be set, except for `O_ASYNC`, which sends signals.
    fn add_descriptor_rule(&mut self) {
        self.add_rule_with_arguments(libc::SYS_fcntl, |filter| {
            filter.load_argument(FCNTL_COMMAND);
            filter.allow_loaded(DESCRIPTOR_COMMANDS);
            filter.jump_if_equal(libc::F_SETFL as u32, 1, 0);
            filter.return_action(REFUSED_ACTION);
            filter.load_argument(FCNTL_VALUE);
            filter.return_if_any_bit(libc::O_ASYNC, REFUSED_ACTION);
            filter.return_action(libc::SECCOMP_RET_ALLOW);
        });
    }

    /// Permits memory that is not executable. Memory is never both writable and executable.
    fn add_memory_rules(&mut self, executable: ExecutableMemory) {
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            self.add_rule_with_arguments(call, |filter| {
                filter.load_argument(MEMORY_PROTECTION);
                filter.push_instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 1, 0, libc::PROT_EXEC as u32);
                filter.return_action(libc::SECCOMP_RET_ALLOW);
                filter.return_if_any_bit(libc::PROT_WRITE, REFUSED_ACTION);
                filter.return_action(match executable {
                    ExecutableMemory::Refused => REFUSED_ACTION,
                    ExecutableMemory::Reported => libc::SECCOMP_RET_USER_NOTIF,
                });
            });
        }
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
#[path = "filter_tests.rs"]
mod tests;
