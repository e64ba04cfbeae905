//! Retrying runs that have ended, over HTTP and from the terminal.

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{Workspace, exit_code, stderr_text};

/// Number of retries that race for one run.
const RACED_RETRIES: usize = 20;

/// An HTTP server on loopback whose path `/second` answers 400 until it is repaired.
struct RepairableServer {
    address: String,
    is_repaired: Arc<AtomicBool>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl RepairableServer {
    fn start() -> RepairableServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = RepairableServer { address, is_repaired: Arc::default(), requests: Arc::default() };
        let (is_repaired, requests) = (server.is_repaired.clone(), server.requests.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut lines = BufReader::new(stream.try_clone().expect("a stream"));
                let (mut first, mut length) = (String::new(), 0);
                lines.read_line(&mut first).expect("a request");
                loop {
                    let mut line = String::new();
                    lines.read_line(&mut line).expect("a header");
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().expect("a number");
                    }
                    if line.trim().is_empty() {
                        break;
                    }
                }
                lines.read_exact(&mut vec![0; length]).expect("a body");
                let path = first.split(' ').nth(1).expect("a path").to_owned();
                let is_broken = path == "/second" && !is_repaired.load(Ordering::Relaxed);
                requests.lock().expect("not poisoned").push(path);
                let status = if is_broken { "400 Bad Request" } else { "200 OK" };
                let reply = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
                // The client may be gone.
                let _ = stream.write_all(reply.as_bytes());
            }
        });
        server
    }

    fn repair(&self) {
        self.is_repaired.store(true, Ordering::Relaxed);
    }

    fn count_requests(&self, path: &str) -> usize {
        self.requests.lock().expect("not poisoned").iter().filter(|requested| *requested == path).count()
    }

    /// A workspace with a flow that posts to both paths, and a step list that calls it.
    fn create_workspace(&self, config: &str) -> Workspace {
        let egress = format!("[egress]\nallow = [\"{}\"]\n", self.address);
        let function = "[functions.\"my::posts\"]\nworkflow = \"flow.json\"\n";
        let place = Workspace::new(&format!("{config}default_model = \"scripted:echo\"\n{egress}{function}"));
        let step = json!({"name": "posts", "functionId": "my::posts", "mode": "sequential", "promptTemplate": "x",
            "outputVar": "out", "errorMode": "fail"});
        place.write("outer.json", &json!({"id": "outer", "name": "outer", "steps": [step]}).to_string());
        let call = |path: &str, name: &str| {
            let url = format!("http://{}{path}", self.address);
            json!({"type": "apiCall", "config": {"url": url, "method": "POST", "headers": [], "bodyType": "json",
                "body": "{}", "responseVariable": name}})
        };
        let start = json!({"type": "start", "config": {"variables": []}});
        let steps = [start, call("/first", "one"), call("/second", "two")];
        place.write("flow.json", &json!({"name": "two posts", "description": "d", "steps": steps}).to_string());
        place
    }
}

/// The configurations of both databases.
fn database_configs() -> Vec<(Option<test_postgres::TestDatabase>, String)> {
    let database = test_postgres::TestDatabase::create_database();
    let postgres = database.map(|it| {
        let config = format!("database = \"{}\"\nlease_ms = 60000\n", it.url);
        (Some(it), config)
    });
    postgres.into_iter().chain([(None, String::new())]).collect()
}

fn retry(server: &RunningServer, run: &str, key: &str, body: &Value) -> HttpAnswer {
    let headers = ["Content-Type: application/json", &format!("Idempotency-Key: {key}")];
    server.send_and_read("POST", &format!("/api/v1/runs/{run}/retry?wait=60"), &headers, &body.to_string())
}

fn start_failing_run(server: &RunningServer) -> String {
    let failed = server.post("/api/v1/runs?wait=60", &json!({"workflow": "flow"})).json();
    assert_eq!(failed["status"], "failed", "{failed}");
    failed["run_id"].as_str().expect("an id").to_owned()
}

fn count_events(server: &RunningServer, run: &str, name: &str) -> usize {
    let events = server.stream(&format!("/api/v1/runs/{run}/events"), &[]);
    events.filter(|line| *line == format!("event: {name}")).count()
}

#[test]
fn a_failed_run_is_retried_in_the_terminal() {
    let world = RepairableServer::start();
    let place = world.create_workspace("");
    assert_eq!(place.run_json(&["run", "flow.json"]).0, 1);
    let resumed = stderr_text(&place.run(&["resume", "last"]));
    assert!(resumed.contains("already ended: failed") && resumed.contains("flowloom retry"), "{resumed}");
    let (code, again) = place.run_json(&["retry", "last"]);
    assert_eq!((code, &again["status"]), (1, &json!("failed")), "{again}");
    world.repair();
    let (code, ended) = place.run_json(&["retry", "last"]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
    assert_eq!((world.count_requests("/first"), world.count_requests("/second")), (1, 3));
    let shown = String::from_utf8(place.run(&["show", "last"]).stdout).expect("text");
    assert!(shown.contains("↺ ended as failed at /") && shown.contains("; then retried\n"), "{shown}");
    assert!(shown.contains("attempt 3"), "{shown}");
    assert_eq!(place.run_json(&["runs"]).1[0]["status"], "succeeded");
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);

    let nothing = place.run(&["retry", "last"]);
    assert!(stderr_text(&nothing).contains("--from"), "{}", stderr_text(&nothing));
    let shown = place.run_json(&["show", "last"]).1;
    let first = shown["events"].as_array().expect("events").iter().find(|event| event["event"] == "step_started");
    let path = first.and_then(|event| event["path"].as_str()).expect("a path").to_owned();
    let missing = place.run(&["retry", "last", "--from", &format!("{path}x")]);
    assert!(stderr_text(&missing).contains(&path), "{}", stderr_text(&missing));
    let (code, ended) = place.run_json(&["retry", "last", "--from", &path]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
    assert_eq!((world.count_requests("/first"), world.count_requests("/second")), (2, 4));
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
}

#[test]
fn a_failed_run_is_retried_over_http() {
    for (_database, config) in database_configs() {
        let world = RepairableServer::start();
        let place = world.create_workspace(&config);
        let server = RunningServer::start(&place, &[]);
        let run = start_failing_run(&server);
        let again = retry(&server, &run, "one", &json!({}));
        assert_eq!((again.status, &again.json()["status"]), (200, &json!("failed")), "{again:?}");
        world.repair();
        let ended = retry(&server, &run, "two", &json!({}));
        assert_eq!((ended.status, &ended.json()["status"]), (200, &json!("succeeded")), "{ended:?}");
        // The same request is the same command.
        assert_eq!(retry(&server, &run, "two", &json!({})).status, 200);
        assert_eq!((world.count_requests("/first"), world.count_requests("/second")), (1, 3));
        assert_eq!(count_events(&server, &run, "run_reopened"), 2);
        let nothing = retry(&server, &run, "three", &json!({}));
        assert_eq!((nothing.status, nothing.error_code().as_str()), (409, "FL1208"), "{nothing:?}");
        let listed = server.get("/api/v1/runs?status=succeeded").json();
        assert_eq!(listed["items"][0]["run_id"].as_str(), Some(run.as_str()), "{listed}");
    }
}

#[test]
fn one_of_many_retries_is_applied() {
    for (_database, config) in database_configs() {
        let world = RepairableServer::start();
        let place = world.create_workspace(&config);
        let server = RunningServer::start(&place, &[]);
        let run = start_failing_run(&server);
        world.repair();
        let start = Barrier::new(RACED_RETRIES);
        let answers: Vec<HttpAnswer> = std::thread::scope(|scope| {
            let (server, run, start) = (&server, &run, &start);
            let senders: Vec<_> = (0..RACED_RETRIES)
                .map(|n| {
                    scope.spawn(move || {
                        start.wait();
                        retry(server, run, &format!("key-{n}"), &json!({}))
                    })
                })
                .collect();
            senders.into_iter().map(|sender| sender.join().expect("an answer")).collect()
        });
        let accepted = answers.iter().filter(|answer| answer.status == 200).count();
        let refused = answers.iter().filter(|answer| answer.status == 409 && answer.error_code() == "FL1208").count();
        assert_eq!((accepted, refused), (1, RACED_RETRIES - 1), "{answers:#?}");
        assert_eq!((world.count_requests("/first"), world.count_requests("/second")), (1, 2));
        assert_eq!(count_events(&server, &run, "run_reopened"), 1);
    }
}

#[test]
fn a_retry_is_applied_after_a_crash() {
    for failpoint in ["command_store_after", "run_reopen_after", "batch_written", "publish_before"] {
        let world = RepairableServer::start();
        let place = world.create_workspace("");
        let run = place.run_json(&["run", "flow.json"]).1["run_id"].as_str().expect("an id").to_owned();
        world.repair();
        let crashed = place.build_command(&["retry", &run]).env("FLOWLOOM_FAILPOINT", failpoint).output().expect("run");
        assert!(crashed.status.code().is_none(), "{failpoint}: {}", stderr_text(&crashed));
        let server = RunningServer::start(&place, &[]);
        let ended = server.post(&format!("/api/v1/runs/{run}/resume?wait=60"), &json!({})).json();
        assert_eq!(ended["status"], "succeeded", "{failpoint}: {ended}");
        assert_eq!(count_events(&server, &run, "run_reopened"), 1, "{failpoint}");
        assert_eq!((world.count_requests("/first"), world.count_requests("/second")), (1, 2), "{failpoint}");
    }
}

#[test]
fn a_retry_from_a_step_sends_nothing_of_another_branch_again() {
    let world = RepairableServer::start();
    let place = world.create_workspace("");
    let step = |name: &str, function: &str, mode: &str, prompt: &str| {
        json!({"name": name, "functionId": function,
        "mode": mode, "promptTemplate": prompt, "outputVar": name, "errorMode": "fail"})
    };
    let post = json!({"url": format!("http://{}/first", world.address), "method": "POST", "body": "{}"}).to_string();
    let steps = [
        step("asks", "agent::chat", "fanout", "a"),
        step("posts", "tool::http_request", "fanout", &post),
        step("end", "agent::chat", "sequential", "z"),
    ];
    place.write("fan.json", &json!({"id": "fan", "name": "fan", "steps": steps}).to_string());
    let (code, ended) = place.run_json(&["run", "fan.json"]);
    assert_eq!((code, world.count_requests("/first")), (0, 1), "{ended}");
    let (code, ended) = place.run_json(&["retry", "last", "--from", "/fanout~1/asks"]);
    assert_eq!((code, &ended["status"], world.count_requests("/first")), (0, &json!("succeeded"), 1), "{ended}");
    let shown = place.run_json(&["show", "last"]).1;
    let attempts = |path: &str| {
        let steps = shown["steps"].as_array().expect("steps").iter();
        steps.clone().find(|step| step["path"] == path).map(|step| step["attempts"].clone())
    };
    assert_eq!(
        [attempts("/fanout~1/asks"), attempts("/fanout~1/posts"), attempts("/end")],
        [Some(json!(2)), Some(json!(1)), Some(json!(2))]
    );
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
}

#[test]
fn a_retry_keeps_what_succeeded_in_child_runs() {
    let world = RepairableServer::start();
    let place = world.create_workspace("");
    let (code, failed) = place.run_json(&["run", "outer.json"]);
    assert_eq!((code, &failed["status"]), (1, &json!("failed")), "{failed}");
    let (_, again) = place.run_json(&["retry", "last"]);
    assert_eq!(again["status"], "failed", "{again}");
    world.repair();
    let (code, ended) = place.run_json(&["retry", "last"]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
    assert_eq!((world.count_requests("/first"), world.count_requests("/second")), (1, 3));
    let (_, runs) = place.run_json(&["runs"]);
    let runs = runs.as_array().expect("a list");
    assert!(runs.len() == 2 && runs.iter().all(|run| run["status"] == "succeeded"), "{runs:?}");
    for run in runs {
        assert_eq!(exit_code(&place.run(&["replay", run["run_id"].as_str().expect("an id")])), 0);
    }
}

#[test]
fn a_retried_block_keeps_the_requests_that_succeeded() {
    let world = RepairableServer::start();
    let place = Workspace::new(&format!("[egress]\nallow = [\"{}\"]\n", world.address));
    let send = |path: &str| format!("await client.post('http://{}{path}', json={{}})", world.address);
    let get = format!("await client.get('http://{}/third')", world.address);
    let (first, second) = (send("/first"), send("/second"));
    let source = format!(
        "import httpx\n\nasync def execute(inputs, context):\n    async with httpx.AsyncClient() as client:\n        \
         {first}\n        {first}\n        {get}\n        reply = {second}\n        reply.raise_for_status()\n    \
         return {{'status': reply.status_code}}\n"
    );
    let block = json!({"id": "post", "name": "post", "description": "d", "category": "process",
        "execution_type": "python", "source_code": source, "input_schema": {}, "output_schema": {}});
    std::fs::create_dir(place.path("blocks")).expect("created");
    place.write("blocks/post.json", &block.to_string());
    let node = json!({"id": "n1", "block_id": "post", "inputs": {}});
    place.write("p.json", &json!({"id": "p", "name": "p", "nodes": [node], "edges": []}).to_string());
    let counts = || ["/first", "/second", "/third"].map(|path| world.count_requests(path));
    assert_eq!(place.run_json(&["run", "p.json"]).1["status"], "failed");
    assert_eq!(counts(), [2, 1, 1]);
    assert_eq!(place.run_json(&["retry", "last"]).1["status"], "failed");
    assert_eq!(counts(), [2, 2, 2], "what succeeded and changed something is kept; what only reads is read again");
    world.repair();
    let (code, ended) = place.run_json(&["retry", "last"]);
    assert_eq!((code, &ended["status"]), (0, &json!("succeeded")), "{ended}");
    assert_eq!(counts(), [2, 3, 3]);
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
    // A person who names the step wants all of it again.
    assert_eq!(place.run_json(&["retry", "last", "--from", "/nodes~1/n1"]).1["status"], "succeeded");
    assert_eq!(counts(), [4, 4, 4]);
    assert_eq!(exit_code(&place.run(&["replay", "last"])), 0);
}

#[test]
fn a_run_that_used_up_its_steps_is_retried_and_ends_in_the_same_way() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let step = |name: &str| json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "promptTemplate": name, "errorMode": "fail"});
    let list = json!({"id": "two", "name": "Two", "description": "d", "steps": [step("a"), step("b")]});
    place.write("two.json", &list.to_string());
    let (exit, run) = place.run_json(&["run", "two.json", "--budget", "steps=1"]);
    assert_eq!((exit, &run["status"]), (5, &json!("budget_exceeded")), "{run}");
    let (exit, retried) = place.run_json(&["retry", "last"]);
    assert_eq!((exit, &retried["status"]), (5, &json!("budget_exceeded")), "{retried}");
    assert_eq!(retried["error"]["code"], "FL1101", "{retried}");
}
