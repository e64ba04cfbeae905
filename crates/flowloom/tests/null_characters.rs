//! Null characters, which JSON can have and Postgres does not store as text: they are refused where a name has them, and do no
//! harm in the content of runs.

mod support;

use serde_json::json;
use support::Workspace;
use support::http::RunningServer;

/// A step list that sets a key of the memory.
const SET_KEY: &str = r#"{"id": "set", "name": "set", "description": "d", "steps": [{"name": "s", "mode": "sequential",
    "functionId": "memory::set", "promptTemplate": "{\"key\": \"a\\u0000\", \"value\": \"b\"}", "errorMode": "fail"}]}"#;

fn start_server(config: &str) -> (RunningServer, Workspace) {
    let place = Workspace::with_hello("");
    place.write("flowloom.toml", &format!("{config}\ndefault_model = \"scripted:echo\"\n"));
    place.write("set.json", SET_KEY);
    (RunningServer::start(&place, &[]), place)
}

fn check_names_and_content(config: &str) {
    let (server, _place) = start_server(config);
    // The output of a step has null characters: it is kept, and counted.
    let answered = server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "a\0b"})).json();
    assert_eq!(answered["status"], "succeeded", "{answered}");
    let counted = server.get("/api/v1/statistics/models?days=1");
    assert_eq!(counted.status, 200, "{counted:?}");
    // The run ends: it is not tried again and again.
    let refused = server.post("/api/v1/runs?wait=60", &json!({"workflow": "set", "inputs": "x"})).json();
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!("failed"), &json!("FL1034")), "{refused}");
    for path in ["/api/v1/runs", "/api/v1/estimate"] {
        let unknown = server.post(path, &json!({"workflow": "hello\0", "inputs": "x"}));
        assert!((400..500).contains(&unknown.status), "{path}: {unknown:?}");
        assert!(!unknown.body.contains("127.0.0.1"), "{path}: {unknown:?}");
    }
}

#[test]
fn null_characters_do_no_harm_on_sqlite() {
    check_names_and_content("");
}

#[test]
fn null_characters_do_no_harm_on_postgres() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    check_names_and_content(&format!("database = \"{}\"", database.url));
}
