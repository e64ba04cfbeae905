//! Canaries: what an attack would find, reach, change or leave behind if it escaped.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flowloom_core::error::StepError;
use flowloom_core::json;
use flowloom_runtime::effects::Code as _;
use flowloom_sandbox::{Isolation, Sandbox, SandboxConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Run, WORKER, block, body, config, run_of, skip};

/// A sandbox, and canaries outside it that must not be touched.
pub struct Guarded {
    pub sandbox: Sandbox,
    pub file: PathBuf,
    pub port: u16,
    pub socket: String,
    name: &'static str,
    folder: tempfile::TempDir,
    listener: TcpListener,
    unix: UnixListener,
    memory_bytes: u64,
}

/// Content of the file, which an attack must not learn.
const IN_THE_FILE: &str = "canary-of-the-file-5Jq";

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Every isolation that works on this machine; each must hold alone.
pub async fn guarded(change: impl Fn(&mut SandboxConfig)) -> Vec<Guarded> {
    let mut all = Vec::new();
    for (name, isolation) in [("namespaces", Isolation::Best), ("Landlock", Isolation::Landlock)] {
        let mut config = config();
        config.isolation = isolation;
        // No other process has this limit: it marks ours, and whatever they start.
        let unique = u64::from(std::process::id()) * 64 + NEXT.fetch_add(1, Ordering::Relaxed);
        config.python.memory_bytes += (unique & 0xffff) << 12;
        config.python.warm = 0;
        change(&mut config);
        let memory_bytes = config.python.memory_bytes;
        let sandbox = Sandbox::new(config);
        match sandbox.available().await.python {
            Ok(how) if how.contains(&format!("seccomp, {name}")) => {
                // The first interpreter was started by the probe and is waiting.
                super::run(&sandbox, &body("return {}")).await.expect("an ordinary block");
                all.push(Guarded::around(sandbox, name, memory_bytes));
            }
            Ok(how) => skip(&format!("{name} cannot be tested here: {how}")),
            Err(missing) => skip(&format!("{name}: {missing}")),
        }
    }
    all
}

impl Guarded {
    fn around(sandbox: Sandbox, name: &'static str, memory_bytes: u64) -> Guarded {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("canary");
        fs::write(&file, IN_THE_FILE).expect("a canary");
        // Readable by anyone who gets there.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("permissions");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("permissions");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let socket = format!("flowloom-canary-{memory_bytes}");
        let address = SocketAddr::from_abstract_name(&socket).expect("a name");
        let unix = UnixListener::bind_addr(&address).expect("a socket");
        unix.set_nonblocking(true).expect("a listener");
        let port = listener.local_addr().expect("a port").port();
        Guarded { sandbox, file, port, socket, name, folder, listener, unix, memory_bytes }
    }

    /// Runs an attack with the names of its targets, and checks that it reached none of them.
    pub async fn attack(&self, source: &str) -> Result<String, StepError> {
        let inputs = format!(
            "{{\"file\":{},\"port\":{},\"socket\":{}}}",
            json::write(&self.file.display().to_string().into()),
            self.port,
            json::write(&self.socket.as_str().into()),
        );
        let request = block(source, &inputs);
        let reply = self.sandbox.python(&request, &Run::default(), &run_of("local")).await;
        let outcome = reply.map(|reply| json::write(&reply.output));
        let said = match &outcome {
            Ok(output) => output.clone(),
            Err(error) => error.message.clone(),
        };
        self.untouched(&said, source);
        outcome
    }

    /// Checks that nothing was read, reached, changed or left behind.
    fn untouched(&self, said: &str, source: &str) {
        let name = self.name;
        assert!(!said.contains(IN_THE_FILE), "{name}: the file was read: {source}\n{said}");
        for (key, value) in std::env::vars().filter(|(_, value)| value.len() > 8) {
            assert!(!said.contains(&value), "{name}: ${key} was read: {source}\n{said}");
        }
        assert_eq!(fs::read_to_string(&self.file).expect("the canary"), IN_THE_FILE, "{name}: {source}");
        assert_eq!(fs::read_dir(self.folder.path()).expect("the folder").count(), 1, "{name}: {source}");
        let reached = self.listener.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(reached, Err(ErrorKind::WouldBlock), "{name}: the port was reached: {source}");
        let reached = self.unix.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(reached, Err(ErrorKind::WouldBlock), "{name}: the socket was reached: {source}");
        self.nobody_is_left(source);
    }

    /// Checks that the next block is served, whatever ran before.
    pub async fn serves(&self) {
        let next = super::run(&self.sandbox, &body("return {'next': 1}")).await;
        assert_eq!(next.as_deref(), Ok("{\"next\":1}"), "{}", self.name);
        self.nobody_is_left("an ordinary block");
    }

    /// Waits until no process of this sandbox's blocks exists.
    pub fn nobody_is_left(&self, source: &str) {
        wait_for_none(self.memory_bytes, &format!("{}: {source}", self.name));
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

/// Waits until no process with this limit exists. A killed process ends as soon as the kernel gets to it.
pub fn wait_for_none(memory_bytes: u64, what: &str) {
    let since = Instant::now();
    while let Some(id) = processes_with(memory_bytes).first().and_then(|id| Pid::from_raw(*id as i32)) {
        assert!(since.elapsed() < Duration::from_secs(5), "process {id:?} is left: {what}");
        // The descriptor reports the end of the process; one that has ended already needs no waiting.
        if let Ok(process) = pidfd_open(id, PidfdFlags::empty()) {
            let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience));
        }
    }
}

/// Processes whose address space has exactly this limit.
pub fn processes_with(memory_bytes: u64) -> Vec<u32> {
    let bound = memory_bytes.to_string();
    let ids = fs::read_dir("/proc").expect("/proc").flatten();
    ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|id: &u32| {
            let limits = fs::read_to_string(format!("/proc/{id}/limits")).unwrap_or_default();
            limits.lines().any(|line| line.starts_with("Max address space") && line.contains(&bound))
        })
        .collect()
}

/// Runs every test of this file again as an ordinary user, if the tests run as root.
pub fn again_as_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Where the user can reach it: the build's folder may be closed to others.
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    let (tests, worker) = (folder.path().join("tests"), folder.path().join("worker"));
    fs::copy(std::env::current_exe().expect("this file"), &tests).expect("a copy");
    fs::copy(config().worker, &worker).expect("a copy");
    let mut command = Command::new(tests);
    command.arg("--test-threads=2").env(WORKER, worker).current_dir("/").uid(1000).gid(1000);
    let output = command.output().expect("the tests start");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);

    assert!(output.status.success(), "as an ordinary user:\n{said}\n{errors}");
    for line in said.lines().filter(|line| line.starts_with("SKIP")) {
        println!("{line} (as an ordinary user)");
    }
}

/// A script that anyone may execute.
pub fn executable(path: &std::path::Path, text: &str) {
    fs::write(path, text).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
    let folder = path.parent().expect("a folder");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("permissions");
}
