//! The life of an API key: expiry, last use, rotation.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

fn print_secret(place: &Workspace, arguments: &[&str]) -> String {
    let output = place.run(&[&["keys"], arguments].concat());
    assert_eq!(exit_code(&output), 0, "{}", stderr_text(&output));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn call(server: &RunningServer, secret: &str) -> (u16, String) {
    let header = format!("Authorization: Bearer {secret}");
    let reply = server.send_and_read("GET", "/api/v1/runs", &[&header], "");
    (reply.status, if reply.status == 200 { String::new() } else { reply.error_code() })
}

fn find_listed(place: &Workspace, name: &str) -> Value {
    let (_, keys) = place.run_json(&["keys", "list"]);
    keys.as_array().into_iter().flatten().find(|key| key["name"] == name).expect("the key").clone()
}

#[test]
fn an_expired_key_is_refused_with_its_own_code() {
    let place = Workspace::with_hello("");
    // A program whose clock is a day behind creates it.
    let mut create = place.build_command(&["keys", "create", "--name", "past", "--expires", "1h"]);
    let created = create.env("FLOWLOOM_CLOCK_OFFSET_MS", "-86400000").output().expect("it runs");
    let past = String::from_utf8_lossy(&created.stdout).trim().to_owned();
    let valid = print_secret(&place, &["create", "--name", "valid", "--expires", "90d"]);
    let server = RunningServer::start(&place, &[]);
    assert_eq!(call(&server, &past), (401, "FL1515".to_owned()));
    assert_eq!(call(&server, &valid), (200, String::new()));
    // A new secret would not make the key valid again, a new expiry time does.
    let refused = place.run(&["keys", "rotate", "past"]);
    assert_eq!(exit_code(&refused), 2);
    assert!(stderr_text(&refused).contains("renew it with --expires"), "{}", stderr_text(&refused));
    assert_eq!(call(&server, &print_secret(&place, &["rotate", "past", "--expires", "1d"])).0, 200);
    let wrong = place.run(&["keys", "create", "--name", "x", "--expires", "soon"]);
    assert_eq!(exit_code(&wrong), 2);
    assert!(stderr_text(&wrong).contains("90d"), "{}", stderr_text(&wrong));
    let wrong = place.run(&["keys", "create", "--name", "x", "--expires", "2020-01-31"]);
    assert!(stderr_text(&wrong).contains("the time 2020-01-31 has passed"), "{}", stderr_text(&wrong));
}

#[test]
fn expired_keys_do_not_open_a_server() {
    let place = Workspace::with_hello("");
    print_secret(&place, &["create", "--name", "past", "--expires", "1ms"]);
    let server = RunningServer::start(&place, &[]);
    assert_eq!((server.get("/api/v1/runs").status, call(&server, "anything").1), (401, "FL1502".to_owned()));
}

#[test]
fn a_rotated_key_has_two_secrets_for_the_overlap() {
    let place = Workspace::with_hello("");
    place.write("ask.json", include_str!("../../../examples/steps/ask-a-person.json"));
    let create = ["create", "--name", "ci", "--scopes", "read,run", "--user", "ann"];
    let first = print_secret(&place, &create);
    let server = RunningServer::start(&place, &[]);
    let second = print_secret(&place, &["rotate", "ci", "--overlap", "1h"]);
    assert_eq!([call(&server, &first).0, call(&server, &second).0], [200, 200]);

    let headers = [&*format!("Authorization: Bearer {first}"), "Content-Type: application/json"];
    let body = r#"{"workflow": "ask-a-person", "inputs": "tea"}"#;
    let run = server.send_and_read("POST", "/api/v1/runs?wait=60", &headers, body).json();
    let events = format!("/api/v1/runs/{}/events", run["run_id"].as_str().expect("an id"));
    let mut stream = server.stream(&events, &headers[..1]);
    assert!(stream.next().is_some());

    let third = print_secret(&place, &["rotate", "ci"]);
    assert_eq!([call(&server, &first), call(&server, &second)], [(); 2].map(|()| (401, "FL1502".to_owned())));
    assert_eq!(call(&server, &third).0, 200);
    // The stream that the first secret opened ends.
    stream.for_each(drop);
    let listed = find_listed(&place, "ci");
    assert_eq!((&listed["user"], &listed["scopes"][1]), (&"ann".into(), &"run".into()), "{listed}");

    print_secret(&place, &create);
    let ambiguous = place.run(&["keys", "rotate", "ci"]);
    assert!(stderr_text(&ambiguous).contains("FL1402"), "{}", stderr_text(&ambiguous));
    assert!(stderr_text(&place.run(&["keys", "rotate", "nobody"])).contains("FL1502"));
}

#[test]
fn the_last_use_of_a_key_is_listed() {
    let place = Workspace::with_hello("");
    let used = print_secret(&place, &["create", "--name", "used", "--scopes", "read"]);
    print_secret(&place, &["create", "--name", "idle"]);
    let server = RunningServer::start(&place, &[]);
    assert_eq!([call(&server, &used).0, call(&server, &used).0], [200, 200]);
    // The second write is queued behind the first, and its reply comes after both.
    let key = print_secret(&place, &["create", "--name", "writer", "--scopes", "admin"]);
    let headers = [&*format!("Authorization: Bearer {key}"), "Content-Type: application/json"];
    let stored = server.send_and_read("PUT", "/api/v1/memory/ann/note", &headers, "1");
    assert!((200..300).contains(&stored.status), "{stored:?}");
    assert!(find_listed(&place, "used")["last_used_at"].is_u64());
    assert!(find_listed(&place, "idle")["last_used_at"].is_null());
    let listed = place.run(&["keys", "list"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("last used 20") && text.contains("never used"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn no_key_acts_for_the_user_whose_definitions_are_shared() {
    let place = Workspace::with_hello("");
    let refused = place.run(&["keys", "create", "--name", "k", "--user", "local", "--scopes", "read,run,write"]);
    let shown = stderr_text(&refused);
    assert!(shown.contains("FL1402") && shown.contains("leave out the user"), "{shown}");
    let key = print_secret(&place, &["create", "--name", "admin", "--scopes", "admin"]);
    let server = RunningServer::start(&place, &[]);
    let headers = [&*format!("Authorization: Bearer {key}"), "Content-Type: application/json"];
    let body = r#"{"name": "k", "scopes": ["write"], "user": "local"}"#;
    let refused = server.send_and_read("POST", "/api/v1/keys", &headers, body);
    assert_eq!((refused.status, refused.error_code().as_str()), (400, "FL1505"), "{refused:?}");
}

#[test]
fn a_caller_learns_what_its_key_permits() {
    let place = Workspace::with_hello("");
    let open = RunningServer::start(&place, &[]);
    let anyone = open.get("/api/v1/caller").json();
    assert_eq!(anyone, json!({"key": null, "user": null, "scopes": ["read", "run", "write", "admin"]}));
    drop(open);
    let writer = print_secret(&place, &["create", "--name", "writer", "--user", "ann", "--scopes", "write"]);
    let server = RunningServer::start(&place, &[]);
    let header = format!("Authorization: Bearer {writer}");
    let known = server.send_and_read("GET", "/api/v1/caller", &[&header], "").json();
    assert_eq!(known, json!({"key": "writer", "user": "ann", "scopes": ["read", "write"]}));
}
