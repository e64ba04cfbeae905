//! A real Restate server for tests, from the package that `scripts/fetch-restate.sh` fetches. Workers of different tests have
//! the same services, so each test starts a server of its own. The server ends with the test, however that ends.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The first port of tests, above those of well-known services.
const FIRST_PORT: u16 = 12_000;

/// Ports of a process. The last port of all rows is below 32,768, the first that Linux chooses by itself.
const PORTS_IN_ROW: u16 = 20;

/// Rows of ports.
const PORT_ROWS: u16 = 1_000;

/// Ends the server when the test does: then the other end of the pipe is closed.
const WATCH_SCRIPT: &str = r#"
"$@" </dev/null &
server=$!
echo "$server" >pid
read -r line
kill -9 "$server"
wait "$server"
"#;

/// A server and its data.
pub struct RestateServer {
    folder: TempDir,
    program: PathBuf,
    ingress: SocketAddr,
    admin: SocketAddr,
    fabric: SocketAddr,
    /// `None` while the server is down.
    watcher: Option<Child>,
}

impl RestateServer {
    /// Starts a server without data. Without the package it prints the reason and returns `None`, or panics if
    /// `FLOWLOOM_REQUIRE_RESTATE` is set.
    #[allow(clippy::print_stderr)]
    pub fn start_server() -> Option<RestateServer> {
        let Some(program) = find_program() else {
            let why = "Restate is not installed; download it with scripts/fetch-restate.sh";
            assert!(std::env::var_os("FLOWLOOM_REQUIRE_RESTATE").is_none(), "{why}");
            eprintln!("SKIP: {why}");
            return None;
        };
        let folder = TempDir::with_prefix("restate-").expect("a folder");
        let [ingress, admin, fabric] = free_addresses();
        let mut server = RestateServer { folder, program, ingress, admin, fabric, watcher: None };
        server.write_config();
        server.start_again();
        Some(server)
    }

    /// The address of its ingress.
    pub fn ingress(&self) -> String {
        format!("http://{}", self.ingress)
    }

    /// The address of its admin API.
    pub fn admin(&self) -> String {
        format!("http://{}", self.admin)
    }

    /// The folder of its data.
    pub fn data_folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Ends the server with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut watcher) = self.watcher.take() {
            drop(watcher.stdin.take());
            watcher.wait().expect("the watcher ends");
        }
    }

    /// Starts the server on its data, and waits until it answers.
    pub fn start_again(&mut self) {
        self.kill();
        let mut watcher = Command::new("sh");
        watcher.args(["-c", WATCH_SCRIPT, "watch"]).arg(&self.program).args(["--no-logo", "--listen-mode", "tcp"]);
        watcher.current_dir(self.folder.path());
        watcher.arg("--config-file").arg(self.folder.path().join("restate.toml"));
        let log = std::fs::File::options().create(true).append(true).open(self.folder.path().join("log"));
        let log = log.expect("a log");
        watcher.env("RUST_LOG", "error").stdin(Stdio::piped());
        watcher.stdout(log.try_clone().expect("the log")).stderr(log);
        self.watcher = Some(watcher.spawn().expect("a shell"));
        let started = Instant::now();
        while !(answers(self.ingress, "/restate/health") && answers(self.admin, "/health")) {
            assert!(started.elapsed() < START_TIMEOUT, "Restate does not start: {}", self.read_log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Pauses the server for a time.
    pub fn pause(&self, duration: Duration) {
        self.hang();
        std::thread::sleep(duration);
        self.send_signal("-CONT");
    }

    /// Stops the server until [`RestateServer::pause`] continues it.
    pub fn hang(&self) {
        self.send_signal("-STOP");
    }

    fn send_signal(&self, name: &str) {
        let id = std::fs::read_to_string(self.folder.path().join("pid")).expect("the server's id");
        let sent = Command::new("kill").args([name, id.trim()]).status().expect("kill runs");
        assert!(sent.success(), "there is no server {id}");
    }

    /// Starts the server without its data.
    pub fn start_empty(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.data_folder()).expect("removed");
        self.start_again();
    }

    /// Kills all workflows and calls with the server's own tools. Returns how many there were.
    pub fn kill_invocations(&self) -> usize {
        let query = r#"{"query": "select id from sys_invocation where status <> 'completed'"}"#;
        let listed = self.call_admin("POST", "/query", query);
        let ids: BTreeSet<&str> = listed
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .filter(|word| word.starts_with("inv_"))
            .collect();
        for id in &ids {
            self.call_admin("PATCH", &format!("/invocations/{id}/kill"), "");
        }
        ids.len()
    }

    /// Sends a request to the admin API. Returns the answer with its head.
    fn call_admin(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.admin).expect("the admin API");
        let (host, length) = (self.admin, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: application/json\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut answer = String::new();
        stream.write_all(request.as_bytes()).expect("sent");
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// The log of the server.
    pub fn read_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Small memories and few partitions: a test has few runs.
    fn write_config(&self) {
        let RestateServer { folder, ingress, admin, fabric, .. } = self;
        let config = format!(
            "disable-telemetry = true\ndefault-num-partitions = 2\nrocksdb-total-memory-size = \"64 MiB\"\n\
             node-name = \"test\"\nbind-ip = \"127.0.0.1\"\nbind-port = {}\nbase-dir = {:?}\n\
             [ingress]\nbind-address = \"{ingress}\"\n[admin]\nbind-address = \"{admin}\"\n",
            fabric.port(),
            self.data_folder(),
        );
        std::fs::write(folder.path().join("restate.toml"), config).expect("a file");
    }
}

impl Drop for RestateServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Addresses of this machine with unused ports. The system does not choose such ports for connections or for
/// listeners, so that none is taken before its use; each process has a row of its own.
pub fn free_addresses<const COUNT: usize>() -> [SocketAddr; COUNT] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let row = u16::try_from(std::process::id() % u32::from(PORT_ROWS)).expect("a row");
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok();
    let choose = |_| {
        let candidates = (0..PORT_ROWS * PORTS_IN_ROW).map(|_| {
            let at = (row * PORTS_IN_ROW + NEXT.fetch_add(1, Ordering::Relaxed)) % (PORT_ROWS * PORTS_IN_ROW);
            SocketAddr::from(([127, 0, 0, 1], FIRST_PORT + at))
        });
        candidates.into_iter().find(is_free).expect("a free port")
    };
    std::array::from_fn(choose)
}

/// The program as it was fetched.
fn find_program() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("FLOWLOOM_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("flowloom")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/flowloom")))?;
    Some(cache.join("restate/1.7.12/bin/restate-server")).filter(|program| program.is_file())
}

/// Whether a GET request to a path is answered with 200.
fn answers(address: SocketAddr, path: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut reply = [0; 15];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.write_all(request.as_bytes()).is_ok()
        && stream.read_exact(&mut reply).is_ok()
        && reply.starts_with(b"HTTP/1.1 200")
}
