//! Runs the filters on calls, as the kernel would.

use super::*;

/// Result of a filter for a call with arguments; those that are not given are 0.
fn run_filter(filter: &SyscallFilter, architecture: u32, call: c_long, arguments: &[u64]) -> u32 {
    let (mut at, mut loaded) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = filter.program[at];
        at += 1;
        match u32::from(code) {
            code if code == libc::BPF_RET | libc::BPF_K => return k,
            code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => {
                at += usize::from(if loaded == k { jt } else { jf });
            }
            code if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K => {
                at += usize::from(if loaded & k != 0 { jt } else { jf });
            }
            code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                loaded = match k {
                    CALL_OFFSET => call as u32,
                    ARCH_OFFSET => architecture,
                    offset => read_argument(arguments, offset),
                };
            }
            code => panic!("no rule uses the instruction {code:#x}"),
        }
    }
}

/// The half of an argument at an offset of the data that a filter reads.
fn read_argument(arguments: &[u64], offset: u32) -> u32 {
    let place = offset.checked_sub(FIRST_ARGUMENT_OFFSET).expect("the offset of an argument");
    let argument = arguments.get((place / ARGUMENT_BYTES) as usize).copied().unwrap_or_default();
    if place.is_multiple_of(ARGUMENT_BYTES) { argument as u32 } else { (argument >> 32) as u32 }
}

fn interpreter_result(call: c_long, arguments: &[u64]) -> u32 {
    run_filter(&SyscallFilter::for_interpreter(), AUDIT_ARCHITECTURE, call, arguments)
}

fn expression_result(call: c_long, arguments: &[u64]) -> u32 {
    run_filter(&SyscallFilter::for_expressions(), AUDIT_ARCHITECTURE, call, arguments)
}

#[test]
fn what_is_not_named_is_refused() {
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
        libc::SYS_pkey_mprotect,
        libc::SYS_personality,
        libc::SYS_shmat,
        // A call of a future kernel, and one of the x32 interface.
        9999,
        0x4000_0000,
    ];
    for call in dangerous {
        assert_eq!(interpreter_result(call, &[]), REFUSED_ACTION, "{call}");
        assert_eq!(expression_result(call, &[]), REFUSED_ACTION, "{call}");
    }
    assert_eq!(interpreter_result(libc::SYS_clone3, &[]), UNKNOWN_ACTION);
    assert_eq!(interpreter_result(libc::SYS_execve, &[]), libc::SECCOMP_RET_USER_NOTIF);
    for call in [libc::SYS_execve, libc::SYS_openat, libc::SYS_fcntl] {
        assert_eq!(expression_result(call, &[]), REFUSED_ACTION, "{call}");
    }
    let filter = SyscallFilter::for_interpreter();
    assert_eq!(run_filter(&filter, AUDIT_ARCHITECTURE ^ 1, libc::SYS_read, &[]), libc::SECCOMP_RET_KILL_PROCESS);
}

#[test]
fn limits_are_asked_of_the_process_itself_only() {
    assert_eq!(interpreter_result(libc::SYS_prlimit64, &[0]), libc::SECCOMP_RET_ALLOW);
    assert_eq!(interpreter_result(libc::SYS_prlimit64, &[1]), REFUSED_ACTION);
    assert_eq!(interpreter_result(libc::SYS_read, &[7]), libc::SECCOMP_RET_ALLOW);
}

#[test]
fn descriptors_are_copied_and_described_and_send_no_signals() {
    let result = |command: libc::c_int, value: libc::c_int| {
        interpreter_result(libc::SYS_fcntl, &[3, command as u64, value as u64])
    };
    for command in DESCRIPTOR_COMMANDS {
        assert_eq!(result(*command, 0), libc::SECCOMP_RET_ALLOW, "{command}");
    }
    assert_eq!(result(libc::F_SETFL, libc::O_NONBLOCK), libc::SECCOMP_RET_ALLOW);
    assert_eq!(result(libc::F_SETFL, libc::O_NONBLOCK | libc::O_ASYNC), REFUSED_ACTION);
    let allowed = |command: &libc::c_int| DESCRIPTOR_COMMANDS.contains(command) || *command == libc::F_SETFL;
    // Linux has numbered its commands up to 16, and its own from 1024 on.
    for command in (-1..64).chain(1000..1100).filter(|command| !allowed(command)) {
        assert_eq!(result(command, 0), REFUSED_ACTION, "{command}");
    }
    // The kernel reads the lower half of a command, and so does the filter.
    let above = 1 << 32;
    assert_eq!(interpreter_result(libc::SYS_fcntl, &[3, above | libc::F_SETOWN as u64, 1]), REFUSED_ACTION);
}

#[test]
fn memory_is_never_writable_and_executable() {
    let (read, write, execute) = (libc::PROT_READ as u64, libc::PROT_WRITE as u64, libc::PROT_EXEC as u64);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        for protection in [0, read, write, read | write] {
            assert_eq!(interpreter_result(call, &[0, 1, protection]), libc::SECCOMP_RET_ALLOW, "{protection}");
            assert_eq!(expression_result(call, &[0, 1, protection]), libc::SECCOMP_RET_ALLOW, "{protection}");
        }
        for protection in [execute, read | execute] {
            assert_eq!(interpreter_result(call, &[0, 1, protection]), libc::SECCOMP_RET_USER_NOTIF, "{protection}");
        }
        for protection in [write | execute, read | write | execute, 1 << 40 | write | execute] {
            assert_eq!(interpreter_result(call, &[0, 1, protection]), REFUSED_ACTION, "{protection}");
        }
        for protection in [execute, read | execute, write | execute] {
            assert_eq!(expression_result(call, &[0, 1, protection]), REFUSED_ACTION, "{protection}");
        }
    }
}
