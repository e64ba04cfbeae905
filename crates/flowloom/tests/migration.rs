//! Databases that an older version of the program wrote: every run can be read, replayed and resumed, and nothing else is
//! lost. `databases/` has one database of each kind, with runs in every state.

mod support;

use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;

use flate2::read::GzDecoder;
use serde_json::Value;
use support::{Workspace, exit_code, stderr_text};

/// Settings under which the old runs can be resumed. No request leaves this machine.
const CONFIG: &str = "default_model = \"scripted:echo\"\n[embeddings]\nmodel = \"none\"\n";

fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).expect("a gzip file");
    bytes
}

#[test]
fn a_sqlite_database_of_schema_7_is_migrated() {
    let place = Workspace::new(CONFIG);
    std::fs::DirBuilder::new().mode(0o700).create(place.path("data")).expect("a folder");
    std::fs::write(place.path("data/flowloom.db"), unpack(include_bytes!("databases/sqlite-7.db.gz")))
        .expect("written");
    check_database(&place);
}

#[test]
fn a_postgres_database_of_schema_1_is_migrated() {
    let Some(database) = test_postgres::TestDatabase::create_database() else { return };
    let dump = String::from_utf8(unpack(include_bytes!("databases/postgres-1.sql.gz"))).expect("text");
    database.run_sql(&dump);
    check_database(&Workspace::new(&format!("database = \"{}\"\n{CONFIG}", database.url)));
}

/// Ids of the runs with this status.
fn run_ids(runs: &Value, status: &str) -> Vec<String> {
    let with_status = runs.as_array().expect("a list").iter().filter(|run| run["status"] == status);
    with_status.map(|run| run["run_id"].as_str().expect("an id").to_owned()).collect()
}

fn check_database(place: &Workspace) {
    let (code, runs) = place.run_json(&["runs", "--limit", "100"]);
    assert_eq!((code, runs.as_array().map(Vec::len)), (0, Some(12)), "{runs}");
    for run in runs.as_array().expect("a list") {
        let id = run["run_id"].as_str().expect("an id");
        let replayed = place.run(&["replay", id]);
        assert_eq!(exit_code(&replayed), 0, "{run}: {}", stderr_text(&replayed));
        assert_eq!(exit_code(&place.run(&["show", id])), 0, "{run}");
    }
    let (_, report) = place.run_json(&["doctor", "--read-data"]);
    let stored = report.as_array().and_then(|rows| rows.last()).expect("a check");
    assert_eq!((&stored["name"], &stored["ok"]), (&"stored data".into(), &true.into()), "{report}");
    check_unfinished(place);
    for list in [["schedule", "list"], ["hooks", "list"], ["keys", "list"]] {
        let (code, rows) = place.run_json(&list);
        assert_eq!((code, rows.as_array().map(Vec::len)), (0, Some(1)), "{list:?}: {rows}");
    }
    check_progress(place, &run_ids(&runs, "succeeded"));
}

/// Progress events of the authoring run have their new name and path.
fn check_progress(place: &Workspace, succeeded: &[String]) {
    let server = support::http::RunningServer::start(place, &[]);
    let key = place.run(&["keys", "create", "--name", "reader", "--scopes", "read"]);
    let header = format!("Authorization: Bearer {}", String::from_utf8_lossy(&key.stdout).trim());
    let read_events = |id| server.send_and_read("GET", &format!("/api/v1/runs/{id}/events"), &[&header], "").body;
    let text: String = succeeded.iter().map(read_events).collect();
    assert!(text.contains("event: progress\n") && text.contains("/progress~1"), "{text}");
    assert!(!text.contains("event: told\n") && !text.contains("/told~"), "{text}");
}

/// Interrupted runs are resumed, questions are answered and uncertain effects are resolved; then every run has ended.
fn check_unfinished(place: &Workspace) {
    let list = || place.run_json(&["runs", "--limit", "100"]).1;
    for id in run_ids(&list(), "interrupted") {
        // The request of these runs may not reach its host, or its effect is uncertain.
        let resumed = place.run_json(&["resume", &id]).1;
        let status = resumed["status"].as_str().unwrap_or_default();
        assert!(["failed", "cancelled", "uncertain"].contains(&status), "{resumed}");
    }
    for id in run_ids(&list(), "waiting") {
        let answered = place.run_json(&["answer", &id, "the sea"]).1;
        assert_eq!(answered["status"], "succeeded", "{answered}");
    }
    for id in run_ids(&list(), "uncertain") {
        let resolved = place.run_json(&["resolve", &id, "/r", "--value", "1"]).1;
        assert_eq!(resolved["status"], "succeeded", "{resolved}");
    }
    let runs = list();
    let ended = ["succeeded", "failed", "cancelled"].map(|status| run_ids(&runs, status).len());
    assert_eq!(ended.iter().sum::<usize>(), 12, "{runs}");
}
