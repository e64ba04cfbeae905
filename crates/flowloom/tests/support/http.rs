//! A client of the server under test. It uses HTTP/1.0, so that bodies are not chunked and end with the connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::Workspace;

/// How often a test looks whether a run has ended.
const MAX_LOOKS: usize = 20_000;

/// A running `flowloom serve`.
pub(crate) struct RunningServer {
    pub(crate) address: String,
    pub(crate) child: Child,
    /// Everything that the server has printed so far.
    log: Arc<Mutex<String>>,
}

impl RunningServer {
    /// Serves the folder of a workspace on a free port.
    pub(crate) fn start(place: &Workspace, arguments: &[&str]) -> RunningServer {
        RunningServer::start_at(place, "127.0.0.1:0", arguments)
    }

    /// Serves at an address that another server used before.
    pub(crate) fn start_at(place: &Workspace, address: &str, arguments: &[&str]) -> RunningServer {
        RunningServer::spawn(place, address, arguments, &[])
    }

    /// Serves with additional environment variables.
    pub(crate) fn start_with(place: &Workspace, arguments: &[&str], environment: &[(&str, &str)]) -> RunningServer {
        RunningServer::spawn(place, "127.0.0.1:0", arguments, environment)
    }

    fn spawn(place: &Workspace, address: &str, arguments: &[&str], environment: &[(&str, &str)]) -> RunningServer {
        let all = [&["serve", ".", "--bind", address][..], arguments].concat();
        let mut command = place.build_command(&all);
        command.envs(environment.iter().copied());
        RunningServer::spawn_command(command)
    }

    /// Serves with a limit on open files.
    pub(crate) fn start_with_files(place: &Workspace, files: u32) -> RunningServer {
        let mut command = place.isolate_program("sh");
        command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
        command.args([env!("CARGO_BIN_EXE_flowloom"), "serve", ".", "--bind", "127.0.0.1:0"]);
        RunningServer::spawn_command(command)
    }

    pub(crate) fn spawn_command(mut command: Command) -> RunningServer {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut printed = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut seen = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(printed.read_line(&mut line).expect("readable") > 0, "it ended: {seen}");
            seen += &line;
            if let Some(address) = find_address(&line) {
                break address;
            }
        };
        let log = Arc::new(Mutex::new(seen));
        collect_lines(printed, Arc::clone(&log));
        RunningServer { address, child, log }
    }

    /// Everything that the server has printed so far.
    pub(crate) fn read_log(&self) -> String {
        self.log.lock().expect("not poisoned").clone()
    }

    pub(crate) fn send_and_read(&self, method: &str, path: &str, headers: &[&str], body: &str) -> HttpAnswer {
        HttpAnswer::read(self.send(method, path, headers, body))
    }

    /// Sends GET without a key.
    pub(crate) fn get(&self, path: &str) -> HttpAnswer {
        self.send_and_read("GET", path, &[], "")
    }

    /// Sends JSON by POST without a key.
    pub(crate) fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send_and_read("POST", path, &["Content-Type: application/json"], &body.to_string())
    }

    /// The lines of a stream as they arrive.
    pub(crate) fn stream(&self, path: &str, headers: &[&str]) -> impl Iterator<Item = String> + use<> {
        let lines = BufReader::new(self.send("GET", path, headers, "")).lines();
        lines.map_while(Result::ok).skip_while(|line| !line.is_empty()).skip(1)
    }

    /// Follows a run until it ends, also while it waits. Returns it.
    pub(crate) fn follow_to_end(&self, run: &str) -> Value {
        for _ in 0..MAX_LOOKS {
            // A stream ends when the run waits.
            if self.stream(&format!("/api/v1/runs/{run}/events"), &[]).any(|line| line == "event: run_finished") {
                let run = self.get(&format!("/api/v1/runs/{run}")).json();
                // A run that is retried has ended before.
                if !["queued", "running"].iter().any(|status| run["status"] == *status) {
                    return run;
                }
            }
        }
        panic!("the run does not end");
    }

    /// Sends a request without reading the response.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> TcpStream {
        send_to(&self.address, method, path, headers, body)
    }
}

/// Sends a request to an address without reading the response.
pub(crate) fn send_to(address: &str, method: &str, path: &str, headers: &[&str], body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let host = format!("Host: {address}");
    let host = if headers.iter().any(|header| header.starts_with("Host:")) { "X: y" } else { &host };
    let lines: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    write!(stream, "{method} {path} HTTP/1.0\r\n{host}\r\n{lines}Content-Length: {length}\r\n\r\n{body}")
        .expect("sent");
    stream
}

/// The address that a line of a starting server names, as text or as JSON.
fn find_address(line: &str) -> Option<String> {
    match line.split_once("at http://") {
        Some((_, address)) => Some(address.trim().to_owned()),
        None => serde_json::from_str::<Value>(line).ok()?["address"].as_str().map(str::to_owned),
    }
}

/// Appends what a server prints to its log, until it ends.
fn collect_lines(printed: BufReader<ChildStderr>, log: Arc<Mutex<String>>) {
    std::thread::spawn(move || {
        for line in printed.lines().map_while(Result::ok) {
            *log.lock().expect("not poisoned") += &format!("{line}\n");
        }
    });
}

/// The lines of a run's events after number `last`, until the connection ends; empty if the server is unreachable.
pub(crate) fn follow_events(address: &str, path: &str, last: u64) -> Box<dyn Iterator<Item = String>> {
    let Ok(mut stream) = TcpStream::connect(address) else { return Box::new(std::iter::empty()) };
    let head = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nLast-Event-ID: {last}\r\n\r\n");
    match stream.write_all(head.as_bytes()) {
        Ok(()) => Box::new(BufReader::new(stream).lines().map_while(Result::ok)),
        Err(_) => Box::new(std::iter::empty()),
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "The server printed:\n{}", self.read_log());
        }
    }
}

/// A response.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    /// Status line and headers, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl HttpAnswer {
    /// Reads a response to its end.
    pub(crate) fn read(mut stream: TcpStream) -> HttpAnswer {
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("readable");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        HttpAnswer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error code of a problem, in the form of its route.
    pub(crate) fn error_code(&self) -> String {
        if let Some(code) = self.json()["error"]["code"].as_str() {
            return code.to_owned();
        }
        assert!(self.head.contains("application/problem+json"), "{self:?}");
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}
