//! Suspended runs with a command that only a server with their configuration applies: they count as interrupted everywhere,
//! and questions with a decision are not asked again.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::http::{HttpAnswer, RunningServer};
use support::{Workspace, exit_code, stderr_text};

const CONFIG: &str = "default_model = \"scripted:echo\"\nrecovery_interval_ms = 50\n";

/// The workflow that asks, as a function of others.
const FUNCTION: &str = "[functions.\"people::ask\"]\nworkflow = \"ask.json\"\n";

/// Another policy, under which runs of [`CONFIG`] are not continued.
const OTHER_CONFIG: &str = "[egress]\nallow = [\"127.0.0.1:9\"]\n";

fn new_step(name: &str, function: &str, prompt: &str) -> Value {
    json!({"name": name, "functionId": function, "mode": "sequential", "promptTemplate": prompt, "errorMode": "fail"})
}

/// A workspace, with the line of the configuration that names its database.
struct Place {
    files: Workspace,
    database: String,
}

impl Place {
    fn write_config(&self, more: &str) {
        self.files.write("flowloom.toml", &format!("{}{CONFIG}{FUNCTION}{more}", self.database));
    }
}

fn create_place(database: String) -> Place {
    let place = Workspace::new("");
    let ask = json!({"id": "ask", "name": "Ask", "steps": [new_step("q", "human::ask", "Which city?")]});
    place.write("ask.json", &ask.to_string());
    let outer = json!({"id": "outer", "name": "Outer", "steps": [new_step("run", "people::ask", "x")]});
    place.write("outer.json", &outer.to_string());
    let place = Place { files: place, database };
    place.write_config("");
    place
}

/// The output of a command that succeeds.
fn print_command(place: &Workspace, arguments: &[&str]) -> String {
    let output = place.run(arguments);
    assert_eq!(exit_code(&output), 0, "{}", stderr_text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts a run that asks, stops its server, and answers it at a server with another configuration.
fn answer_elsewhere(place: &Place, workflow: &str) -> (RunningServer, String) {
    let asked = RunningServer::start(&place.files, &[]);
    let run = asked.post("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": "x"})).json();
    assert_eq!(run["status"], "waiting", "{run}");
    drop(asked);
    place.write_config(OTHER_CONFIG);
    let server = RunningServer::start(&place.files, &[]);
    let run = run["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(send_answer(&server, &run, "first").status, 202);
    (server, run)
}

fn send_answer(server: &RunningServer, run: &str, value: &str) -> HttpAnswer {
    server.post(&format!("/api/v1/runs/{run}/answer?wait=0.3"), &json!({"value": value}))
}

#[track_caller]
fn assert_left_everywhere(place: &Workspace, server: &RunningServer, run: &str) {
    let one = server.get(&format!("/api/v1/runs/{run}")).json();
    assert_eq!(one["status"], "interrupted", "{one}");
    assert!(one["interruption"].as_str().is_some_and(|text| text.contains("FL1212")), "{one}");
    let asks = one["steps"].as_array().expect("steps").iter().any(|step| step["question"].is_string());
    assert!(!asks, "{one}");
    let listed = server.get("/api/v1/runs?status=interrupted").json();
    assert!(listed.to_string().contains(run), "{listed}");
    assert_eq!(server.get("/api/v1/runs?status=waiting").json()["items"], json!([]));
    let item = &listed["items"][0];
    assert!(item["interruption"].as_str().is_some_and(|text| text.contains("configuration")), "{item}");
    let metrics = server.get("/metrics").body;
    assert!(!metrics.contains("status=\"waiting\"}") && metrics.contains("{status=\"interrupted\"}"), "{metrics}");
    assert!(print_command(place, &["runs", "--status", "interrupted", "--json"]).contains(run));
    let shown = print_command(place, &["show", run]);
    assert!(shown.contains("FL1212") && !shown.contains("flowloom answer"), "{shown}");
}

#[test]
fn a_run_that_was_answered_elsewhere_is_interrupted_for_everybody() {
    let postgres = test_postgres::TestDatabase::create_database();
    let setting = postgres.as_ref().map(|database| format!("database = \"{}\"\n", database.url));
    for database in setting.into_iter().chain([String::new()]) {
        let place = create_place(database);
        let (server, run) = answer_elsewhere(&place, "ask");
        assert_left_everywhere(&place.files, &server, &run);
        let second = send_answer(&server, &run, "second");
        assert_eq!((second.status, second.error_code().as_str()), (409, "FL1208"), "{second:?}");
        assert!(second.json().to_string().contains("is stored but not applied yet"), "{second:?}");
        std::thread::sleep(Duration::from_millis(1100));
        let metrics = server.get("/metrics").body;
        assert!(!metrics.contains("flowloom_oldest_unfinished_seconds 0"), "{metrics}");
        assert!(metrics.contains("flowloom_open_questions 0"), "{metrics}");
        let log = server.read_log();
        assert!(log.contains("1 run was started under another configuration") && log.contains(&run), "{log}");
        drop(server);
        place.write_config("");
        let ended = RunningServer::start(&place.files, &[]).follow_to_end(&run);
        assert!(ended["status"] == "succeeded" && ended.to_string().contains("first"), "{ended}");
    }
}

#[test]
fn an_answer_to_a_child_run_leaves_the_runs_around_it() {
    let place = create_place(String::new());
    let (server, run) = answer_elsewhere(&place, "outer");
    assert_left_everywhere(&place.files, &server, &run);
    assert_eq!(send_answer(&server, &run, "second").status, 409);
}

/// Answers that arrive before any server can read the first.
#[test]
fn the_first_of_two_stored_answers_counts() {
    let place = create_place(String::new()).files;
    let asked = RunningServer::start(&place, &[]);
    let run = asked.post("/api/v1/runs?wait=60", &json!({"workflow": "ask", "inputs": "x"})).json();
    let run = run["run_id"].as_str().expect("an id").to_owned();
    drop(asked);
    print_command(&place, &["answer", &run, "first", "--no-resume"]);
    let second = place.run(&["answer", &run, "second", "--no-resume"]);
    assert!(exit_code(&second) != 0 && stderr_text(&second).contains("not applied yet"), "{}", stderr_text(&second));
    let ended = RunningServer::start(&place, &[]).follow_to_end(&run);
    assert!(ended["status"] == "succeeded" && ended.to_string().contains("first"), "{ended}");
}
