//! The output of `check` for invalid definitions: one snapshot per file under `diagnostics/`.

mod support;

use std::path::{Path, PathBuf};

use support::{Workspace, exit_code, stderr_text};

/// The definitions of one format, sorted by name.
fn list_definitions(format: &str) -> Vec<PathBuf> {
    let files =
        std::fs::read_dir(diagnostics_folder(format)).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind != "snap")).collect();
    files.sort();
    files
}

/// The folder of definitions and snapshots.
fn diagnostics_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics").join(name)
}

/// Snapshots are stored next to the definitions, under the same names.
fn snapshot_settings(kind: &str) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(diagnostics_folder(kind));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name")
}

fn check_all(format: &str) {
    for path in list_definitions(format) {
        let place = Workspace::new("");
        std::fs::copy(&path, place.path(file_name(&path))).expect("copied");
        let output = place.run(&["check", file_name(&path)]);
        let printed =
            format!("{}{}exit {}\n", stderr_text(&output), String::from_utf8_lossy(&output.stdout), exit_code(&output));
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        snapshot_settings(format).bind(|| insta::assert_snapshot!(stem, printed));
    }
}

#[test]
fn flows_report_what_is_wrong() {
    check_all("flow");
}

#[test]
fn step_lists_report_what_is_wrong() {
    check_all("steps");
}

#[test]
fn markdown_is_reported_what_is_wrong() {
    check_all("markdown");
}

#[test]
fn pipelines_report_what_is_wrong() {
    check_all("pipeline");
}

#[test]
fn graphs_report_what_is_wrong() {
    check_all("graph");
}

#[test]
fn agents_report_what_is_wrong() {
    check_all("agent");
}

#[test]
fn machines_read_the_same() {
    let place = Workspace::new("");
    std::fs::copy(diagnostics_folder("flow").join("wild.json"), place.path("wild.json")).expect("copied");
    for style in ["json", "github", "sarif"] {
        let output = place.run(&["check", "wild.json", "--report", style]);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        snapshot_settings("reports").bind(|| insta::assert_snapshot!(format!("wild.{style}"), printed));
    }
}

#[test]
fn agents_are_reported_what_they_may_not_do() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n[agents.reader]\ntools = [\"agent::\"]\n");
    place.write(
        "w.json",
        r#"{
  "name": "More than granted",
  "description": "d",
  "steps": [
    {"name": "say", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail"},
    {"name": "keep", "functionId": "memory::set", "mode": "sequential", "errorMode": "fail"},
    {"name": "look", "functionId": "memory::get", "mode": "sequential", "errorMode": "fail"}
  ]
}
"#,
    );
    let mut printed = String::new();
    for agent in ["reader", "nobody"] {
        let output = place.run(&["run", "w.json", "-i", "input=x", "--agent", agent]);
        printed += &format!("--agent {agent}\n{}exit {}\n\n", stderr_text(&output), exit_code(&output));
    }
    snapshot_settings("agents").bind(|| insta::assert_snapshot!("refused", printed));
}

/// A path that names nothing does not hide the problems of the others.
#[test]
fn every_path_is_checked() {
    let place = Workspace::new("");
    std::fs::copy(diagnostics_folder("flow").join("wild.json"), place.path("wild.json")).expect("copied");
    let output = place.run(&["check", "nowhere", "wild.json", "gone.json"]);
    let (errors, exit) = (stderr_text(&output), exit_code(&output));
    assert_eq!(exit, 2, "{errors}");
    for part in ["[wild.json:9:48]", "nowhere", "gone.json"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let (exit, printed) = place.run_json(&["check", "nowhere", "wild.json"]);
    assert_eq!((exit, printed["problems"][0]["file"].as_str()), (2, Some("wild.json")), "{printed}");
}

/// Characters that separate the properties of a command of GitHub, or that a URI has not.
#[test]
fn names_of_files_are_escaped_in_reports() {
    let place = Workspace::new("");
    let name = "a,b: 100% #1.json";
    std::fs::copy(diagnostics_folder("flow").join("wild.json"), place.path(name)).expect("copied");
    let printed =
        |style: &str| String::from_utf8_lossy(&place.run(&["check", name, "--report", style]).stdout).into_owned();
    let github = printed("github");
    assert!(github.contains(" file=a%2Cb%3A 100%25 #1.json,line="), "{github}");
    let sarif = printed("sarif");
    assert!(sarif.contains(r#""uri": "a%2Cb%3A%20100%25%20%231.json""#), "{sarif}");
}
