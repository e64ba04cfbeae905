//! The HTTP API of the server.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace, exit_code, send_signal, stderr_text};

const ECHO_CONFIG: &str = "default_model = \"scripted:echo\"\n";

/// A step list with one step that calls the model.
fn steps_json(id: &str) -> Value {
    json!({"id": id, "name": id, "description": "d", "steps": [
        {"name": "s", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": "Say {{input}}"},
    ]})
}

fn create_workspace() -> Workspace {
    let place = Workspace::new(ECHO_CONFIG);
    place.write("hello.json", &steps_json("hello").to_string());
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    place.write("broken.mdx", "Hello {nobody}.\n\n<GenText as=\"a\" model=\"openai:gpt-4o\" />\n");
    place.write("README.md", "# Nothing to run\n");
    place
}

fn get_text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

#[test]
fn definitions_are_listed_and_run() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let listed = server.get("/api/v1/workflows").json();
    let ids: Vec<&str> = listed["items"].as_array().expect("a list").iter().map(|item| get_text(item, "id")).collect();
    assert_eq!(ids, ["ask-a-person", "broken", "hello"]);
    assert_eq!(server.get("/api/v1/workflows/hello").json()["format"], "steps");

    let reply = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "hi"}));
    assert_eq!(reply.status, 200, "{reply:?}");
    let run = reply.json();
    assert_eq!((get_text(&run, "status"), get_text(&run, "output")), ("succeeded", "LLM(Say hi)"));
    assert!(reply.head.contains(&format!("location: /api/v1/runs/{}", get_text(&run, "run_id"))), "{reply:?}");
    let seen = server.get(&format!("/api/v1/runs/{}", get_text(&run, "run_id"))).json();
    assert_eq!(seen, run);
    // The command line reads the same run from the same database.
    let (_, runs) = place.run_json(&["runs"]);
    assert_eq!(runs[0]["run_id"], run["run_id"]);

    let refused = server.post("/api/v1/runs", &json!({"workflow": "broken"}));
    assert_eq!((refused.status, refused.error_code()), (422, "FL1034".to_owned()));
    assert_eq!(refused.json()["errors"][0]["code"], "FL0608");
    let missing = server.post("/api/v1/runs", &json!({"workflow": "nobody"}));
    assert_eq!((missing.status, missing.error_code()), (404, "FL1507".to_owned()));
    assert_eq!(server.get("/api/v1/nowhere").error_code(), "FL1507");
    for body in ["{", "[]", r#"{"workflow": 1}"#, r#"{"workflow": "hello", "more": 1}"#] {
        let reply = server.send_and_read("POST", "/api/v1/runs", &["Content-Type: application/json"], body);
        assert_eq!((reply.status, reply.error_code()), (400, "FL1505".to_owned()), "{body}");
    }
}

#[test]
fn a_changed_file_counts_from_the_next_run() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let start = || server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "hi"})).json();
    assert_eq!(get_text(&start(), "output"), "LLM(Say hi)");
    place.write("hello.json", &steps_json("hello").to_string().replace("Say ", "Now say it: "));
    assert_eq!(get_text(&start(), "output"), "LLM(Now say it: hi)");
    place.write("new.json", &steps_json("new").to_string());
    assert_eq!(server.get("/api/v1/workflows/new").status, 200);
}

#[test]
fn runs_are_paged() {
    let server_place = create_workspace();
    let server = RunningServer::start(&server_place, &[]);
    let start =
        |_| get_text(&server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"})).json(), "run_id").to_owned();
    let mut started: Vec<String> = (0..5).map(start).collect();
    started.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/v1/runs?limit=2&status=succeeded{cursor}")).json();
        seen.extend(page["items"].as_array().expect("a list").iter().map(|item| get_text(item, "run_id").to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, started);
    let since = |time: u64| server.get(&format!("/api/v1/runs?since={time}")).json()["items"].as_array().map(Vec::len);
    assert_eq!([since(0), since(u64::from(u32::MAX) << 20)], [Some(5), Some(0)]);
    assert_eq!(server.get("/api/v1/runs?status=odd").error_code(), "FL1505");
    assert_eq!(server.get("/api/v1/runs?cursor=odd").error_code(), "FL1505");
}

#[test]
fn a_call_that_is_sent_twice_starts_one_run() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let call = |key: &str, inputs: &str| {
        let headers = ["Content-Type: application/json", &format!("Idempotency-Key: {key}")];
        server.send_and_read(
            "POST",
            "/api/v1/runs?wait=60",
            &headers,
            &json!({"workflow": "hello", "inputs": inputs}).to_string(),
        )
    };
    let (first, again, other) = (call("k", "a"), call("k", "a"), call("l", "a"));
    assert_eq!(first.json(), again.json());
    assert_ne!(first.json()["run_id"], other.json()["run_id"]);
    let reused = call("k", "b");
    assert_eq!((reused.status, reused.error_code()), (409, "FL1506".to_owned()));
}

#[test]
fn calls_of_other_sites_are_refused() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &["--host", "flows.example"]);
    let json_type = "Content-Type: application/json";
    let run = json!({"workflow": "hello"}).to_string();
    let port = server.address.split_once(':').expect("a port").1;
    for (headers, status) in [
        (vec![json_type, "Host: evil.example"], 403),
        (vec![json_type, "Origin: https://evil.example"], 403),
        (vec![json_type, "Origin: null"], 403),
        (vec!["Content-Type: text/plain"], 415),
        (vec!["Content-Type: application/x-www-form-urlencoded"], 415),
        (vec![], 415),
        (vec![json_type, "Host: flows.example"], 200),
        (vec![json_type, &format!("Origin: http://{}", server.address)], 200),
        // Another port of this machine is another site.
        (vec![json_type, &format!("Origin: http://localhost:{port}")], 403),
        (vec![json_type, "Origin: http://127.0.0.1:3000"], 403),
    ] {
        let reply = server.send_and_read("POST", "/api/v1/runs?wait=60", &headers, &run);
        assert_eq!(reply.status, status, "{headers:?}: {reply:?}");
        assert_eq!(status == 403, reply.body.contains("FL1504"), "{headers:?}");
    }
}

#[test]
fn keys_decide_who_may_do_what() {
    let place = create_workspace();
    let key = |arguments: &[&str]| {
        let output = place.run(&[&["keys", "create", "--name", "test"], arguments].concat());
        assert_eq!(exit_code(&output), 0);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let refused = place.run(&["serve", ".", "--bind", "0.0.0.0:0"]);
    assert_eq!(exit_code(&refused), 2);
    assert!(stderr_text(&refused).contains("FL1404"), "{}", stderr_text(&refused));

    let (ann, bob, eve) =
        (key(&["--user", "ann"]), key(&["--user", "bob"]), key(&["--scopes", "read", "--user", "ann"]));
    let server = RunningServer::start(&place, &[]);
    let call = |key: &str, method: &str, path: &str, body: &Value| {
        let headers = [&format!("Authorization: Bearer {key}"), "Content-Type: application/json"];
        server.send_and_read(method, path, &headers, &if body.is_null() { String::new() } else { body.to_string() })
    };
    assert_eq!(
        (server.get("/api/v1/runs").status, server.get("/api/v1/runs").error_code()),
        (401, "FL1501".to_owned())
    );
    let unknown = call("fl_nobody", "GET", "/api/v1/runs", &Value::Null);
    assert_eq!((unknown.status, unknown.error_code()), (401, "FL1502".to_owned()));

    let started = call(&ann, "POST", "/api/v1/runs?wait=60", &json!({"workflow": "ask-a-person", "inputs": "tea"}));
    assert_eq!(started.status, 202, "{started:?}");
    let run = get_text(&started.json(), "run_id").to_owned();
    let too_small = call(&eve, "POST", "/api/v1/runs", &json!({"workflow": "hello"}));
    assert_eq!((too_small.status, too_small.error_code()), (403, "FL1503".to_owned()));
    assert_eq!(call(&eve, "GET", &format!("/api/v1/runs/{run}"), &Value::Null).status, 200);

    // Another user's run looks like a missing one.
    let nobody = "01a1fe67-b4e7-7263-b0a5-000000000000";
    for (method, tail, body) in [
        ("GET", "", Value::Null),
        ("GET", "/events", Value::Null),
        ("POST", "/cancel", Value::Null),
        ("POST", "/resume", Value::Null),
        ("POST", "/answer", json!({"value": 1})),
        ("POST", "/resolve", json!({"path": "/a", "how": "fail"})),
    ] {
        let others = call(&bob, method, &format!("/api/v1/runs/{run}{tail}"), &body);
        let none = call(&bob, method, &format!("/api/v1/runs/{nobody}{tail}"), &body);
        assert_eq!(others.status, 404, "{tail}");
        assert_eq!(others.body, none.body.replace(nobody, &run), "{tail}");
    }
    let listed = call(&bob, "GET", "/api/v1/runs", &Value::Null).json();
    assert_eq!(listed["items"], json!([]));
    let impostor = call(&bob, "POST", "/api/v1/runs", &json!({"workflow": "hello", "user": "ann"}));
    assert_eq!(impostor.status, 404);

    let (_, keys) = place.run_json(&["keys", "list"]);
    assert!(!keys.to_string().contains(&ann), "the list contains no secret");
    let id = keys
        .as_array()
        .expect("a list")
        .iter()
        .find(|key| key["user"] == "bob")
        .map(|key| get_text(key, "id").to_owned());
    assert_eq!(exit_code(&place.run(&["keys", "revoke", &id.expect("bob's")])), 0);
    assert_eq!(call(&bob, "GET", "/api/v1/runs", &Value::Null).error_code(), "FL1502");
}

#[test]
fn a_run_that_waits_is_answered() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask-a-person", "inputs": "tea"})).json();
    assert_eq!(get_text(&run, "status"), "waiting", "{run}");
    let path = format!("/api/v1/runs/{}", get_text(&run, "run_id"));
    let nothing = server.post(&format!("{path}/resolve"), &json!({"path": "/x", "how": "fail"}));
    assert_eq!((nothing.status, nothing.error_code()), (409, "FL1208".to_owned()));
    let answered = server.post(&format!("{path}/answer?wait=60"), &json!({"value": "yes"}));
    assert_eq!((answered.status, get_text(&answered.json(), "status")), (200, "succeeded"), "{answered:?}");
    let again = server.post(&format!("{path}/answer"), &json!({"value": "yes"}));
    assert_eq!((again.status, again.error_code()), (409, "FL1208".to_owned()));

    let other = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask-a-person", "inputs": "tea"})).json();
    let ended =
        server.send_and_read("POST", &format!("/api/v1/runs/{}/cancel?wait=60", get_text(&other, "run_id")), &[], "");
    assert_eq!((ended.status, get_text(&ended.json(), "status")), (200, "cancelled"), "{ended:?}");
}

/// The sequence numbers in the lines of a stream, and whether it was completed.
fn event_numbers(lines: impl Iterator<Item = String>) -> (Vec<u64>, bool) {
    let lines: Vec<String> = lines.collect();
    let ids = lines.iter().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
    (ids, lines.iter().any(|line| line == "event: done"))
}

#[test]
fn events_come_without_gap_across_a_crash() {
    let slow = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", slow.egress_config()));
    place.write("flow.json", &support::two_calls_flow(&slow, "GET", "/slow"));
    let mut server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
    let path = format!("/api/v1/runs/{}/events", get_text(&run, "run_id"));
    slow.wait_for_requests("/slow", 1);
    // Reads up to the pending request, like a client that then loses its connection.
    let mut first = Vec::new();
    for line in server.stream(&path, &[]) {
        first.extend(line.strip_prefix("id: ").and_then(|id| id.parse::<u64>().ok()));
        if line.contains("/slow") {
            break;
        }
    }
    server.child.kill().expect("killed");
    server.child.wait().expect("ended");
    slow.release_slow();

    let server = RunningServer::start(&place, &[]);
    let last = first.last().copied().expect("events");
    let (rest, is_done) = event_numbers(server.stream(&path, &[&format!("Last-Event-ID: {last}")]));
    assert!(is_done);
    let all: Vec<u64> = first.iter().chain(&rest).copied().collect();
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
    let (whole, _) = event_numbers(server.stream(&path, &[]));
    assert_eq!(whole, all);
    let (tail, _) = event_numbers(server.stream(&format!("{path}?from={last}"), &[]));
    assert_eq!(tail, rest);
    let run = server.get(path.trim_end_matches("/events")).json();
    assert_eq!(get_text(&run, "status"), "succeeded", "{run}");
    assert_eq!(slow.request_count("/first"), 1, "finished steps are not repeated");
}

#[test]
fn the_text_of_answers_comes_with_the_events() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    let headers = ["Content-Type: application/json", "Accept: text/event-stream"];
    let body = json!({"workflow": "hello", "inputs": "hi"}).to_string();
    let reply = server.send_and_read("POST", "/api/v1/runs", &headers, &body);
    assert!(
        reply
            .body
            .contains("event: delta\ndata: {\"path\":\"/s\",\"attempt\":1,\"offset\":0,\"text\":\"LLM(Say hi)\"}"),
        "{reply:?}"
    );
    assert!(reply.body.trim_end().ends_with("\"status\":\"succeeded\"}"), "{reply:?}");
}

#[test]
fn looking_at_a_run_under_way_takes_nothing_from_it() {
    let slow = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", slow.egress_config()));
    place.write("flow.json", &support::two_calls_flow(&slow, "GET", "/slow"));
    let server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
    slow.wait_for_requests("/slow", 1);
    let path = format!("/api/v1/runs/{}", get_text(&run, "run_id"));
    assert_eq!(server.get(&path).json()["status"], "running");
    // The run still has its worker, which receives signals of other processes.
    assert_eq!(server.get("/api/v1/runs").json()["items"][0]["is_driven"], true);
    let cancelled = place.run(&["cancel", get_text(&run, "run_id")]);
    assert_eq!(exit_code(&cancelled), 0, "{}", stderr_text(&cancelled));
    assert_eq!(server.get(&path).json()["status"], "cancelled");
    slow.release_slow();
}

#[test]
fn it_stops_when_it_is_asked_to() {
    let slow = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", slow.egress_config()));
    place.write("flow.json", &support::two_calls_flow(&slow, "GET", "/slow"));
    let mut server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
    slow.wait_for_requests("/slow", 1);
    send_signal(&server.child, "-TERM");
    slow.release_slow();
    let status = server.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    let (_, shown) = place.run_json(&["runs"]);
    assert_eq!((get_text(&shown[0], "run_id"), get_text(&shown[0], "status")), (get_text(&run, "run_id"), "succeeded"));
}

#[test]
fn it_says_how_it_is() {
    let place = create_workspace();
    let server = RunningServer::start(&place, &[]);
    assert_eq!(server.get("/health/live").body, "ok");
    assert_eq!(server.get("/health/ready").body, "ok");
    server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"}));
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("flowloom_runs{status=\"succeeded\"} 1\n"), "{metrics}");
    assert!(server.get("/errors/FL1507").body.starts_with("# FL1507"));
    let description = server.get("/openapi.json").json();
    assert!(get_text(&description, "openapi").starts_with("3.1"));
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("api");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("openapi", format!("{description:#}")));
}

#[test]
fn there_are_as_many_runs_as_there_may_be() {
    let slow = TestServer::start();
    let place = Workspace::new(&format!("{ECHO_CONFIG}{}", slow.egress_config()));
    place.write("flow.json", &support::two_calls_flow(&slow, "GET", "/slow"));
    let server = RunningServer::start(&place, &["--max-runs", "1"]);
    server.post("/api/v1/runs", &json!({"workflow": "flow"}));
    slow.wait_for_requests("/slow", 1);
    let refused = server.post("/api/v1/runs", &json!({"workflow": "flow"}));
    assert_eq!((refused.status, refused.error_code()), (429, "FL1508".to_owned()));
    assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
    slow.release_slow();
}

#[test]
fn runs_can_be_kept_in_memory_only() {
    let place = create_workspace();
    place.write("flowloom.toml", &format!("durability = \"memory\"\n{ECHO_CONFIG}"));
    let mut server = RunningServer::start(&place, &[]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask-a-person", "inputs": "tea"})).json();
    assert_eq!(get_text(&run, "status"), "waiting", "{run}");
    let path = format!("/api/v1/runs/{}", get_text(&run, "run_id"));
    assert_eq!(server.get(&path).json(), run);
    assert_eq!(
        get_text(&server.post(&format!("{path}/answer?wait=60"), &json!({"value": "yes"})).json(), "status"),
        "succeeded"
    );
    assert_eq!(server.get("/api/v1/runs?status=succeeded").json()["items"][0]["run_id"], run["run_id"]);
    let (events, is_done) = event_numbers(server.stream(&format!("{path}/events?from=2"), &[]));
    assert!(is_done && events.first() == Some(&3), "{events:?}");
    assert!(server.get("/metrics").body.contains("flowloom_runs{status=\"succeeded\"} 1\n"));
    send_signal(&server.child, "-TERM");
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    assert_eq!(RunningServer::start(&place, &[]).get(&path).status, 404);
}
