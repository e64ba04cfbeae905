//! Tests of workflows over HTTP: a run becomes a test, and the tests of the project are run.

mod support;

use serde_json::{Value, json};
use support::Workspace;
use support::http::RunningServer;

/// A step list that asks a model once.
fn definition(prompt: &str) -> String {
    let step = json!({"name": "answer", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": prompt,
        "errorMode": "fail"});
    json!({"id": "ask", "name": "Ask", "steps": [step]}).to_string()
}

#[test]
fn a_run_becomes_a_test_that_fails_when_the_definition_changes() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("ask.json", &definition("Say {{input}}"));
    let server = RunningServer::start(&place, &[]);
    assert_eq!(server.get("/api/v1/tests").json()["items"], json!([]));
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask", "inputs": "tea"})).json();
    assert_eq!(run["status"], "succeeded", "{run}");
    let run = run["run_id"].as_str().expect("an id");
    let recorded = server.get(&format!("/api/v1/runs/{run}/test"));
    assert_eq!(recorded.json()["definition"], "../ask.json", "{recorded:?}");
    std::fs::create_dir(place.path("tests")).expect("new");
    place.write("tests/ask.json", &recorded.body);
    place.write("tests/broken.json", &json!({"definition": "../none.json", "expect": {}}).to_string());

    let listed = server.get("/api/v1/tests").json();
    let expected = json!([{"file": "ask.json", "name": "Ask", "definition": "../ask.json"},
        {"file": "broken.json", "name": null, "definition": "../none.json"}]);
    assert_eq!(listed["items"], expected);
    let run_all = || server.post("/api/v1/tests", &json!({})).json()["items"].as_array().cloned().expect("a list");
    let passed = |items: &[Value]| items.iter().map(|item| item["passed"] == json!(true)).collect::<Vec<_>>();
    let items = run_all();
    assert_eq!(passed(&items), [true, false], "{items:?}");
    assert_eq!(items[1]["problems"][0]["place"], "file");

    place.write("ask.json", &definition("Whisper {{input}}"));
    let one = server.post("/api/v1/tests", &json!({"files": ["ask.json"]})).json();
    assert_eq!((one["items"].as_array().map(Vec::len), &one["items"][0]["passed"]), (Some(1), &json!(false)), "{one}");
    assert!(one["items"][0]["problems"][0]["found"].as_str().is_some_and(|text| text.contains("Whisper")), "{one}");
}

#[test]
fn a_test_finds_its_definition_from_any_working_folder() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    std::fs::create_dir_all(place.path("shop/flows")).expect("new");
    place.write("shop/flowloom.toml", "default_model = \"scripted:echo\"\n");
    place.write("shop/flows/ask.json", &definition("Say {{input}}"));
    let server = RunningServer::spawn_command(place.build_command(&["serve", "shop", "--bind", "127.0.0.1:0"]));
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask", "inputs": "tea"})).json();
    let recorded = server.get(&format!("/api/v1/runs/{}/test", run["run_id"].as_str().expect("an id")));
    assert_eq!(recorded.json()["definition"], "../flows/ask.json", "{recorded:?}");
}

#[test]
fn a_definition_in_the_database_has_no_path_that_a_test_could_name() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let server = RunningServer::start(&place, &[]);
    let headers = ["Content-Type: application/json"];
    let stored = server.send_and_read("PUT", "/api/v1/workflows/ask", &headers, &definition("Say {{input}}"));
    assert_eq!(stored.status, 201, "{stored:?}");
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask", "inputs": "tea"})).json();
    let run = run["run_id"].as_str().expect("an id");
    let refused = server.get(&format!("/api/v1/runs/{run}/test"));
    assert_eq!(refused.error_code(), "FL1505", "{refused:?}");
    assert!(refused.body.contains("?definition="), "{refused:?}");
    let named = server.get(&format!("/api/v1/runs/{run}/test?definition=../ask.json"));
    assert_eq!(named.json()["definition"], "../ask.json", "{named:?}");
}

#[test]
fn tests_of_the_project_are_not_for_tenants() {
    let place = Workspace::new("");
    let made = place.run(&["keys", "create", "--name", "ann", "--scopes", "read,run", "--user", "ann"]);
    let key = format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim());
    let server = RunningServer::start(&place, &[]);
    assert_eq!(server.send_and_read("GET", "/api/v1/tests", &[&key], "").status, 403);
    let headers = [&*key, "Content-Type: application/json"];
    assert_eq!(server.send_and_read("POST", "/api/v1/tests", &headers, "{}").status, 403);
}
