//! The HTTP API of the server.

mod support;

use serde_json::{Value, json};
use support::http::Serving;
use support::{Place, Server, exit, signal, stderr};

const ECHO: &str = "default_model = \"scripted:echo\"\n";

/// A step list with one step that calls the model.
fn steps(id: &str) -> Value {
    json!({"id": id, "name": id, "description": "d", "steps": [
        {"name": "s", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": "Say {{input}}"},
    ]})
}

fn place() -> Place {
    let place = Place::new(ECHO);
    place.write("hello.json", &steps("hello").to_string());
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    place.write("broken.mdx", "Hello {nobody}.\n\n<GenText as=\"a\" model=\"openai:gpt-4o\" />\n");
    place.write("README.md", "# Nothing to run\n");
    place
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

#[test]
fn definitions_are_listed_and_run() {
    let place = place();
    let server = Serving::start(&place, &[]);
    let listed = server.get("/api/v1/workflows").json();
    let ids: Vec<&str> = listed["items"].as_array().expect("a list").iter().map(|item| text(item, "id")).collect();
    assert_eq!(ids, ["ask-a-person", "broken", "hello"]);
    assert_eq!(server.get("/api/v1/workflows/hello").json()["format"], "steps");

    let reply = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "hi"}));
    assert_eq!(reply.status, 200, "{reply:?}");
    let run = reply.json();
    assert_eq!((text(&run, "status"), text(&run, "output")), ("succeeded", "LLM(Say hi)"));
    assert!(reply.head.contains(&format!("location: /api/v1/runs/{}", text(&run, "run_id"))), "{reply:?}");
    let seen = server.get(&format!("/api/v1/runs/{}", text(&run, "run_id"))).json();
    assert_eq!(seen, run);
    // The command line reads the same run from the same database.
    let (_, runs) = place.json(&["runs"]);
    assert_eq!(runs[0]["run_id"], run["run_id"]);

    let refused = server.post("/api/v1/runs", &json!({"workflow": "broken"}));
    assert_eq!((refused.status, refused.code()), (422, "FL1034".to_owned()));
    assert_eq!(refused.json()["errors"][0]["code"], "FL0608");
    let missing = server.post("/api/v1/runs", &json!({"workflow": "nobody"}));
    assert_eq!((missing.status, missing.code()), (404, "FL1507".to_owned()));
    assert_eq!(server.get("/api/v1/nowhere").code(), "FL1507");
    for body in ["{", "[]", r#"{"workflow": 1}"#, r#"{"workflow": "hello", "more": 1}"#] {
        let reply = server.call("POST", "/api/v1/runs", &["Content-Type: application/json"], body);
        assert_eq!((reply.status, reply.code()), (400, "FL1505".to_owned()), "{body}");
    }
}

#[test]
fn a_changed_file_counts_from_the_next_run() {
    let place = place();
    let server = Serving::start(&place, &[]);
    let start = || server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "hi"})).json();
    assert_eq!(text(&start(), "output"), "LLM(Say hi)");
    place.write("hello.json", &steps("hello").to_string().replace("Say ", "Now say it: "));
    assert_eq!(text(&start(), "output"), "LLM(Now say it: hi)");
    place.write("new.json", &steps("new").to_string());
    assert_eq!(server.get("/api/v1/workflows/new").status, 200);
}

#[test]
fn runs_are_paged() {
    let server_place = place();
    let server = Serving::start(&server_place, &[]);
    let start =
        |_| text(&server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"})).json(), "run_id").to_owned();
    let mut started: Vec<String> = (0..5).map(start).collect();
    started.reverse();
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/api/v1/runs?limit=2&status=succeeded{cursor}")).json();
        seen.extend(page["items"].as_array().expect("a list").iter().map(|item| text(item, "run_id").to_owned()));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, started);
    assert_eq!(server.get("/api/v1/runs?status=odd").code(), "FL1505");
    assert_eq!(server.get("/api/v1/runs?cursor=odd").code(), "FL1505");
}

#[test]
fn a_call_that_is_sent_twice_starts_one_run() {
    let place = place();
    let server = Serving::start(&place, &[]);
    let call = |key: &str, inputs: &str| {
        let headers = ["Content-Type: application/json", &format!("Idempotency-Key: {key}")];
        server.call(
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
    assert_eq!((reused.status, reused.code()), (409, "FL1506".to_owned()));
}

#[test]
fn calls_of_other_sites_are_refused() {
    let place = place();
    let server = Serving::start(&place, &["--host", "flows.example"]);
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
        let reply = server.call("POST", "/api/v1/runs?wait=60", &headers, &run);
        assert_eq!(reply.status, status, "{headers:?}: {reply:?}");
        assert_eq!(status == 403, reply.body.contains("FL1504"), "{headers:?}");
    }
}

#[test]
fn keys_say_who_may_do_what() {
    let place = place();
    let key = |arguments: &[&str]| {
        let output = place.run(&[&["keys", "create", "--name", "test"], arguments].concat());
        assert_eq!(exit(&output), 0);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let refused = place.run(&["serve", ".", "--bind", "0.0.0.0:0"]);
    assert_eq!(exit(&refused), 2);
    assert!(stderr(&refused).contains("FL1404"), "{}", stderr(&refused));

    let (ann, bob, eve) =
        (key(&["--user", "ann"]), key(&["--user", "bob"]), key(&["--scopes", "read", "--user", "ann"]));
    let server = Serving::start(&place, &[]);
    let call = |key: &str, method: &str, path: &str, body: &Value| {
        let headers = [&format!("Authorization: Bearer {key}"), "Content-Type: application/json"];
        server.call(method, path, &headers, &if body.is_null() { String::new() } else { body.to_string() })
    };
    assert_eq!((server.get("/api/v1/runs").status, server.get("/api/v1/runs").code()), (401, "FL1501".to_owned()));
    let unknown = call("fl_nobody", "GET", "/api/v1/runs", &Value::Null);
    assert_eq!((unknown.status, unknown.code()), (401, "FL1502".to_owned()));

    let started = call(&ann, "POST", "/api/v1/runs?wait=60", &json!({"workflow": "ask-a-person", "inputs": "tea"}));
    assert_eq!(started.status, 202, "{started:?}");
    let run = text(&started.json(), "run_id").to_owned();
    let too_small = call(&eve, "POST", "/api/v1/runs", &json!({"workflow": "hello"}));
    assert_eq!((too_small.status, too_small.code()), (403, "FL1503".to_owned()));
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

    let (_, keys) = place.json(&["keys", "list"]);
    assert!(!keys.to_string().contains(&ann), "the list contains no secret");
    let id =
        keys.as_array().expect("a list").iter().find(|key| key["user"] == "bob").map(|key| text(key, "id").to_owned());
    assert_eq!(exit(&place.run(&["keys", "revoke", &id.expect("bob's")])), 0);
    assert_eq!(call(&bob, "GET", "/api/v1/runs", &Value::Null).code(), "FL1502");
}

#[test]
fn a_run_that_waits_is_answered() {
    let place = place();
    let server = Serving::start(&place, &[]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask-a-person", "inputs": "tea"})).json();
    assert_eq!(text(&run, "status"), "waiting", "{run}");
    let path = format!("/api/v1/runs/{}", text(&run, "run_id"));
    let nothing = server.post(&format!("{path}/resolve"), &json!({"path": "/x", "how": "fail"}));
    assert_eq!((nothing.status, nothing.code()), (409, "FL1208".to_owned()));
    let answered = server.post(&format!("{path}/answer?wait=60"), &json!({"value": "yes"}));
    assert_eq!((answered.status, text(&answered.json(), "status")), (200, "succeeded"), "{answered:?}");
    let again = server.post(&format!("{path}/answer"), &json!({"value": "yes"}));
    assert_eq!((again.status, again.code()), (409, "FL1208".to_owned()));

    let other = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask-a-person", "inputs": "tea"})).json();
    let ended = server.call("POST", &format!("/api/v1/runs/{}/cancel?wait=60", text(&other, "run_id")), &[], "");
    assert_eq!((ended.status, text(&ended.json(), "status")), (200, "cancelled"), "{ended:?}");
}

/// The sequence numbers in the lines of a stream, and whether it was completed.
fn numbers(lines: impl Iterator<Item = String>) -> (Vec<u64>, bool) {
    let lines: Vec<String> = lines.collect();
    let ids = lines.iter().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
    (ids, lines.iter().any(|line| line == "event: done"))
}

#[test]
fn events_come_without_gap_across_a_crash() {
    let slow = Server::start();
    let place = Place::new(&format!("{ECHO}{}", slow.allowed()));
    place.write("flow.json", &support::two_calls(&slow, "GET", "/slow"));
    let mut server = Serving::start(&place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
    let path = format!("/api/v1/runs/{}/events", text(&run, "run_id"));
    slow.wait_for("/slow", 1);
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
    slow.release();

    let server = Serving::start(&place, &[]);
    let last = first.last().copied().expect("events");
    let (rest, is_done) = numbers(server.stream(&path, &[&format!("Last-Event-ID: {last}")]));
    assert!(is_done);
    let all: Vec<u64> = first.iter().chain(&rest).copied().collect();
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
    let (whole, _) = numbers(server.stream(&path, &[]));
    assert_eq!(whole, all);
    let (tail, _) = numbers(server.stream(&format!("{path}?from={last}"), &[]));
    assert_eq!(tail, rest);
    let run = server.get(path.trim_end_matches("/events")).json();
    assert_eq!(text(&run, "status"), "succeeded", "{run}");
    assert_eq!(slow.counted("/first"), 1, "finished steps are not repeated");
}

#[test]
fn the_text_of_answers_comes_with_the_events() {
    let place = place();
    let server = Serving::start(&place, &[]);
    let headers = ["Content-Type: application/json", "Accept: text/event-stream"];
    let body = json!({"workflow": "hello", "inputs": "hi"}).to_string();
    let reply = server.call("POST", "/api/v1/runs", &headers, &body);
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
    let slow = Server::start();
    let place = Place::new(&format!("{ECHO}{}", slow.allowed()));
    place.write("flow.json", &support::two_calls(&slow, "GET", "/slow"));
    let server = Serving::start(&place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
    slow.wait_for("/slow", 1);
    let path = format!("/api/v1/runs/{}", text(&run, "run_id"));
    assert_eq!(server.get(&path).json()["status"], "running");
    // The run still has its worker, which receives signals of other processes.
    assert_eq!(server.get("/api/v1/runs").json()["items"][0]["is_driven"], true);
    let cancelled = place.run(&["cancel", text(&run, "run_id")]);
    assert_eq!(exit(&cancelled), 0, "{}", stderr(&cancelled));
    assert_eq!(server.get(&path).json()["status"], "cancelled");
    slow.release();
}

#[test]
fn it_stops_when_it_is_told_to() {
    let slow = Server::start();
    let place = Place::new(&format!("{ECHO}{}", slow.allowed()));
    place.write("flow.json", &support::two_calls(&slow, "GET", "/slow"));
    let mut server = Serving::start(&place, &[]);
    let run = server.post("/api/v1/runs", &json!({"workflow": "flow"})).json();
    slow.wait_for("/slow", 1);
    signal(&server.child, "-TERM");
    slow.release();
    let status = server.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    let (_, shown) = place.json(&["runs"]);
    assert_eq!((text(&shown[0], "run_id"), text(&shown[0], "status")), (text(&run, "run_id"), "succeeded"));
}

#[test]
fn it_says_how_it_is() {
    let place = place();
    let server = Serving::start(&place, &[]);
    assert_eq!(server.get("/health/live").body, "ok");
    assert_eq!(server.get("/health/ready").body, "ok");
    server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello"}));
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("flowloom_runs{status=\"succeeded\"} 1\n"), "{metrics}");
    assert!(server.get("/errors/FL1507").body.starts_with("# FL1507"));
    let description = server.get("/openapi.json").json();
    assert!(text(&description, "openapi").starts_with("3.1"));
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("api");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("openapi", format!("{description:#}")));
}

#[test]
fn there_are_as_many_runs_as_there_may_be() {
    let slow = Server::start();
    let place = Place::new(&format!("{ECHO}{}", slow.allowed()));
    place.write("flow.json", &support::two_calls(&slow, "GET", "/slow"));
    let server = Serving::start(&place, &["--max-runs", "1"]);
    server.post("/api/v1/runs", &json!({"workflow": "flow"}));
    slow.wait_for("/slow", 1);
    let refused = server.post("/api/v1/runs", &json!({"workflow": "flow"}));
    assert_eq!((refused.status, refused.code()), (429, "FL1508".to_owned()));
    assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
    slow.release();
}

#[test]
fn runs_can_be_kept_in_memory_only() {
    let place = place();
    place.write("flowloom.toml", &format!("durability = \"memory\"\n{ECHO}"));
    let mut server = Serving::start(&place, &[]);
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask-a-person", "inputs": "tea"})).json();
    assert_eq!(text(&run, "status"), "waiting", "{run}");
    let path = format!("/api/v1/runs/{}", text(&run, "run_id"));
    assert_eq!(server.get(&path).json(), run);
    assert_eq!(
        text(&server.post(&format!("{path}/answer?wait=60"), &json!({"value": "yes"})).json(), "status"),
        "succeeded"
    );
    assert_eq!(server.get("/api/v1/runs?status=succeeded").json()["items"][0]["run_id"], run["run_id"]);
    let (events, is_done) = numbers(server.stream(&format!("{path}/events?from=2"), &[]));
    assert!(is_done && events.first() == Some(&3), "{events:?}");
    assert!(server.get("/metrics").body.contains("flowloom_runs{status=\"succeeded\"} 1\n"));
    signal(&server.child, "-TERM");
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    assert_eq!(Serving::start(&place, &[]).get(&path).status, 404);
}
