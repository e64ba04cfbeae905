//! The process of a local model: its end fails a step and nothing else, it has no secrets, and it never outlives the
//! program. Skipped if the model is not cached.

mod support;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use flowloom_models::{LOCAL_MODEL, ProcessEnvironment, cache_dir};
use serde_json::{Value, json};
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

/// How long a process may take to start or to be gone.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(30);

/// A step list that keeps the model busy for several seconds, and one that does not.
const LONG: &str = r#"{"id": "long", "name": "long", "description": "d", "steps": [{"name": "s", "functionId": "agent::chat",
  "mode": "sequential", "errorMode": "fail", "promptTemplate": "Tell a very long story about a weaver and her loom. {{input}}"}]}"#;
const SHORT: &str = r#"{"id": "short", "name": "short", "description": "d", "steps": [{"name": "s", "functionId": "agent::chat",
  "mode": "sequential", "errorMode": "fail", "promptTemplate": "What is the capital of {{input}}? Answer with one word."}]}"#;

#[allow(clippy::print_stderr)]
fn start_server() -> Option<(Workspace, RunningServer)> {
    if !cache_dir(&ProcessEnvironment).join(format!("{LOCAL_MODEL}.gguf")).is_file() {
        eprintln!("SKIP local model not cached");
        return None;
    }
    let place = Workspace::new(&format!("default_model = \"local:{LOCAL_MODEL}\"\n"));
    place.write("long.json", LONG);
    place.write("short.json", SHORT);
    let mut command = place.build_command_with_model(&["serve", ".", "--bind", "127.0.0.1:0"]);
    command.env("OPENAI_API_KEY", "sk-secret");
    let server = RunningServer::spawn_command(command);
    Some((place, server))
}

/// The model processes of a program.
fn model_processes(parent: u32) -> Vec<u32> {
    let is_model_of = |folder: &PathBuf| {
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        let arguments = std::fs::read_to_string(folder.join("cmdline")).unwrap_or_default();
        status.lines().any(|line| line.split_whitespace().eq(["PPid:", &parent.to_string()]))
            && arguments.contains("__language-model")
            && !status.contains("zombie")
    };
    let entries = std::fs::read_dir("/proc").expect("readable").flatten().map(|entry| entry.path());
    let named = entries.filter(is_model_of).filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    named.collect()
}

/// Polls until `done`, which depends on the operating system and not on a clock.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PROCESS_TIMEOUT, "{what}");
        std::thread::yield_now();
    }
}

/// Starts the long run and returns once its answer has begun.
fn start_long_run(server: &RunningServer) -> String {
    let run = server.post("/api/v1/runs", &json!({"workflow": "long", "inputs": "Go on."})).json();
    let path = format!("/api/v1/runs/{}", run["run_id"].as_str().expect("an id"));
    let mut events = server.stream(&format!("{path}/events?deltas=true"), &[]);
    assert!(events.any(|line| line.starts_with("data: ") && line.contains("\"offset\"")), "the answer begins");
    path
}

fn answer_short(server: &RunningServer) -> Value {
    server.post("/api/v1/runs?wait=60", &json!({"workflow": "short", "inputs": "France"})).json()
}

#[test]
fn a_killed_model_fails_its_step_and_the_next_call_starts_another() {
    let Some((_place, server)) = start_server() else { return };
    let run = start_long_run(&server);
    let models = model_processes(server.child.id());
    assert_eq!(models.len(), 1, "{models:?}");
    let environment = std::fs::read_to_string(format!("/proc/{}/environ", models[0])).expect("our own process");
    assert!(!environment.contains("sk-secret"), "{environment}");
    let killed = std::process::Command::new("kill").args(["-9", &models[0].to_string()]).status().expect("it runs");
    assert!(killed.success());
    let mut status = Value::Null;
    wait_until("the run ends", || {
        status = server.get(&run).json();
        status["status"] == "failed"
    });
    let message = status["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("the process of the local model was ended by signal 9"), "{status}");
    let answer = answer_short(&server);
    assert_eq!(answer["status"], "succeeded", "{answer}");
    assert_eq!(model_processes(server.child.id()).len(), 1);
}

#[test]
fn a_cancelled_answer_frees_the_model() {
    let Some((_place, server)) = start_server() else { return };
    let run = start_long_run(&server);
    let before = model_processes(server.child.id());
    assert!(server.post(&format!("{run}/cancel"), &json!({})).status < 300);
    let answer = answer_short(&server);
    assert_eq!(answer["status"], "succeeded", "{answer}");
    assert_eq!(model_processes(server.child.id()), before, "the model stays loaded");
}

#[test]
fn no_model_outlives_a_killed_server() {
    let Some((_place, mut server)) = start_server() else { return };
    start_long_run(&server);
    let models = model_processes(server.child.id());
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
    wait_until("the model is gone", || {
        models.iter().all(|model| {
            let status = std::fs::read_to_string(format!("/proc/{model}/status")).unwrap_or_default();
            status.is_empty() || status.contains("zombie")
        })
    });
}

#[test]
fn a_file_that_is_not_a_model_fails_with_its_name_and_the_reason() {
    let place = Workspace::new("");
    place.write("short.json", SHORT);
    place.write("bad.gguf", "GGUF but not really");
    let output = place.run(&["run", "short.json", "-i", "input=France", "--model", "local:./bad.gguf"]);
    let text = stderr_text(&output);
    assert_eq!(exit_code(&output), 1, "{text}");
    assert!(text.contains("cannot load the model file ./bad.gguf"), "{text}");
}

/// A model file with a header and no weights.
fn header_only() -> Vec<u8> {
    let key = "llama.context_length";
    let (tensors, entries) = (0_u64.to_le_bytes(), 1_u64.to_le_bytes());
    let length = (key.len() as u64).to_le_bytes();
    let (kind, window) = (4_u32.to_le_bytes(), 4096_u32.to_le_bytes());
    [&b"GGUF"[..], &3_u32.to_le_bytes(), &tensors, &entries, &length, key.as_bytes(), &kind, &window].concat()
}

#[test]
fn any_model_file_can_be_added_and_is_listed() {
    let place = Workspace::new("");
    std::fs::write(place.path("Some-Model.gguf"), header_only()).expect("writable");
    place.write("notes.gguf", "not a model");
    let (exit, added) = place.run_json(&["models", "pull", "Some-Model.gguf"]);
    assert_eq!(exit, 0, "{added}");
    let file = place.path("cache/models/some-model.gguf");
    assert_eq!((added["files"][0].as_str(), file.is_file()), (file.to_str(), true), "{added}");
    let (_, list) = place.run_json(&["models", "list"]);
    assert_eq!(list["files"][0]["model"], "local:some-model");
    assert_eq!(list["files"][0]["window_tokens"], 4096);
    let refused = [
        (&["models", "pull", "notes.gguf"][..], 1, "it is not a GGUF file"),
        (&["models", "pull", "Some-Model.gguf", "--as", "a/b"], 1, "cannot be the name of a model"),
        (&["models", "pull", "Some-Model.gguf", "--sha256", "00"], 1, "has the SHA-256"),
        (&["models", "pull", "missing.gguf"], 2, "neither a file, nor"),
        (&["models", "pull", LOCAL_MODEL, "--as", "other"], 2, "leave out --as"),
    ];
    for (arguments, code, message) in refused {
        let output = place.run(arguments);
        let text = stderr_text(&output);
        assert_eq!(exit_code(&output), code, "{text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
    assert_eq!(std::fs::read_dir(place.path("cache/models")).expect("readable").count(), 1);
}

/// A server that answers one request with a file.
fn serve_once(body: Vec<u8>) -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let _ = stream.read(&mut [0; 4096]);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        let _ = stream.write_all(&[head.as_bytes(), &body].concat());
    });
    format!("http://{address}/folder/tiny.gguf?download=true")
}

#[test]
fn a_model_file_is_downloaded_and_checked() {
    let place = Workspace::new("");
    let (exit, added) = place.run_json(&["models", "pull", &serve_once(header_only())]);
    assert_eq!(exit, 0, "{added}");
    assert!(place.path("cache/models/tiny.gguf").is_file());
    let url = serve_once(b"<html>".to_vec());
    let output = place.run(&["models", "pull", &url, "--as", "page"]);
    let text = stderr_text(&output);
    assert!(exit_code(&output) == 1 && text.contains(&format!("{url} cannot be used as a model")), "{text}");
    assert_eq!(std::fs::read_dir(place.path("cache/models")).expect("readable").count(), 1);
}
