//! Helpers of the end-to-end tests: a workspace for running the program, and a counting HTTP server.
#![allow(dead_code)]

pub(crate) mod author;
pub(crate) mod clients;
pub(crate) mod embedder;
pub(crate) mod http;
pub(crate) mod model;
pub(crate) mod openai;
pub(crate) mod recording;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

/// A folder with its own configuration and database.
pub(crate) struct Workspace {
    folder: tempfile::TempDir,
}

impl Workspace {
    pub(crate) fn new(config: &str) -> Workspace {
        let place = Workspace { folder: tempfile::tempdir().expect("a folder") };
        place.write("flowloom.toml", config);
        place
    }

    /// A workspace with a step list `hello` that calls a scripted model.
    pub(crate) fn with_hello(config: &str) -> Workspace {
        let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{config}"));
        let definition = json!({"id": "hello", "name": "hello", "description": "d", "steps": [
            {"name": "s", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": "Say {{input}}"},
        ]});
        place.write("hello.json", &definition.to_string());
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    /// The program with arguments, isolated from the user's own configuration.
    pub(crate) fn build_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.isolate_program(env!("CARGO_BIN_EXE_flowloom"));
        command.args(arguments);
        command
    }

    /// A command of any program, isolated from the user's own configuration of Flowloom.
    pub(crate) fn isolate_program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("FLOWLOOM_DATA_DIR", self.path("data")).env("NO_COLOR", "1");
        command.env("FLOWLOOM_CACHE", self.path("cache")).env("XDG_DATA_HOME", self.path("share"));
        for name in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "FLOWLOOM_DEFAULT_MODEL"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs a command with the local model of the user's model cache.
    pub(crate) fn run_with_model(&self, arguments: &[&str]) -> Output {
        self.build_command_with_model(arguments).output().expect("it runs")
    }

    /// A command with the local model of the user's model cache.
    pub(crate) fn build_command_with_model(&self, arguments: &[&str]) -> Command {
        let mut command = self.build_command(arguments);
        match std::env::var_os("FLOWLOOM_CACHE") {
            Some(cache) => command.env("FLOWLOOM_CACHE", cache),
            None => command.env_remove("FLOWLOOM_CACHE"),
        };
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.build_command(arguments).output().expect("the program runs")
    }

    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        self.build_command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// Runs a command with `--json`. Returns the exit code and the value on stdout.
    pub(crate) fn run_json(&self, arguments: &[&str]) -> (i32, Value) {
        let output = self.run(&[arguments, &["--json"]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
        (exit_code(&output), value)
    }
}

pub(crate) fn exit_code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub(crate) fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn send_signal(child: &Child, name: &str) {
    let killed = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
}

/// An HTTP server on loopback that counts requests. Paths under `/slow` wait until they are released; `/status/503`
/// responds with that status.
#[derive(Clone)]
pub(crate) struct TestServer {
    pub(crate) address: String,
    state: Arc<(Mutex<TestServerState>, Condvar)>,
}

#[derive(Default)]
struct TestServerState {
    counts: HashMap<String, u32>,
    keys: HashMap<String, Vec<String>>,
    bodies: HashMap<String, Vec<String>>,
    heads: HashMap<String, String>,
    released: bool,
}

impl TestServer {
    pub(crate) fn start() -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = TestServer { address, state: Arc::default() };
        let shared = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = shared.clone();
                std::thread::spawn(move || server.handle_connection(stream));
            }
        });
        server
    }

    /// The configuration that permits access to this server.
    pub(crate) fn egress_config(&self) -> String {
        format!("[egress]\nallow = [\"{}\"]\n", self.address)
    }

    fn handle_connection(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let (mut length, mut key, mut head) = (0, String::new(), String::new());
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).unwrap_or(0) <= 2 {
                break;
            }
            head += &header;
            let lower = header.to_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if let Some(value) = lower.strip_prefix("idempotency-key:") {
                key = value.trim().to_owned();
            }
        }
        let mut body = vec![0; length];
        let _ = reader.read_exact(&mut body);
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        self.record_request(&path, head, &body);
        self.count_request(&path, key);
        let body = format!("{{\"path\":\"{path}\"}}");
        let status = path.strip_prefix("/status/").unwrap_or("200");
        let reply = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(reply.as_bytes());
    }

    fn record_request(&self, path: &str, head: String, body: &[u8]) {
        let mut state = self.state.0.lock().expect("not poisoned");
        state.heads.insert(path.to_owned(), head);
        state.bodies.entry(path.to_owned()).or_default().push(String::from_utf8_lossy(body).into_owned());
    }

    fn count_request(&self, path: &str, key: String) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().expect("not poisoned");
        *state.counts.entry(path.to_owned()).or_default() += 1;
        state.keys.entry(path.to_owned()).or_default().push(key);
        changed.notify_all();
        while path.starts_with("/slow") && !state.released {
            state = changed.wait(state).expect("not poisoned");
        }
    }

    /// Waits until a path was requested `count` times.
    pub(crate) fn wait_for_requests(&self, path: &str, count: u32) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().expect("not poisoned");
        while state.counts.get(path).copied().unwrap_or(0) < count {
            state = changed.wait(state).expect("not poisoned");
        }
    }

    pub(crate) fn request_count(&self, path: &str) -> u32 {
        self.state.0.lock().expect("not poisoned").counts.get(path).copied().unwrap_or(0)
    }

    pub(crate) fn idempotency_keys(&self, path: &str) -> Vec<String> {
        self.state.0.lock().expect("not poisoned").keys.get(path).cloned().unwrap_or_default()
    }

    /// The body of the last request to a path.
    pub(crate) fn last_body(&self, path: &str) -> String {
        let state = self.state.0.lock().expect("not poisoned");
        state.bodies.get(path).and_then(|bodies| bodies.last().cloned()).unwrap_or_default()
    }

    /// Waits until the bodies of the requests to a path contain a text.
    pub(crate) fn wait_for_text(&self, path: &str, text: &str) {
        let (state, changed) = &*self.state;
        let mut state = state.lock().expect("not poisoned");
        while !state.bodies.get(path).is_some_and(|bodies| bodies.iter().any(|body| body.contains(text))) {
            state = changed.wait(state).expect("not poisoned");
        }
    }

    /// The headers of the last request to a path.
    pub(crate) fn last_head(&self, path: &str) -> String {
        self.state.0.lock().expect("not poisoned").heads.get(path).cloned().unwrap_or_default()
    }

    /// Releases all slow paths.
    pub(crate) fn release_slow(&self) {
        self.state.0.lock().expect("not poisoned").released = true;
        self.state.1.notify_all();
    }
}

/// A flow that requests `/first`, then `path`, then calls a scripted model.
pub(crate) fn two_calls_flow(server: &TestServer, method: &str, path: &str) -> String {
    let base = &server.address;
    format!(
        r#"{{"name": "two calls", "description": "d", "steps": [
  {{"type": "start", "config": {{"variables": [{{"name": "a", "value": "1"}}]}}}},
  {{"type": "apiCall", "config": {{"url": "http://{base}/first", "method": "GET", "headers": [], "responseVariable": "one"}}}},
  {{"type": "apiCall", "config": {{"url": "http://{base}{path}", "method": "{method}", "headers": [], "bodyType": "json",
    "body": "{{}}", "responseVariable": "two"}}}},
  {{"type": "llmInstruction", "config": {{"instruction": "${{two.path}}", "resultVariable": "three"}}}}
]}}"#
    )
}

/// Writes `p.json`: a pipeline whose only node is a Python block that sends a POST to `/slow`.
pub(crate) fn write_posting_pipeline(world: &TestServer, place: &Workspace) {
    let source = format!(
        "import httpx\n\nasync def execute(inputs, context):\n    async with httpx.AsyncClient() as client:\n        \
         reply = await client.post('http://{}/slow', json={{}})\n    return {{'status': reply.status_code}}\n",
        world.address
    );
    let block = json!({"id": "post", "name": "post", "description": "d", "category": "process",
        "execution_type": "python", "source_code": source, "input_schema": {}, "output_schema": {}});
    std::fs::create_dir(place.path("blocks")).expect("created");
    place.write("blocks/post.json", &block.to_string());
    let node = json!({"id": "n1", "block_id": "post", "inputs": {}});
    place.write("p.json", &json!({"id": "p", "name": "p", "nodes": [node], "edges": []}).to_string());
}
