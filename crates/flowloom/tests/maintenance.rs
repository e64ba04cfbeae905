//! Maintenance of the database: `backup`, `restore`, `prune`, and the lock that permits one server per data folder.

mod support;

use serde_json::json;
use support::http::RunningServer;
use support::{Workspace, exit_code, stderr_text};

#[test]
fn a_run_that_has_ended_can_be_deleted() {
    let step = |function: &str| {
        json!({"name": "s", "functionId": function, "mode": "sequential", "errorMode": "fail",
        "promptTemplate": "Hi"})
    };
    for durability in ["normal", "memory"] {
        let function = "[functions.\"run::hello\"]\nworkflow = \"hello.json\"\n";
        let place = Workspace::with_hello(&format!("durability = \"{durability}\"\n{function}"));
        for (id, function) in [("outer", "run::hello"), ("ask", "human::ask")] {
            place.write(&format!("{id}.json"), &json!({"id": id, "name": id, "steps": [step(function)]}).to_string());
        }
        let server = RunningServer::start(&place, &[]);
        let start = |workflow: &str| {
            let run = server.post("/api/v1/runs?wait=60", &json!({"workflow": workflow, "inputs": "x"})).json();
            format!("/api/v1/runs/{}", run["run_id"].as_str().expect("an id"))
        };
        let delete = |run: &str| server.send_and_read("DELETE", run, &[], "");
        let count = || server.get("/api/v1/runs").json()["items"].as_array().map(Vec::len);
        let (ended, waiting) = (start("outer"), start("ask"));
        let before = count();
        let refused = delete(&waiting);
        assert_eq!((refused.status, refused.error_code()), (409, "FL1208".to_owned()), "{refused:?}");
        assert!(refused.body.contains("it is waiting; cancel it first"), "{refused:?}");
        assert_eq!(delete(&ended).status, 204);
        assert_eq!((delete(&ended).status, server.get(&ended).status), (404, 404));
        assert_eq!(server.post(&format!("{waiting}/cancel"), &json!({})).status, 200);
        assert_eq!(delete(&waiting).status, 204);
        // The child run was deleted with its parent run.
        assert_eq!(count().map(|after| after + 3), before);
    }
    let place = Workspace::with_hello("");
    let kept = place.run(&["delete", "0000"]);
    assert_eq!(exit_code(&kept), 2, "{}", stderr_text(&kept));
    place.run(&["run", "hello.json", "-i", "input=x"]);
    let (exit, deleted) = place.run_json(&["delete", "last"]);
    assert_eq!((exit, deleted["deleted"].as_array().map(Vec::len)), (0, Some(1)), "{deleted}");
    assert!(stdout_of(&place, &["audit"]).contains("run.delete"));
}

fn stdout_of(place: &Workspace, arguments: &[&str]) -> String {
    String::from_utf8_lossy(&place.run(arguments).stdout).into_owned()
}

#[test]
fn a_backup_is_written_next_to_a_server_and_restored() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let start = || server.post("/api/v1/runs?wait=60", &json!({"workflow": "hello", "inputs": "hi"})).json();
    let kept = start();
    let file = place.path("copy.db");
    let file = file.to_str().expect("text");
    // A backup that was interrupted is of no use, and does not prevent the next one.
    place.write("copy.db.part", "half of a backup");
    assert_eq!(exit_code(&place.run(&["backup", file])), 0);
    assert!(!place.path("copy.db.part").exists());
    let refused = place.run(&["backup", "nowhere/copy.db"]);
    assert!(stderr_text(&refused).contains("cannot write the backup nowhere/copy.db: No such file"), "{refused:?}");
    let again = place.run(&["backup", file]);
    assert!(stderr_text(&again).contains("does not overwrite files"), "{}", stderr_text(&again));
    let lost = start();
    let in_use = place.run(&["restore", file, "--replace"]);
    assert!(stderr_text(&in_use).contains("is in use"), "{}", stderr_text(&in_use));
    drop(server);

    let there = place.run(&["restore", file]);
    assert!(stderr_text(&there).contains("--replace"), "{}", stderr_text(&there));
    let (exit, restored) = place.run_json(&["restore", file, "--replace"]);
    assert_eq!(exit, 0);
    let shown = |run: &serde_json::Value| place.run(&["show", run["run_id"].as_str().expect("an id")]);
    assert_eq!(exit_code(&shown(&kept)), 0);
    assert_eq!(exit_code(&shown(&lost)), 2);
    // The database that was replaced is kept, also when another one replaces the restored one.
    let replaced = restored["replaced"].as_str().expect("a file");
    assert!(replaced.ends_with("flowloom.db.replaced-1"), "{restored}");
    let (_, restored) = place.run_json(&["restore", replaced, "--replace"]);
    assert!(restored["replaced"].as_str().expect("a file").ends_with("flowloom.db.replaced-2"), "{restored}");
    assert_eq!(exit_code(&shown(&lost)), 0);
    // Runs continue to work in a restored database.
    assert_eq!(exit_code(&place.run(&["run", "hello.json", "-i", "input=x"])), 0);

    place.write("odd.db", "this is no database");
    let odd = place.run(&["restore", place.path("odd.db").to_str().expect("text"), "--replace"]);
    let message = stderr_text(&odd);
    assert!(message.contains("not a SQLite database") && message.contains("odd.db"), "{message}");
    assert_eq!(exit_code(&shown(&kept)), 0, "the existing data is untouched");
}

#[test]
fn a_damaged_run_is_reported_and_the_others_are_listed() {
    let place = Workspace::with_hello("");
    let [damaged, intact] = [(), ()].map(|()| {
        let (_, run) = place.run_json(&["run", "hello.json", "-i", "input=x"]);
        run["run_id"].as_str().expect("an id").to_owned()
    });
    let (_, report) = place.run_json(&["doctor", "--read-data"]);
    let stored = |report: &serde_json::Value| report.as_array().expect("a list").last().expect("a check").clone();
    assert_eq!(stored(&report)["ok"], true, "{report}");
    let connection = rusqlite::Connection::open(place.path("data/flowloom.db")).expect("it opens");
    let change = "update run set status = 'sUcceeded' where id = ?1";
    assert_eq!(connection.execute(change, [&damaged]).expect("changed"), 1);

    let listed = place.run(&["runs"]);
    let (rows, error) = (String::from_utf8_lossy(&listed.stdout).into_owned(), stderr_text(&listed));
    assert_eq!(exit_code(&listed), 1, "{error}");
    assert!(rows.contains(&intact) && !rows.contains(&damaged), "{rows}");
    assert!(error.contains("error[FL1304]") && error.contains(&damaged) && !error.contains(&intact), "{error}");
    let shown = place.run(&["show", &damaged]);
    assert_eq!(exit_code(&shown), 1);
    assert!(stderr_text(&shown).contains("flowloom doctor --read-data"), "{}", stderr_text(&shown));
    assert_eq!(exit_code(&place.run(&["show", &intact])), 0);

    let checked = place.run(&["doctor", "--read-data"]);
    let report = String::from_utf8_lossy(&checked.stdout);
    assert_eq!(exit_code(&checked), 1, "{report}");
    let lines = report.lines().skip_while(|line| !line.starts_with("✗ damage"));
    let lines: Vec<&str> = lines.collect();
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{report}");
    assert!(lines.concat().contains(&damaged) && lines.concat().contains("restore a backup"), "{report}");
    for command in [&["doctor", "--read-data"][..], &["doctor"]] {
        let (code, report) = place.run_json(command);
        assert_eq!((code, &stored(&report)["ok"]), (1, &json!(false)), "{report}");
    }
}

#[test]
fn doctor_reads_a_small_database_and_says_that_it_does_not_read_a_large_one() {
    let place = Workspace::with_hello("");
    let stored = || {
        let (_, report) = place.run_json(&["doctor"]);
        let last = report.as_array().expect("a list").last().expect("a check");
        last["value"].as_str().expect("a text").to_owned()
    };
    assert_eq!(exit_code(&place.run(&["run", "hello.json", "-i", "input=x"])), 0);
    assert!(stored().starts_with("1 runs with"), "{}", stored());
    let connection = rusqlite::Connection::open(place.path("data/flowloom.db")).expect("it opens");
    let grow = "create table filler (x); insert into filler values (zeroblob(66 << 20))";
    connection.execute_batch(grow).expect("written");
    assert_eq!(stored(), "not read; flowloom doctor --read-data");
}

#[test]
fn old_runs_are_pruned_as_asked_or_configured() {
    let place = Workspace::with_hello("[retention]\nsucceeded = \"0s\"\n");
    assert_eq!(exit_code(&place.run(&["run", "hello.json", "-i", "input=x"])), 0);
    assert_eq!(place.run_json(&["prune", "--older", "1d"]).1["succeeded"], 0);
    assert_eq!(place.run_json(&["prune", "--dry-run"]).1, json!({"succeeded": 1}));
    assert_eq!(place.run_json(&["runs"]).1.as_array().map(Vec::len), Some(1));
    let printed = place.run(&["prune"]);
    assert!(String::from_utf8_lossy(&printed.stdout).ends_with("1 runs deleted\n"), "{printed:?}");
    assert_eq!(place.run_json(&["runs"]).1, json!([]));
    assert_eq!(exit_code(&place.run(&["prune", "--older", "soon"])), 2);
    assert_eq!(exit_code(&place.run(&["prune", "--older", "1d", "--status", "running"])), 2);
}

#[test]
fn a_data_folder_has_one_server() {
    let place = Workspace::with_hello("");
    let server = RunningServer::start(&place, &[]);
    let second = place.run(&["serve", ".", "--bind", "127.0.0.1:0"]);
    assert_eq!(exit_code(&second), 1);
    assert!(stderr_text(&second).contains("another server uses the data folder"), "{}", stderr_text(&second));
    drop(server);
    drop(RunningServer::start(&place, &[]));
}

#[test]
fn a_database_that_cannot_be_opened_has_its_path_and_one_piece_of_advice_about_the_folder() {
    let place = Workspace::new("");
    std::fs::create_dir_all(place.path("data/flowloom.db")).expect("created");
    std::fs::set_permissions(place.path("data"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("set");
    let shown = stderr_text(&place.run(&["runs"]));
    let advice =
        "data/flowloom.db; check the permissions of the data folder; or choose another folder with --data-dir\n";
    assert!(shown.contains("FL1303") && shown.contains(advice), "{shown}");
    assert_eq!(shown.matches("choose").count(), 1, "{shown}");
}

#[test]
fn damage_is_found_when_a_backup_is_written_and_when_it_is_restored() {
    let place = Workspace::with_hello("");
    let (_, run) = place.run_json(&["run", "hello.json", "-i", "input=x"]);
    let run = run["run_id"].as_str().expect("an id");
    assert_eq!(place.run_json(&["backup", "good.db"]).1["damages"], json!([]));
    let connection = rusqlite::Connection::open(place.path("data/flowloom.db")).expect("it opens");
    connection.execute("update run set status = 'sUcceeded'", []).expect("changed");
    drop(connection);
    let backup = place.run(&["backup", "bad.db"]);
    let shown = stderr_text(&backup);
    assert_eq!(exit_code(&backup), 1, "{shown}");
    assert!(shown.contains("warning: the database is damaged") && shown.contains(run), "{shown}");

    let refused = place.run(&["restore", "bad.db", "--replace"]);
    let shown = stderr_text(&refused);
    assert_eq!(exit_code(&refused), 1, "{shown}");
    assert!(shown.contains("error[FL1304]") && shown.contains(run) && shown.contains("--allow-damage"), "{shown}");
    assert!(!place.path("data/restoring").exists() && !place.path("data/flowloom.db.replaced-1").exists());
    let (code, restored) = place.run_json(&["restore", "bad.db", "--replace", "--allow-damage"]);
    assert_eq!((code, restored["damages"].as_array().map(Vec::len)), (0, Some(1)), "{restored}");
    let (code, restored) = place.run_json(&["restore", "good.db", "--replace"]);
    assert_eq!((code, &restored["damages"]), (0, &json!([])), "{restored}");
    assert_eq!(exit_code(&place.run(&["show", run])), 0);
}

#[test]
fn a_damaged_bundle_is_reported_with_the_run_that_needs_it() {
    let place = Workspace::with_hello("");
    let (_, run) = place.run_json(&["run", "hello.json", "-i", "input=x"]);
    let run = run["run_id"].as_str().expect("an id");
    let connection = rusqlite::Connection::open(place.path("data/flowloom.db")).expect("it opens");
    for damage in ["update bundle set content = content || ' '", "delete from bundle"] {
        connection.execute(damage, []).expect("changed");
        for arguments in [["show", run], ["runs", "--json"]] {
            let read = place.run(&arguments);
            let shown = stderr_text(&read);
            assert_eq!(exit_code(&read), 1, "{shown}");
            assert!(shown.contains("error[FL1304]") && shown.contains(&format!("run {run} cannot be read")), "{shown}");
        }
    }
}

/// While the database is in use, most of it may be in its log.
#[test]
fn a_file_without_its_log_is_no_backup() {
    let place = Workspace::with_hello("");
    place.write("copy.db", "");
    let refused = place.run(&["restore", "copy.db"]);
    let shown = stderr_text(&refused);
    assert_eq!(exit_code(&refused), 1, "{shown}");
    assert!(shown.contains("copied without its write-ahead log") && shown.contains("flowloom backup"), "{shown}");
    assert!(!shown.contains("--read-data"), "that reads another database: {shown}");
}

/// Projects that share a database share no runs, and so no retention.
#[test]
fn the_runs_of_another_project_are_not_pruned() {
    let place = Workspace::with_hello("");
    let enter_project = |name: &str| {
        place.write("flowloom.toml", &format!("project = \"{name}\"\ndefault_model = \"scripted:echo\"\n"));
    };
    for project in ["", "b", "a"] {
        enter_project(project);
        let ran = place.run(&["run", "hello", "-i", "input=x"]);
        assert_eq!(exit_code(&ran), 0, "{}", stderr_text(&ran));
    }
    let pruned = place.run(&["prune", "--older", "0s"]);
    let printed = String::from_utf8_lossy(&pruned.stdout).into_owned();
    assert_eq!(printed.lines().last(), Some("1 runs deleted"), "{}", stderr_text(&pruned));
    for project in ["b", ""] {
        enter_project(project);
        let shown = place.run(&["show", "last"]);
        assert_eq!(exit_code(&shown), 0, "{project:?}: {}", stderr_text(&shown));
    }
}
