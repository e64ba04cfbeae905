//! The audit log: who changed keys, definitions, memory, schedules, webhooks and secret bindings, who decided about runs, and who
//! may read that.

mod support;

use serde_json::{Value, json};
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

/// A name that does not fit into a line of a terminal.
const KEY_NAME: &str = "the key of ann, who writes workflows for the department of long names and titles";
const JSON_TYPE: &str = "Content-Type: application/json";

fn create_key(place: &Workspace, arguments: &[&str]) -> String {
    let output = place.run(&[&["keys", "create"], arguments].concat());
    assert_eq!(exit_code(&output), 0, "{}", stderr_text(&output));
    format!("Authorization: Bearer {}", String::from_utf8_lossy(&output.stdout).trim())
}

fn steps(description: &str) -> String {
    json!({"id": "mine", "name": "n", "description": description, "steps": []}).to_string()
}

/// Action, object, result and source of each entry, oldest first.
fn summarize(entries: &Value) -> Vec<[String; 4]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entry =
        |one: &Value| [text(&one["action"]), text(&one["object"]), text(&one["result"]), text(&one["by"]["source"])];
    let mut rows: Vec<_> = entries.as_array().expect("a list").iter().map(entry).collect();
    rows.reverse();
    rows
}

fn list_entries(place: &Workspace, arguments: &[&str]) -> Value {
    let (code, entries) = place.run_json(&[&["audit"], arguments].concat());
    assert_eq!(code, 0, "{entries}");
    entries
}

#[test]
fn changes_are_recorded_with_who_made_them() {
    let place = Workspace::with_hello("");
    let ann = create_key(&place, &["--name", KEY_NAME, "--scopes", "read,run,write", "--user", "ann"]);
    let server = RunningServer::start(&place, &[]);
    let call = |method: &str, path: &str, body: &str| {
        let headers: &[&str] = if body.is_empty() { &[&ann] } else { &[&ann, JSON_TYPE] };
        server.send_and_read(method, path, headers, body).status
    };
    assert_eq!(call("PUT", "/api/v1/workflows/mine", &steps("one")), 201);
    assert_eq!(call("PUT", "/api/v1/workflows/mine", &steps("one")), 200);
    assert_eq!(call("PUT", "/api/v1/workflows/mine", &steps("two")), 200);
    assert_eq!(call("PUT", "/api/v1/hooks/mine", &json!({"workflow": "mine"}).to_string()), 200);
    assert_eq!(call("DELETE", "/api/v1/workflows/mine", ""), 409);
    assert_eq!(call("DELETE", "/api/v1/hooks/mine", ""), 204);
    assert_eq!(call("DELETE", "/api/v1/workflows/mine", ""), 204);
    assert_eq!(call("PUT", "/api/v1/memory/ann/note", "\"a CANARY value\""), 204);
    assert_eq!(exit_code(&place.run(&["user", "set", "--user", "ann", "city=CANARY"])), 0);
    let entries = list_entries(&place, &["--user", "ann"]);
    let expected = [
        ["definition.put", "workflow mine", "created", "127.0.0.1"],
        ["definition.put", "workflow mine", "updated", "127.0.0.1"],
        ["hook.put", "webhook mine", "done", "127.0.0.1"],
        ["definition.delete", "workflow mine", "FL1509", "127.0.0.1"],
        ["hook.delete", "webhook mine", "done", "127.0.0.1"],
        ["definition.delete", "workflow mine", "deleted", "127.0.0.1"],
        ["memory.write", "memory note", "done", "127.0.0.1"],
        ["memory.write", "profile city", "done", "command line"],
    ];
    let found = summarize(&entries);
    assert_eq!(found[0][0], "key.create");
    assert_eq!(found[1..], expected.map(|row| row.map(str::to_owned)), "{entries}");
    let deleted = &entries[2]["by"];
    assert_eq!((&deleted["key_name"], &deleted["user"]), (&json!(KEY_NAME), &json!("ann")));
    // A run that writes memory is no person.
    assert!(!entries.to_string().contains("CANARY") && !entries.to_string().contains("fl_"), "{entries}");
    let printed = place.run(&["audit", "--since", "1h", "--limit", "3"]);
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(text.lines().count() == 6 && text.contains(KEY_NAME) && !text.contains('…'), "{text}");
    assert_eq!(list_entries(&place, &["--since", "2099-01-01"]), json!([]));
}

#[test]
fn a_tenant_sees_its_own_entries_and_an_admin_all() {
    let place = Workspace::with_hello("");
    let write = "read,run,write";
    let ann = create_key(&place, &["--name", "a", "--scopes", write, "--user", "ann"]);
    let bob = create_key(&place, &["--name", "b", "--scopes", write, "--user", "bob"]);
    let reader = create_key(&place, &["--name", "r", "--scopes", "read"]);
    let admin = create_key(&place, &["--name", "o", "--scopes", "admin"]);
    let server = RunningServer::start(&place, &[]);
    for key in ["one", "two", "three"] {
        let path = format!("/api/v1/memory/ann/{key}");
        assert_eq!(server.send_and_read("PUT", &path, &[&ann, JSON_TYPE], "1").status, 204);
    }
    let list = |key: &str, query: &str| server.send_and_read("GET", &format!("/api/v1/audit{query}"), &[key], "");
    let count = |key: &str, query: &str| list(key, query).json()["items"].as_array().map(Vec::len);
    assert_eq!([count(&ann, ""), count(&bob, ""), count(&admin, "")], [Some(4), Some(1), Some(7)]);
    assert_eq!(count(&admin, "?user=ann"), Some(4));
    assert_eq!((list(&reader, "").status, list(&reader, "").error_code()), (403, "FL1503".to_owned()));
    assert_eq!(list(&bob, "?user=ann").status, 404);
    let first = list(&ann, "?limit=3").json();
    let next = first["next"].as_str().expect("a cursor");
    let second = list(&ann, &format!("?limit=3&cursor={next}")).json();
    assert_eq!((&second["items"][0]["action"], &second["next"]), (&json!("key.create"), &Value::Null));
    assert_eq!(list(&ann, "?cursor=x").status, 400);
}

#[test]
fn schedules_and_decisions_about_runs_are_recorded() {
    let place = Workspace::with_hello("");
    let question = json!({"id": "ask", "name": "ask", "description": "d", "steps": [
        {"name": "q", "functionId": "human::ask", "mode": "sequential", "errorMode": "fail", "promptTemplate": "Which?"}]});
    place.write("ask.json", &question.to_string());
    let ann = create_key(&place, &["--name", "ann", "--scopes", "read,run,write", "--user", "ann"]);
    let server = RunningServer::start(&place, &[]);
    let call = |method: &str, path: &str, body: &str| {
        let headers: &[&str] = if body.is_empty() { &[&ann] } else { &[&ann, JSON_TYPE] };
        server.send_and_read(method, path, headers, body)
    };
    let schedule = json!({"workflow": "hello", "cron": "0 6 * * *"}).to_string();
    assert_eq!(call("PUT", "/api/v1/schedules/daily", &schedule).status, 200);
    assert_eq!(call("POST", "/api/v1/schedules/daily/pause", "").status, 200);
    assert_eq!(call("DELETE", "/api/v1/schedules/daily", "").status, 204);
    let asked = call("POST", "/api/v1/runs?wait=60", &json!({"workflow": "ask"}).to_string()).json();
    let run = asked["run_id"].as_str().expect("an id").to_owned();
    let answer = json!({"value": "a CANARY value"}).to_string();
    assert_eq!(call("POST", &format!("/api/v1/runs/{run}/answer"), &answer).status, 200);
    let entries = list_entries(&place, &["--user", "ann"]);
    let expected = [
        ["schedule.put", "schedule daily", "done", "127.0.0.1"],
        ["schedule.pause", "schedule daily", "done", "127.0.0.1"],
        ["schedule.delete", "schedule daily", "done", "127.0.0.1"],
        ["run.command", &format!("run {run}"), "stored", "127.0.0.1"],
    ];
    assert_eq!(summarize(&entries)[1..], expected.map(|row| row.map(str::to_owned)), "{entries}");
    assert_eq!((&entries[0]["detail"]["command"], &entries[0]["detail"]["path"]), (&json!("answer"), &json!("/q")));
    let printed = String::from_utf8_lossy(&place.run(&["audit"]).stdout).into_owned();
    assert!(printed.contains(&format!("run {run} of ann: answer /q (applied)")), "{printed}");
    assert_eq!(entries[4]["detail"]["scopes"], "read,run,write", "{entries}");
    assert!(!entries.to_string().contains("CANARY"), "{entries}");
}

#[test]
fn key_changes_and_secret_bindings_are_recorded() {
    let bound = "[secrets.SHOP]\nhosts = [\"shop.example\"]\n";
    let place = Workspace::with_hello("");
    create_key(&place, &["--name", "ci"]);
    assert_eq!(exit_code(&place.run(&["keys", "rotate", "ci"])), 0);
    assert_eq!(exit_code(&place.run(&["keys", "revoke", "ci"])), 0);
    let start = |config: &str| {
        place.write("flowloom.toml", config);
        let environment = [("FLOWLOOM_SECRET_SHOP", "a CANARY value")];
        drop(RunningServer::start_with(&place, &[], &environment));
    };
    [bound, bound, ""].into_iter().for_each(start);
    let entries = list_entries(&place, &[]);
    let actions: Vec<String> = summarize(&entries).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(actions, ["key.create", "key.rotate", "key.revoke", "secrets.bind", "secrets.bind"], "{entries}");
    assert_eq!(entries[1]["detail"]["SHOP"]["hosts"], json!(["shop.example"]));
    assert_eq!((&entries[0]["detail"], &entries[0]["by"]["source"]), (&json!({}), &json!("server")));
    assert!(!entries.to_string().contains("CANARY"), "{entries}");
}
