//! Schedules and webhooks.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{TestServer, Workspace, exit_code, stderr_text};

/// A flow that calls the test's own server.
fn flow_json(server: &TestServer) -> String {
    let url = format!("http://{}/called", server.address);
    json!({"name": "Beats", "description": "d", "steps": [
        {"type": "apiCall", "config": {"url": url, "method": "POST", "body": "{}", "bodyType": "json"}},
    ]})
    .to_string()
}

fn create_workspace(server: &TestServer) -> Workspace {
    let place = Workspace::new(&format!("default_model = \"scripted:echo\"\n{}", server.egress_config()));
    place.write("beats.json", &flow_json(server));
    place
}

/// A workspace with a schedule of every second.
fn create_scheduled_workspace(server: &TestServer) -> Workspace {
    let place = create_workspace(server);
    let added = place.run(&["schedule", "add", "beats.json", "--cron", "* * * * * *", "--id", "often"]);
    assert_eq!(exit_code(&added), 0, "{}", stderr_text(&added));
    place
}

#[test]
fn a_schedule_can_wait_for_its_last_run() {
    let world = TestServer::start();
    let place = create_workspace(&world);
    place.write("slow.json", &flow_json(&world).replace("/called", "/slow").replace("Beats", "Slow"));
    let add = |file: &str, more: &[&str]| {
        let arguments = [&["schedule", "add", file, "--cron", "* * * * * *"], more].concat();
        assert_eq!(exit_code(&place.run(&arguments)), 0);
    };
    add("slow.json", &["--overlap", "skip"]);
    add("beats.json", &[]);
    let _server = RunningServer::start(&place, &[]);
    world.wait_for_requests("/slow", 1);
    // The other schedule shows that the time passes.
    let passed = world.request_count("/called");
    world.wait_for_requests("/called", passed + 3);
    assert_eq!(world.request_count("/slow"), 1);
    let (_, listed) = place.run_json(&["schedule", "list"]);
    let slow = listed.as_array().and_then(|all| all.iter().find(|one| one["id"] == "slow")).expect("listed");
    assert_eq!(slow["overlap"], "skip");
    assert!(slow["last_error"].as_str().is_some_and(|error| error.ends_with("has not ended")), "{slow}");
    world.release_slow();
    world.wait_for_requests("/slow", 2);
}

#[test]
fn a_paused_schedule_starts_nothing() {
    let world = TestServer::start();
    let place = create_scheduled_workspace(&world);
    place.write("other.json", &flow_json(&world).replace("/called", "/other").replace("Beats", "Other"));
    let added = place.run(&["schedule", "add", "other.json", "--cron", "* * * * * *"]);
    assert_eq!(exit_code(&added), 0, "{}", stderr_text(&added));
    let (_, paused) = place.run_json(&["schedule", "pause", "often"]);
    assert_eq!(paused[0]["paused"], true, "{paused}");
    let misspelt = stderr_text(&place.run(&["schedule", "pause", "oftn"]));
    assert!(misspelt.contains("there is no schedule oftn; did you mean often?"), "{misspelt}");
    let server = RunningServer::start(&place, &[]);
    world.wait_for_requests("/other", 3);
    assert_eq!(world.request_count("/called"), 0);
    let resumed = server.post("/api/v1/schedules/often/resume", &json!({})).json();
    assert_eq!(resumed["paused"], false, "{resumed}");
    world.wait_for_requests("/called", 1);
    let missing = server.post("/api/v1/schedules/nothing/pause", &json!({}));
    assert_eq!(missing.status, 404, "{missing:?}");
}

#[test]
fn a_schedule_starts_runs_and_survives_its_server() {
    let world = TestServer::start();
    let place = create_scheduled_workspace(&world);
    let server = RunningServer::start(&place, &[]);
    world.wait_for_requests("/called", 2);
    drop(server);
    let before = world.request_count("/called");
    let server = RunningServer::start(&place, &[]);
    world.wait_for_requests("/called", before + 1);
    let listed = server.get("/api/v1/schedules").json();
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["workflow"]), (&json!("often"), &json!("beats")));
    assert!(listed["items"][0]["last_run"].is_string(), "{listed}");
    let list_runs = |trigger: &str| server.get(&format!("/api/v1/runs?trigger={trigger}"));
    let of_schedule = list_runs("schedule:often").json();
    assert_eq!(of_schedule["items"][0]["trigger"], json!({"kind": "schedule", "id": "often"}), "{of_schedule}");
    assert_eq!(list_runs("schedule:seldom").json()["items"], json!([]));
    assert_eq!(list_runs("webhook").json()["items"], json!([]));
    let unknown = list_runs("cron");
    assert!(unknown.status == 400 && unknown.body.contains("it is one of terminal, api"), "{unknown:?}");
    let (_, printed) = place.run_json(&["runs", "--trigger", "schedule:often"]);
    assert_eq!(printed[0]["trigger"]["id"], "often", "{printed}");
    let unknown = place.run(&["runs", "--trigger", "cron"]);
    assert!(exit_code(&unknown) == 2 && stderr_text(&unknown).contains("there is no trigger"), "{unknown:?}");
    assert_eq!(place.run(&["schedule", "remove", "often"]).status.code(), Some(0));
    assert_eq!(server.get("/api/v1/schedules").json()["items"], json!([]));
}

#[test]
fn a_clock_that_was_ahead_does_not_stop_a_schedule() {
    let world = TestServer::start();
    let place = create_scheduled_workspace(&world);
    let ahead = RunningServer::start_with(&place, &[], &[("FLOWLOOM_CLOCK_OFFSET_MS", "86400000")]);
    world.wait_for_requests("/called", 1);
    drop(ahead);
    let before = world.request_count("/called");
    let _server = RunningServer::start(&place, &[]);
    world.wait_for_requests("/called", before + 1);
}

#[test]
fn a_schedule_says_why_it_started_no_run() {
    let world = TestServer::start();
    let place = create_scheduled_workspace(&world);
    let server = RunningServer::start(&place, &[]);
    world.wait_for_requests("/called", 1);
    place.write("beats.json", "{\"name\": \"beats\", \"steps\": [{\"type\": \"nothing\"}]}");
    let listed = loop {
        let listed = server.get("/api/v1/schedules").json()["items"][0].clone();
        if listed["last_error"].is_string() {
            break listed;
        }
        std::thread::yield_now();
    };
    assert_eq!((&listed["last_error"], &listed["last_run"]), (&json!("the workflow beats has errors"), &Value::Null));
    let printed = String::from_utf8(place.run(&["schedule", "list"]).stdout).expect("UTF-8");
    assert!(printed.contains("the workflow beats has errors"), "{printed}");
}

#[test]
fn a_schedule_that_can_never_start_is_refused() {
    let place = Workspace::new("");
    place.write("needs.mdx", "---\ninput:\n  city:\n    type: text\n---\nHi {city}.\n");
    place.write("broken.json", "{\"name\": \"broken\", \"steps\": [{\"type\": \"nothing\"}]}");
    let server = RunningServer::start(&place, &[]);
    let put = |body: Value| {
        server.send_and_read("PUT", "/api/v1/schedules/s", &["Content-Type: application/json"], &body.to_string())
    };
    let every_minute =
        |workflow: &str, inputs: Value| json!({"workflow": workflow, "cron": "* * * * *", "inputs": inputs});
    let missing = put(every_minute("needs", json!({})));
    assert_eq!((missing.status, missing.error_code().as_str()), (422, "FL1031"), "{missing:?}");
    assert!(missing.body.contains("the input city is required\""), "{missing:?}");
    assert_eq!(put(every_minute("needs", json!({"city": "Bonn", "other": 1}))).error_code(), "FL1038");
    assert_eq!(put(every_minute("broken", json!({}))).status, 422);
    assert_eq!(put(every_minute("needs", json!({"city": "Bonn"}))).status, 200);
    let refused = place.run(&["schedule", "add", "needs.mdx", "--cron", "* * * * *"]);
    assert!(
        stderr_text(&refused).contains("the input city is required; give it with -i NAME=VALUE"),
        "{}",
        stderr_text(&refused)
    );
}

#[test]
fn schedules_are_put_over_http_and_refused_with_a_reason() {
    let world = TestServer::start();
    let place = create_workspace(&world);
    let server = RunningServer::start(&place, &[]);
    let put = |body: Value| {
        server.send_and_read("PUT", "/api/v1/schedules/s", &["Content-Type: application/json"], &body.to_string())
    };
    let kept = put(json!({"workflow": "beats", "cron": "0 6 * * 1-5", "timezone": "Europe/Berlin", "missed": "skip"}));
    assert_eq!((kept.status, &kept.json()["missed"]), (200, &json!("skip")), "{kept:?}");
    assert_eq!(put(json!({"workflow": "beats", "cron": "soon"})).error_code(), "FL1512");
    assert_eq!(put(json!({"workflow": "nobody", "cron": "* * * * *"})).status, 404);
    assert_eq!(server.send_and_read("DELETE", "/api/v1/schedules/s", &[], "").status, 204);
    assert_eq!(server.send_and_read("DELETE", "/api/v1/schedules/s", &[], "").error_code(), "FL1507");
    let bad = place.run(&["schedule", "add", "beats.json", "--cron", "soon"]);
    assert_eq!(exit_code(&bad), 2);
    assert!(stderr_text(&bad).contains("invalid cron expression \"soon\""), "{}", stderr_text(&bad));
}

#[test]
fn large_inputs_of_schedules_are_refused_or_left_out_of_lists() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let put = |id: &str, bytes: usize| {
        let body = json!({"workflow": "hello", "cron": "0 0 1 1 *", "inputs": "x".repeat(bytes)}).to_string();
        server.send_and_read("PUT", &format!("/api/v1/schedules/{id}"), &["Content-Type: application/json"], &body)
    };
    let refused = put("s", 1 << 20);
    assert_eq!((refused.status, refused.error_code().as_str()), (422, "FL1512"));
    for (id, bytes) in [("a", 3), ("b", 60_000)] {
        assert_eq!(put(id, bytes).json()["inputs"].as_str().map(str::len), Some(bytes));
    }
    let first = server.get("/api/v1/schedules?limit=1").json();
    assert_eq!((&first["items"][0]["inputs"], &first["items"][0]["skipped"]), (&json!("xxx"), &json!(0)));
    let cursor = first["next"].as_str().expect("another page");
    let second = server.get(&format!("/api/v1/schedules?limit=1&cursor={cursor}")).json();
    assert_eq!((&second["items"][0]["id"], &second["items"][0]["inputs"]), (&json!("b"), &json!(null)));
    assert_eq!(second["next"], json!(null));
    assert_eq!(server.get("/api/v1/schedules/b").json()["inputs"].as_str().map(str::len), Some(60_000));
    assert_eq!(server.get("/api/v1/schedules/c").status, 404);
    assert_eq!(server.get("/api/v1/schedules?limit=1001").status, 400);
}

#[test]
fn a_hook_takes_calls_that_know_its_secret() {
    let world = TestServer::start();
    let place = create_workspace(&world);
    let (_, made) = place.run_json(&["hooks", "add", "beats.json"]);
    let secret = made["secret"].as_str().expect("a secret").to_owned();
    let server = RunningServer::start(&place, &[]);
    let call = |headers: &[&str], body: &str| {
        server.send_and_read("POST", "/hooks/beats", &[&["Content-Type: application/json"], headers].concat(), body)
    };
    for wrong in [&[][..], &["X-Hook-Secret: flh_nonsense"], &["X-Hub-Signature-256: sha256=00"]] {
        assert_eq!((call(wrong, "{}").status, call(wrong, "{}").error_code()), (401, "FL1502".to_owned()));
    }
    let known = format!("X-Hook-Secret: {secret}");
    let taken = call(&[&known, "X-GitHub-Delivery: 1"], "{\"a\": 1}");
    assert_eq!(taken.status, 202, "{taken:?}");
    world.wait_for_requests("/called", 1);
    // The same delivery is sent again.
    assert_eq!(call(&[&known, "X-GitHub-Delivery: 1"], "{\"a\": 1}").json(), taken.json());
    assert_eq!(call(&[&known, "X-GitHub-Delivery: 1"], "{\"a\": 2}").status, 409);
    let run = server.get(&format!("/api/v1/runs/{}", taken.json()["run_id"].as_str().expect("an id"))).json();
    assert_eq!(run["name"], "Beats");
    assert_eq!(
        server.send_and_read("POST", "/hooks/nobody", &["Content-Type: application/json", &known], "{}").status,
        401
    );
    assert_eq!(call(&[&known], "{").status, 400);
    assert_eq!(call(&[&known, &format!("Webhook-Id: {}", "x".repeat(256))], "{}").status, 400);
    assert_eq!(call(&[&known, "Webhook-Id: a", "Webhook-Id: b"], "{}").status, 400);
    // Senders give one name to all deliveries of an event.
    let (_, made) = place.run_json(&["hooks", "add", "beats.json", "--id", "other"]);
    let other = format!("X-Hook-Secret: {}", made["secret"].as_str().expect("a secret"));
    let headers = ["Content-Type: application/json", &other, "X-GitHub-Delivery: 1"];
    assert_eq!(server.send_and_read("POST", "/hooks/other", &headers, "{\"a\": 1}").status, 202);
    let key = "Idempotency-Key: 1";
    let started = server.send_and_read(
        "POST",
        "/api/v1/runs",
        &["Content-Type: application/json", key],
        "{\"workflow\": \"beats\"}",
    );
    // 200 if the run finished before the response was written.
    assert!([200, 202].contains(&started.status), "{started:?}");
}

#[test]
fn a_hook_answers_without_the_body_if_no_secret_is_sent() {
    let world = TestServer::start();
    let place = create_workspace(&world);
    place.run_json(&["hooks", "add", "beats.json"]);
    let server = RunningServer::start(&place, &[]);
    for path in ["/hooks/beats", "/hooks/nobody"] {
        let mut stream = TcpStream::connect(&server.address).expect("it listens");
        // A client that asks first sends its body only if it may.
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\
             Expect: 100-continue\r\n\r\n",
            server.address
        );
        stream.write_all(head.as_bytes()).expect("sent");
        let mut status = [0; 12];
        stream.read_exact(&mut status).expect("answered");
        assert_eq!(&status, b"HTTP/1.1 401", "{path}");
    }
}

/// Calls a webhook with a body of 16 MiB whose last byte does not arrive.
fn send_unfinished_body(server: &RunningServer, proof: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&server.address).expect("it listens");
    let body_bytes = 16 << 20;
    let head = format!(
        "POST /hooks/push HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{proof}\r\n\
         Content-Length: {body_bytes}\r\n\r\n",
        server.address
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(&vec![b' '; body_bytes - 1]).expect("sent");
    stream
}

/// Whether a call was answered.
fn has_answer(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("it does not block");
    let is_readable = stream.peek(&mut [0]).is_ok();
    stream.set_nonblocking(false).expect("it blocks");
    is_readable
}

#[test]
fn bodies_with_made_up_signatures_take_no_room_from_calls_with_a_secret() {
    let world = TestServer::start();
    let place = create_workspace(&world);
    let refused = stderr_text(&place.run(&["hooks", "add", "beats.json", "--secret", "PUSH"]));
    assert!(refused.contains("set `webhooks = true` in [secrets.PUSH]") && !refused.contains("users"), "{refused}");
    place.write("flowloom.toml", &format!("{}\n[secrets.PUSH]\nwebhooks = true\n", world.egress_config()));
    let (_, made) = place.run_json(&["hooks", "add", "beats.json"]);
    let known = format!("X-Hook-Secret: {}", made["secret"].as_str().expect("a secret"));
    place.run_json(&["hooks", "add", "beats.json", "--secret", "PUSH", "--id", "push"]);
    let server = RunningServer::start_with(&place, &[], &[("FLOWLOOM_SECRET_PUSH", "key")]);
    let made_up = format!("X-Hub-Signature-256: sha256={}", "00".repeat(32));
    // Together, 64 MiB but for the last bytes, which never arrive.
    let mut open: Vec<TcpStream> = (0..4).map(|_| send_unfinished_body(&server, &made_up)).collect();
    let call = |path: &str, proof: &str| {
        server.send_and_read("POST", path, &["Content-Type: application/json", proof], "{\"a\": 1}").status
    };
    let is_full = (0..10_000).any(|_| {
        let is_refused = call("/hooks/push", &made_up) == 429;
        // Another body that arrives during this call may be the one that exceeds the limit.
        for stream in open.iter_mut().filter(|stream| has_answer(stream)) {
            *stream = send_unfinished_body(&server, &made_up);
        }
        is_refused
    });
    assert!(is_full, "{}", server.read_log());
    assert_eq!(call("/hooks/beats", &known), 202);
}

#[test]
fn a_hook_takes_calls_that_are_signed() {
    let world = TestServer::start();
    let place = create_workspace(&world);
    let add = || place.run(&["hooks", "add", "beats.json", "--secret", "PUSH", "--id", "push"]);
    let refused = add();
    assert_eq!(exit_code(&refused), 2);
    assert!(stderr_text(&refused).contains("FL1039"), "{}", stderr_text(&refused));
    place.write("flowloom.toml", &format!("{}\n[secrets.PUSH]\nwebhooks = true\n", world.egress_config()));
    assert_eq!(exit_code(&add()), 0);
    let server = RunningServer::start_with(&place, &[], &[("FLOWLOOM_SECRET_PUSH", "key")]);
    let call = |signature: &str| {
        let signature = format!("X-Hub-Signature-256: sha256={signature}");
        server
            .send_and_read("POST", "/hooks/push", &["Content-Type: application/json", &signature], "{\"a\": 1}")
            .status
    };
    // printf '{"a": 1}' | openssl dgst -sha256 -hmac key
    let right = "85e7b68cdf027474f0f0b8e2e63c4afb88cacf8a3e503aa13160f290dfc506d4";
    assert_eq!(call(&right.replace('0', "1")), 401);
    assert_eq!(call("é"), 401);
    assert_eq!(call(right), 202);
}

#[test]
fn users_do_not_learn_which_hooks_others_have() {
    let world = TestServer::start();
    let place = create_workspace(&world);
    let key_of = |user: &str| {
        let made = place.run(&["keys", "create", "--name", user, "--scopes", "read,write,run", "--user", user]);
        format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim())
    };
    let (ann, bob) = (key_of("ann"), key_of("bob"));
    let server = RunningServer::start(&place, &[]);
    let json_type = "Content-Type: application/json";
    let workflow = json!({"workflow": "beats"}).to_string();
    let put = |key: &str| server.send_and_read("PUT", "/api/v1/hooks/push", &[json_type, key], &workflow);
    let (of_ann, of_bob) = (put(&ann), put(&bob));
    assert_eq!((of_ann.status, of_bob.status), (200, 200), "{of_bob:?}");
    assert_eq!(of_bob.json()["path"], "/hooks/push?user=bob");
    // Replacing one's own hook makes its old secret worthless and leaves that of others.
    let again = put(&bob).json();
    let call = |path: &str, secret: &Value| {
        let secret = format!("X-Hook-Secret: {}", secret.as_str().expect("a secret"));
        server.send_and_read("POST", path, &[json_type, &secret], "{}").status
    };
    let (first, second) = (&of_ann.json()["secret"], &again["secret"]);
    assert_eq!((call("/hooks/push", first), call("/hooks/push?user=ann", first)), (202, 202));
    assert_eq!((call("/hooks/push", second), call("/hooks/push?user=bob", second)), (202, 202));
    assert_eq!((call("/hooks/push?user=bob", first), call("/hooks/push", &of_bob.json()["secret"])), (401, 401));
    let delete = |key: &str| server.send_and_read("DELETE", "/api/v1/hooks/push", &[key], "").status;
    assert_eq!((delete(&bob), delete(&bob), delete(&ann)), (204, 404, 204));
}

#[test]
fn lists_of_schedules_and_hooks_can_have_those_of_one_user() {
    let world = TestServer::start();
    let place = create_workspace(&world);
    let key_of = |name: &str, user: &[&str]| {
        let made = place.run(&[&["keys", "create", "--name", name, "--scopes", "read,write,run"], user].concat());
        format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim())
    };
    let (all, ann) = (key_of("all", &[]), key_of("ann", &["--user", "ann"]));
    let server = RunningServer::start(&place, &[]);
    for user in ["ann", "bob"] {
        let put = |path: &str, body: Value| {
            let path = format!("{path}?user={user}");
            let headers = ["Content-Type: application/json", all.as_str()];
            let stored = server.send_and_read("PUT", &path, &headers, &body.to_string());
            assert_eq!(stored.status, 200, "{stored:?}");
        };
        put("/api/v1/hooks/h", json!({"workflow": "beats"}));
        put("/api/v1/schedules/s", json!({"workflow": "beats", "cron": "0 6 * * *"}));
    }
    let both = json!(["ann", "bob"]);
    for path in ["/api/v1/hooks", "/api/v1/schedules"] {
        for (key, query, users) in [
            (&all, "", &both),
            (&all, "?user=bob", &json!(["bob"])),
            (&all, "?user=eve", &json!([])),
            (&ann, "", &json!(["ann"])),
            (&ann, "?user=ann", &json!(["ann"])),
        ] {
            let listed = server.send_and_read("GET", &format!("{path}{query}"), &[key], "").json();
            let items = listed["items"].as_array().expect("items").iter();
            let owners: Value = items.map(|item| item["user"].clone()).collect();
            assert_eq!(owners, *users, "{path}{query}: {listed}");
        }
        assert_eq!(server.send_and_read("GET", &format!("{path}?user=bob"), &[&ann], "").status, 404);
    }
}

#[test]
fn an_empty_list_names_the_command_that_adds_an_entry() {
    let place = Workspace::new("");
    for (list, command) in [("schedule", "schedule add"), ("hooks", "hooks add"), ("keys", "keys create")] {
        let listed = place.run(&[list, "list"]);
        let printed = stderr_text(&listed);
        assert!(exit_code(&listed) == 0 && listed.stdout.is_empty(), "{listed:?}");
        assert!(printed.starts_with("no ") && printed.contains(&format!("flowloom {command} ")), "{printed}");
    }
}

#[test]
fn a_new_hook_is_printed_with_the_call_that_starts_it() {
    let world = TestServer::start();
    let place = create_workspace(&world);
    let added = place.run(&["hooks", "add", "beats.json"]);
    let (printed, secret) = (stderr_text(&added), String::from_utf8_lossy(&added.stdout).trim().to_owned());
    let call = "curl -H \"X-Hook-Secret: $SECRET\" --json '{}' http://127.0.0.1:8700/hooks/beats\n";
    assert!(printed.contains(call) && secret.starts_with("flh_") && !printed.contains(&secret), "{printed}");
    assert!(!printed.contains("replaced"), "{printed}");
    let again = stderr_text(&place.run(&["hooks", "add", "beats.json"]));
    assert!(again.contains("replaced the webhook beats: its earlier secret is no longer accepted\n"), "{again}");
    place.write(
        "flowloom.toml",
        "[server]\npublic_url = \"https://example.com/flows\"\n[secrets.GITHUB]\nwebhooks = true\n",
    );
    let added = place.run(&["hooks", "add", "beats", "--id", "other", "--secret", "GITHUB"]);
    let printed = stderr_text(&added);
    let url = "https://example.com/flows/hooks/other";
    assert!(
        printed.contains(&format!("--json \"$body\" {url}\n")) && printed.contains("-hmac \"$FLOWLOOM_SECRET_GITHUB\""),
        "{printed}"
    );
}

/// Otherwise it would fail whenever it is due, unattended.
#[test]
fn a_conversation_is_not_scheduled_without_a_message() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let graph = json!({"id": "g", "name": "g", "entrypointNodeId": "n", "edges": [],
        "nodes": [{"id": "n", "workflowId": "g", "nodeType": "AGENT", "nodeName": "Ann", "agentId": "ann"}]});
    place.write("g.json", &graph.to_string());
    let schedule = |more: &[&str]| place.run(&[&["schedule", "add", "g.json", "--cron", "0 7 * * *"], more].concat());
    let refused = schedule(&[]);
    assert!(exit_code(&refused) != 0 && stderr_text(&refused).contains("no message"), "{}", stderr_text(&refused));
    let added = schedule(&["-i", "message=good morning"]);
    assert_eq!(exit_code(&added), 0, "{}", stderr_text(&added));
}
