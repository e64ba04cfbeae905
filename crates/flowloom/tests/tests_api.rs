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
    let expected = json!([{"file": "ask.json", "name": "Ask", "definition": "../ask.json", "workflow": null},
        {"file": "broken.json", "name": null, "definition": "../none.json", "workflow": null}]);
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

/// A server with the step list `ask` in its database, and the id of a run of it.
fn start_with_stored(place: &Workspace) -> (RunningServer, String) {
    let server = RunningServer::start(place, &[]);
    store_definition(&server, &definition("Say {{input}}"));
    let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": "ask", "inputs": "tea"})).json();
    let run = run["run_id"].as_str().expect("an id").to_owned();
    (server, run)
}

fn store_definition(server: &RunningServer, text: &str) {
    let stored = server.send_and_read("PUT", "/api/v1/workflows/ask", &["Content-Type: application/json"], text);
    assert!(matches!(stored.status, 200 | 201), "{stored:?}");
}

#[test]
fn a_test_of_a_stored_workflow_is_saved_run_and_accepted() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let (server, run) = start_with_stored(&place);
    let route = format!("/api/v1/runs/{run}/test");
    assert_eq!(server.get(&route).json()["workflow"], "ask");
    let saved = server.post(&route, &json!({"file": "deep/ask.json"}));
    let info = json!({"file": "deep/ask.json", "name": "Ask", "definition": null, "workflow": "ask"});
    assert_eq!((saved.status, saved.json()), (201, info), "{saved:?}");
    let run_tests = |body| server.post("/api/v1/tests", &body).json()["items"][0].clone();
    assert_eq!(run_tests(json!({}))["passed"], true);

    store_definition(&server, &definition("Whisper {{input}}"));
    let failed = run_tests(json!({}));
    assert_eq!((&failed["passed"], &failed["updated"]), (&json!(false), &json!(false)), "{failed}");
    let accepted = run_tests(json!({"files": ["deep/ask.json"], "update": true}));
    assert_eq!((&accepted["passed"], &accepted["updated"]), (&json!(true), &json!(true)), "{accepted}");
    let again = run_tests(json!({}));
    assert_eq!((&again["passed"], &again["updated"]), (&json!(true), &json!(false)), "{again}");

    // The terminal finds the same workflow.
    let ran = place.run(&["test", "tests"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let recorded = place.run(&["test", "record", &run, "--as", "tests/again.json"]);
    assert_eq!(recorded.status.code(), Some(0), "{recorded:?}");
    let again = std::fs::read_to_string(place.path("tests/again.json")).expect("a file");
    assert!(again.contains("\"workflow\": \"ask\""));
}

#[test]
fn a_file_of_tests_is_not_replaced_by_accident() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let (server, run) = start_with_stored(&place);
    let save = |body| server.post(&format!("/api/v1/runs/{run}/test"), &body);
    assert_eq!(save(json!({"file": "ask.json"})).status, 201);
    assert_eq!(save(json!({"file": "ask.json"})).error_code(), "FL1517");
    assert_eq!(save(json!({"file": "ask.json", "replace": true})).status, 201);
    std::os::unix::fs::symlink("/tmp", place.path("tests/elsewhere")).expect("a link");
    for outside in ["../ask.json", "/tmp/ask.json", "elsewhere/ask.json", "ask.txt", ".ask.json", "", "a\nb.json"] {
        let refused = save(json!({"file": outside}));
        assert_eq!((refused.status, refused.error_code()), (400, "FL1505".to_owned()), "{outside:?}");
    }
}

#[test]
fn a_linked_folder_of_tests_is_not_listed() {
    let (place, elsewhere) =
        (Workspace::new("default_model = \"scripted:echo\"\n"), tempfile::tempdir().expect("a folder"));
    place.write("ask.json", &definition("Say {{input}}"));
    let test = json!({"workflow": "ask", "inputs": "x", "expect": {}}).to_string();
    std::fs::write(elsewhere.path().join("secret.json"), test).expect("written");
    std::os::unix::fs::symlink(elsewhere.path(), place.path("tests")).expect("a link");
    let server = RunningServer::start(&place, &[]);
    assert_eq!(server.get("/api/v1/tests").json()["items"], json!([]));
}

#[test]
fn a_test_names_a_workflow_that_exists() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    place.write("ask.json", &definition("Say {{input}}"));
    std::fs::create_dir(place.path("tests")).expect("new");
    let run = |test: Value| {
        place.write("tests/one.json", &test.to_string());
        let ran = place.run(&["test"]);
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let by_id =
        json!({"workflow": "ask", "inputs": "tea", "answers": ["Tea."], "expect": {"output": [{"contains": "Tea"}]}});
    assert_eq!(run(by_id), (Some(0), String::new()));
    for (test, message) in [
        (json!({"workflow": "aks", "expect": {}}), "there is no workflow aks; did you mean ask?"),
        (json!({"workflow": "ask", "definition": "../ask.json", "expect": {}}), "not both"),
    ] {
        let (code, printed) = run(test);
        assert_eq!(code, Some(2), "{printed}");
        assert!(printed.contains(message), "{printed}");
    }
}

#[test]
fn a_definition_that_was_sent_has_no_name_for_a_test() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let server = RunningServer::start(&place, &[]);
    let block = json!({"id": "tea", "name": "Tea", "description": "d", "category": "process",
        "execution_type": "python", "source_code": "async def execute(inputs, context):\n    return {}\n",
        "input_schema": {"type": "object"}, "output_schema": {"type": "object"}});
    let pipeline =
        json!({"id": "p", "name": "p", "nodes": [{"id": "n", "block_id": "tea", "inputs": {}}], "edges": []});
    let ran = server.post("/api/pipeline/run", &json!({"pipeline": pipeline, "blocks": [block]}));
    let runs = server.get("/api/v1/runs").json();
    let run = runs["items"][0]["run_id"].as_str().unwrap_or_else(|| panic!("no run: {ran:?}")).to_owned();
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
    let made = place.run(&["keys", "create", "--name", "ci", "--scopes", "read,run"]);
    let key = format!("Authorization: Bearer {}", String::from_utf8_lossy(&made.stdout).trim());
    let headers = [&*key, "Content-Type: application/json"];
    assert_eq!(server.send_and_read("POST", "/api/v1/tests", &headers, "{}").status, 200);
    assert_eq!(server.send_and_read("POST", "/api/v1/tests", &headers, "{\"update\": true}").status, 403);
}
