//! The launcher: a process that locks itself down, starts the interpreter, and supervises it.
//!
//! It lives as long as the interpreter. If the launcher dies, the kernel kills the interpreter. If the process that
//! runs the block dies, the channel closes and the launcher kills the interpreter. A parent-death signal is not
//! suitable for the launcher: the kernel sends it when the *thread* that started it ends, and threads of a pool come
//! and go.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, geteuid, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
    setsid, waitpid,
};

use super::wire::{HeldMessage, LaunchMessage, StartedMessage};
use crate::frame::{self, PLAIN_MARK};
use crate::lock::error::{LockError, LockStep};
use crate::lock::filter::{END_OF_START_CALL, SyscallFilter};
use crate::lock::raw::{self, ForkSide};
use crate::lock::report::LockReport;
use crate::lock::{files, jail, limits};

/// The exit code of an interpreter that was ended by a signal is this plus the signal's number.
pub(super) const SIGNAL_EXIT_BASE: i32 = 128;

/// Maximum size of the launcher's frame in bytes: a list of files.
const MAX_LAUNCH_BYTES: usize = 16 << 20;

/// Entry point of the launcher.
pub(crate) fn run_launcher() -> ExitCode {
    raw::close_from(3);
    let Ok(Some(frame)) = frame::read_frame(UnbufferedReader(rustix::stdio::stdin()), &PLAIN_MARK, MAX_LAUNCH_BYTES)
    else {
        return ExitCode::FAILURE;
    };
    let Ok(launch) = serde_json::from_slice::<LaunchMessage>(&frame) else { return ExitCode::FAILURE };
    match start_interpreter(&launch) {
        Ok((child, listener)) => supervise_child(child, &listener),
        Err(missing) => {
            report_missing(&launch, rustix::stdio::stdout(), &missing);
            ExitCode::FAILURE
        }
    }
}

/// Reads from a descriptor no more than requested, because the rest belongs to the interpreter.
struct UnbufferedReader<'a>(BorrowedFd<'a>);

impl io::Read for UnbufferedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buffer)?)
    }
}

struct PlainWriter<'a>(BorrowedFd<'a>);

impl io::Write for PlainWriter<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, buffer)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reports the missing requirement on the channel.
fn report_missing(launch: &LaunchMessage, channel: BorrowedFd<'_>, missing: &LockError) {
    let report = serde_json::json!({ "missing": missing.to_string() }).to_string();
    let _ = frame::write_frame(PlainWriter(channel), &launch.mark, report.as_bytes());
}

/// Locks down and forks. Does not return in the child.
fn start_interpreter(launch: &LaunchMessage) -> Result<(Pid, OwnedFd), LockError> {
    launch.cgroup.as_deref().map_or(Ok(()), limits::join_cgroup)?;
    let mut report = LockReport {
        cgroup: launch.cgroup.as_ref().map(|folder| folder.display().to_string()),
        kill_preference_missing: limits::prefer_as_victim().err().map(|error| error.to_string()),
        // As seen from outside, which is not how the interpreter sees it in its own namespaces.
        user_id: geteuid().as_raw(),
        ..LockReport::default()
    };
    let launcher = std::process::id();
    let _ = setsid();
    // Isolated by namespaces, or by Landlock if those are not permitted: one of them must work.
    let namespaces = match launch.kernel.namespaces {
        true => enter_namespaces(launch, launcher, &mut report),
        false => Err(LockError::NamespacesOff),
    };
    report.namespaces_missing = namespaces.as_ref().err().map(ToString::to_string);
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = LockStep::SocketPair.check(pair)?;
    // A number above those that the interpreter uses.
    let theirs = LockStep::SocketPair.check(rustix::io::fcntl_dupfd_cloexec(&theirs, 10))?;
    match LockStep::Fork.check(raw::fork_process())? {
        ForkSide::Parent(child) => {
            drop(theirs);
            match receive_listener(&ours) {
                Some((listener, report)) => {
                    let started = StartedMessage { process: child.as_raw_nonzero().get() };
                    let started = serde_json::to_vec(&started).unwrap_or_default();
                    let _ = frame::write_frame(PlainWriter(rustix::stdio::stdout()), &launch.mark, &started);
                    let _ = frame::write_frame(PlainWriter(rustix::stdio::stdout()), &launch.mark, &report);
                    Ok((child, listener))
                }
                // The child has reported the reason on the channel.
                None => std::process::exit(1),
            }
        }
        ForkSide::Child => {
            drop(ours);
            let error = become_interpreter(launch, Lockdown { launcher, namespaces, report }, &theirs);
            // The standard streams still belong to the channel; nothing was executed.
            report_missing(launch, CHANNEL_OUT.get().map_or(rustix::stdio::stdout(), AsFd::as_fd), &error);
            std::process::exit(1)
        }
    }
}

/// Moves the launcher into namespaces of its own, with the minimal file system.
fn enter_namespaces(launch: &LaunchMessage, launcher: u32, report: &mut LockReport) -> Result<(), LockError> {
    // Root keeps its right to read the interpreter's folder until it drops the privilege.
    if !geteuid().is_root() || jail::leave_namespaces().is_err() {
        // Within a user namespace, root would remain root outside.
        leave_root(launcher, report)?;
        jail::leave_user_namespace()?;
    }
    jail::enter_jail(&launch.view)
}

/// Write end of the channel, once the standard streams are redirected.
static CHANNEL_OUT: std::sync::OnceLock<OwnedFd> = std::sync::OnceLock::new();

/// The protections that the launcher has set up for the interpreter.
struct Lockdown {
    /// The id of the launcher, which is another one in the interpreter's namespace.
    launcher: u32,
    namespaces: Result<(), LockError>,
    report: LockReport,
}

/// Drops all privileges and executes the interpreter. Returns the missing requirement if that fails.
fn become_interpreter(launch: &LaunchMessage, lockdown: Lockdown, listener_to: &OwnedFd) -> LockError {
    if let Err(error) = lock_down(launch, lockdown, listener_to) {
        return error;
    }
    LockStep::Start(launch.view.interpreter.clone()).into_error(interpreter_command(launch).exec())
}

fn lock_down(launch: &LaunchMessage, lockdown: Lockdown, listener_to: &OwnedFd) -> Result<(), LockError> {
    let Lockdown { launcher, namespaces, mut report } = lockdown;
    LockStep::RedirectStreams.check(redirect_streams())?;
    leave_root(launcher, &mut report)?;
    let _ = rustix::thread::set_capabilities(
        None,
        rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        },
    );
    // Set after changing the user, which resets it. The launcher has one thread. If the launcher is dead already,
    // nothing permits the exec below.
    LockStep::SetDeathSignal.check(set_parent_process_death_signal(Some(Signal::KILL)))?;
    LockStep::SetNoNewPrivileges.check(raw::set_no_new_privileges())?;
    report.landlock_abi = restrict_files(launch, namespaces)?;
    limits::set_interpreter_limits(launch.memory_bytes, launch.cpu_seconds)?;
    let installed = SyscallFilter::for_interpreter().install_with_listener();
    let listener = LockStep::InstallFilterWithListener.check(installed)?;
    LockStep::SendListener.check(send_listener(listener_to, &listener, report))
}

/// Becomes an unprivileged user if the process is root, if possible a user of its own.
fn leave_root(launcher: u32, report: &mut LockReport) -> Result<(), LockError> {
    if !geteuid().is_root() {
        return Ok(());
    }
    report.has_own_user = LockStep::LeaveRoot.check(limits::leave_root(limits::worker_id(launcher)))?;
    report.user_id = geteuid().as_raw();
    if geteuid().is_root() { Err(LockError::StillRoot) } else { Ok(()) }
}

/// Restricts the visible files with Landlock, which may fail only if the process is in namespaces of its own. Returns
/// the version of Landlock.
fn restrict_files(launch: &LaunchMessage, namespaces: Result<(), LockError>) -> Result<u32, LockError> {
    let (view, newest) = (&launch.view, launch.kernel.landlock_abi);
    let Err(namespaces) = namespaces else {
        let root = [std::path::Path::new("/")].into_iter();
        return Ok(files::allow_only(newest, root, executable_paths(view)).unwrap_or(0));
    };
    let read = view.files.iter().chain(&view.folders).map(std::path::PathBuf::as_path);
    files::allow_only(newest, read, executable_paths(view))
        .map_err(|landlock| LockError::NotIsolated { namespaces: Box::new(namespaces), landlock: Box::new(landlock) })
}

/// The executable files: the interpreter and its loader.
fn executable_paths(view: &jail::JailView) -> impl Iterator<Item = &std::path::Path> {
    [Some(view.interpreter.as_path()), view.loader.as_deref()].into_iter().flatten()
}

/// The interpreter's command. Its environment contains the library path and nothing else.
fn interpreter_command(launch: &LaunchMessage) -> Command {
    let mut folders: Vec<&str> = Vec::new();
    for folder in launch.view.files.iter().filter_map(|file| file.parent()?.to_str()) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let mut command = Command::new(&launch.view.interpreter);
    command.args(["-I", "-S", "-B", "-X", "utf8", "-c", &launch.boot]);
    command.env_clear().env("LD_LIBRARY_PATH", folders.join(":"));
    command
}

/// Makes the channel descriptors 3 and 4, sends printed text to the log, and provides no input.
fn redirect_streams() -> io::Result<()> {
    let (stdin, stdout, stderr) = (rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr());
    let _ = CHANNEL_OUT.set(rustix::io::fcntl_dupfd_cloexec(stdout, 10)?);
    raw::duplicate_descriptor(stdin, 3)?;
    raw::duplicate_descriptor(stdout, 4)?;
    raw::duplicate_descriptor(stderr, 1)?;
    // The read end of a pipe without a writer: there is no /dev/null here.
    let (nothing, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    raw::duplicate_descriptor(nothing.as_fd(), 0)
}

/// Maximum size of a report of the lock-down, in bytes.
const MAX_REPORT_BYTES: usize = 4 << 10;

/// Hands over the listener, with the report as the interpreter's first frame.
fn send_listener(over: &OwnedFd, listener: &OwnedFd, held: LockReport) -> io::Result<()> {
    let report = serde_json::to_vec(&HeldMessage { held })?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(over, &[IoSlice::new(&report)], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

fn receive_listener(from: &OwnedFd) -> Option<(OwnedFd, Vec<u8>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut report = vec![0; MAX_REPORT_BYTES];
    let received = recvmsg(from, &mut [IoSliceMut::new(&mut report)], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    report.truncate(received.bytes);
    let listener = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })?;
    Some((listener, report))
}

/// Decides about the calls that the filter reports.
#[derive(Default)]
struct CallDecisions {
    has_started: bool,
    runs_untrusted_code: bool,
}

impl CallDecisions {
    /// Permits the first exec, and executable memory until the runner ends the start.
    fn is_allowed(&mut self, call: libc::c_long) -> bool {
        match call {
            libc::SYS_execve => !std::mem::replace(&mut self.has_started, true),
            libc::SYS_mmap | libc::SYS_mprotect => !self.runs_untrusted_code,
            // The runner's message, which is not performed.
            END_OF_START_CALL => {
                self.runs_untrusted_code = true;
                false
            }
            _ => false,
        }
    }
}

/// Decides about reported calls, and waits until either side ends.
fn supervise_child(child: Pid, listener: &OwnedFd) -> ExitCode {
    let Ok(process) = pidfd_open(child, PidfdFlags::empty()) else { return ExitCode::FAILURE };
    let channel = rustix::stdio::stdin();
    // Only the interpreter's own ends keep the channel and the log open.
    let (nothing, _writer) = match rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) {
        Ok(pipe) => pipe,
        Err(_) => return ExitCode::FAILURE,
    };
    let _ = raw::duplicate_descriptor(nothing.as_fd(), 1);
    let _ = raw::duplicate_descriptor(nothing.as_fd(), 2);
    let mut decisions = CallDecisions::default();
    loop {
        let mut polled = [
            PollFd::from_borrowed_fd(channel, PollFlags::empty()),
            PollFd::new(&process, PollFlags::IN),
            PollFd::new(listener, PollFlags::IN),
        ];
        match poll(&mut polled, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
        let [gone, ended, asks] = polled.map(|polled| polled.revents());
        if gone.intersects(PollFlags::HUP | PollFlags::ERR) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
        if asks.contains(PollFlags::IN) {
            if let Ok(call) = raw::receive_call(listener.as_fd()) {
                let _ = raw::decide_call(listener.as_fd(), &call, decisions.is_allowed(call.call));
            }
        } else if ended.contains(PollFlags::IN) {
            return exit_code_of(child);
        }
    }
}

fn exit_code_of(child: Pid) -> ExitCode {
    let Ok(Some((_, status))) = waitpid(Some(child), WaitOptions::empty()) else { return ExitCode::FAILURE };
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| SIGNAL_EXIT_BASE + signal));
    ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(u8::MAX))
}
