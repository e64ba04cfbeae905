//! A folder with several projects: commands use the project around each definition.

mod support;

use serde_json::json;
use support::{Workspace, exit_code, stderr_text};

fn write_file(place: &Workspace, file: &str, text: &str) {
    let path = place.path(file);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    std::fs::write(path, text).expect("written");
}

/// A workspace with the projects `a` and `b`, each with a function, a definition that calls it, and a test.
fn two_projects_with_functions() -> Workspace {
    let place = Workspace::new("");
    for project in ["a", "b"] {
        let function = format!("{project}::f");
        let config = format!("[functions.\"{function}\"]\nurl = \"https://a.example/f\"\n");
        write_file(&place, &format!("{project}/flowloom.toml"), &config);
        let step = json!({"name": "s", "functionId": function, "mode": "sequential", "promptTemplate": "x"});
        write_file(&place, &format!("{project}/w.json"), &json!({"name": project, "steps": [step]}).to_string());
        let test = json!({"definition": "../w.json", "inputs": "i", "steps": [{"path": "/s", "output": "r"}]});
        write_file(&place, &format!("{project}/tests/t.json"), &test.to_string());
    }
    place
}

fn stdout_text(output: &std::process::Output) -> String {
    assert_eq!(exit_code(output), 0, "{}", stderr_text(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn commands_for_a_folder_use_the_project_of_each_definition() {
    let place = two_projects_with_functions();
    let all = |arguments: &[&str]| place.run(arguments);
    for arguments in [&["check"][..], &["check", "a", "b"], &["check", "a/w.json", "b/w.json"]] {
        let checked = stdout_text(&all(arguments));
        assert!(checked.contains("a/w.json (steps): ok") && checked.contains("b/w.json (steps): ok"), "{checked}");
    }
    assert_eq!(stdout_text(&all(&["list"])).matches('✓').count(), 2);
    let tested = stdout_text(&all(&["test", "a/tests", "b/tests"]));
    assert!(tested.contains("2 passed"), "{tested}");
    assert_eq!(exit_code(&all(&["diff", "a/w.json", "b/w.json"])), 1, "they differ");
    // One project with a mistake does not hide the problems of the others.
    write_file(&place, "a/flowloom.toml", "[egress]\nallow = [\"localhost\"]\n");
    let checked = all(&["check"]);
    let report = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(exit_code(&checked) == 2 && report.contains("b/w.json (steps): ok"), "{report}");
    let place_of_mistake = "a/flowloom.toml:2:10: egress.allow must be a list of host:port";
    assert!(stderr_text(&checked).contains(place_of_mistake), "{}", stderr_text(&checked));
}
