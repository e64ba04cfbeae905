//! Canaries: what an attack would find, reach, change or leave behind if it escaped.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use flowloom_core::error::StepFailure;
use flowloom_core::json;
use flowloom_runtime::effects::CodeRunner as _;
use flowloom_sandbox::{KernelFeatures, Sandbox, SandboxConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{AnsweringRun, WORKER_VARIABLE, context_of, execute_body, python_request, skip_test, test_config};

/// A sandbox, and canaries outside it that must not be touched.
pub struct GuardedSandbox {
    pub sandbox: Sandbox,
    pub file: PathBuf,
    pub port: u16,
    pub socket: String,
    pub name: &'static str,
    folder: tempfile::TempDir,
    listener: TcpListener,
    unix: UnixListener,
    /// A process of the user that runs the tests, which ends when its input does.
    victim: Mutex<Child>,
    memory_bytes: u64,
}

/// A machine that blocks are tested on, made from this one by leaving features of its kernel out.
struct Environment {
    name: &'static str,
    kernel: KernelFeatures,
}

/// The machines, from the strongest to the weakest. Landlock has ABI 1 since Linux 5.13, 3 since 6.2, 5 since 6.10 and 6
/// since 6.12.
const ENVIRONMENTS: [Environment; 6] = [
    environment("namespaces and Landlock", true, 6),
    environment("namespaces", true, 0),
    environment("Landlock ABI 6", false, 6),
    environment("Landlock ABI 5", false, 5),
    environment("Landlock ABI 3", false, 3),
    environment("Landlock ABI 1", false, 1),
];

const fn environment(name: &'static str, namespaces: bool, landlock_abi: u32) -> Environment {
    Environment { name, kernel: KernelFeatures { namespaces, landlock_abi } }
}

impl Environment {
    /// Why this machine cannot be one like this; `None` if it can.
    async fn find_obstacle(&self, sandbox: &Sandbox) -> Option<String> {
        let available = sandbox.check_availability().await;
        if let Err(missing) = available.python {
            return Some(missing);
        }
        let listed = |name: &str| available.protections.iter().find(|it| it.name == name).expect("a protection");
        let has_landlock = |abi: u32| match abi {
            0 => !listed("Landlock").is_active,
            abi => listed("Landlock").detail == format!("ABI {abi}"),
        };
        let is_there = listed("namespaces").is_active == self.kernel.namespaces;
        (!is_there || !has_landlock(self.kernel.landlock_abi)).then(|| format!("{:?}", available.protections))
    }
}

/// Content of the file, which an attack must not learn.
const FILE_CONTENT: &str = "canary-of-the-file-5Jq";

/// A limit of memory that no other process on this machine has: it marks a sandbox's processes, and whatever they start.
struct MemoryMark {
    memory_bytes: u64,
    /// The name of the socket, which only one process can hold, says that the limit is taken.
    socket: String,
    unix: UnixListener,
}

impl MemoryMark {
    /// Takes the first free limit above the given one.
    fn take_above(memory_bytes: u64) -> MemoryMark {
        let start = u64::from(std::process::id());
        for number in (start..start + MARK_COUNT).map(|number| number % MARK_COUNT) {
            let memory_bytes = memory_bytes + (number << 12);
            let socket = format!("flowloom-canary-{memory_bytes}");
            let address = SocketAddr::from_abstract_name(&socket).expect("a name");
            match UnixListener::bind_addr(&address) {
                Ok(unix) => return MemoryMark { memory_bytes, socket, unix },
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => panic!("a socket: {error}"),
            }
        }
        panic!("no limit is free");
    }
}

/// Number of limits, one page apart.
const MARK_COUNT: u64 = 0x10000;

/// A sandbox for each environment; each must hold alone.
pub async fn guarded_sandboxes(change: impl Fn(&mut SandboxConfig)) -> Vec<GuardedSandbox> {
    let mut all = Vec::new();
    for environment in &ENVIRONMENTS {
        let name = environment.name;
        let mut config = test_config();
        config.kernel = environment.kernel;
        config.python.warm = 0;
        change(&mut config);
        let mark = MemoryMark::take_above(config.python.memory_bytes);
        config.python.memory_bytes = mark.memory_bytes;
        let sandbox = Sandbox::new(config);
        if let Some(obstacle) = environment.find_obstacle(&sandbox).await {
            skip_test(&format!("{name} cannot be tested here: {obstacle}"));
            continue;
        }
        // The first interpreter was started by the probe and is waiting.
        super::run_block(&sandbox, &execute_body("return {}")).await.expect("an ordinary block");
        check_user(&sandbox, name).await;
        all.push(GuardedSandbox::with_canaries(sandbox, name, mark));
    }
    all
}

/// Prints the user that blocks run as. It is theirs alone if the tests run as root, and must be that of the tests if only
/// root could give them another.
async fn check_user(sandbox: &Sandbox, name: &str) {
    let protections = sandbox.check_availability().await.protections;
    let user = protections.iter().find(|it| it.name == "own user").expect("a protection");
    println!("{USER_LINE}{name}: {}", user.detail);
    let own = rustix::process::geteuid();
    let id = user.detail.split(|letter: char| !letter.is_ascii_digit()).find_map(|id| id.parse::<u32>().ok());
    match own.is_root() {
        true => assert!(user.is_active && id.is_some_and(|id| id >= FIRST_WORKER_ID), "{name}: {user:?}"),
        false => assert!(!user.is_active && id == Some(own.as_raw()), "{name}: {user:?}"),
    }
}

/// The first of the ids that only workers have.
const FIRST_WORKER_ID: u32 = 2_100_000_000;

/// Start of the lines that say which user blocks run as.
const USER_LINE: &str = "USER of blocks, ";

impl GuardedSandbox {
    fn with_canaries(sandbox: Sandbox, name: &'static str, mark: MemoryMark) -> GuardedSandbox {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("canary");
        fs::write(&file, FILE_CONTENT).expect("a canary");
        // Readable by anyone who gets there.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("permissions");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("permissions");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a listener");
        let MemoryMark { memory_bytes, socket, unix } = mark;
        unix.set_nonblocking(true).expect("a listener");
        let port = listener.local_addr().expect("a port").port();
        let victim = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("a process");
        let victim = Mutex::new(victim);
        GuardedSandbox { sandbox, file, port, socket, name, folder, listener, unix, victim, memory_bytes }
    }

    /// Runs an attack with the names of its targets, and checks that it reached none of them.
    pub async fn run_attack(&self, source: &str) -> Result<String, StepFailure> {
        let inputs = format!(
            "{{\"file\":{},\"port\":{},\"socket\":{},\"victim\":{}}}",
            json::write_json(&self.file.display().to_string().into()),
            self.port,
            json::write_json(&self.socket.as_str().into()),
            self.victim.lock().expect("a lock").id(),
        );
        let request = python_request(source, &inputs);
        let reply = self.sandbox.run_python(&request, &AnsweringRun::default(), &context_of("local")).await;
        let outcome = reply.map(|reply| json::write_json(&reply.output));
        let printed = match &outcome {
            Ok(output) => output.clone(),
            Err(error) => error.message.clone(),
        };
        self.check_canaries(&printed, source);
        outcome
    }

    /// Checks that nothing was read, reached, changed or left behind.
    fn check_canaries(&self, printed: &str, source: &str) {
        let name = self.name;
        assert!(!printed.contains(FILE_CONTENT), "{name}: the file was read: {source}\n{printed}");
        for (key, value) in std::env::vars().filter(|(_, value)| value.len() > 8) {
            assert!(!printed.contains(&value), "{name}: ${key} was read: {source}\n{printed}");
        }
        assert_eq!(fs::read_to_string(&self.file).expect("the canary"), FILE_CONTENT, "{name}: {source}");
        assert_eq!(fs::read_dir(self.folder.path()).expect("the folder").count(), 1, "{name}: {source}");
        let reached = self.listener.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(reached, Err(ErrorKind::WouldBlock), "{name}: the port was reached: {source}");
        let reached = self.unix.accept().map(|_| ()).map_err(|error| error.kind());
        assert_eq!(reached, Err(ErrorKind::WouldBlock), "{name}: the socket was reached: {source}");
        let ended = self.victim.lock().expect("a lock").try_wait().expect("a child");
        assert_eq!(ended, None, "{name}: another process was ended: {source}");
        self.wait_until_gone(source);
    }

    /// Checks that the next block is served, whatever ran before.
    pub async fn check_next_block(&self) {
        let next = super::run_block(&self.sandbox, &execute_body("return {'next': 1}")).await;
        assert_eq!(next.as_deref(), Ok("{\"next\":1}"), "{}", self.name);
        self.wait_until_gone("an ordinary block");
    }

    /// Waits until no process of this sandbox's blocks exists.
    pub fn wait_until_gone(&self, source: &str) {
        wait_for_none(self.memory_bytes, &format!("{}: {source}", self.name));
    }

    pub fn has_namespaces(&self) -> bool {
        self.name.starts_with("namespaces")
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

/// Waits until no process with this limit exists. A killed process ends as soon as the kernel gets to it.
pub fn wait_for_none(memory_bytes: u64, what: &str) {
    let since = Instant::now();
    while let Some(id) = processes_with(memory_bytes).first().and_then(|id| Pid::from_raw(*id as i32)) {
        assert!(since.elapsed() < Duration::from_secs(30), "process {id:?} is left: {what}");
        // The descriptor reports the end of the process; one that has ended already needs no waiting.
        if let Ok(process) = pidfd_open(id, PidfdFlags::empty()) {
            let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout));
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
    fs::copy(test_config().worker, &worker).expect("a copy");
    let mut command = Command::new(tests);
    command.args(["--test-threads=2", "--nocapture"]).env(WORKER_VARIABLE, worker).current_dir("/").uid(1000).gid(1000);
    let output = command.output().expect("the tests start");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);

    assert!(output.status.success(), "as an ordinary user:\n{printed}\n{errors}");
    for line in printed.lines().filter(|line| line.starts_with("SKIP") || line.starts_with(USER_LINE)) {
        println!("{line} (as an ordinary user)");
    }
}

/// A script that anyone may execute.
pub fn write_executable(path: &std::path::Path, text: &str) {
    fs::write(path, text).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
    let folder = path.parent().expect("a folder");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("permissions");
}
