//! The output of `check` for invalid definitions: one snapshot per file under `diagnostics/`.

mod support;

use std::path::{Path, PathBuf};

use support::{Place, exit, stderr};

/// The definitions of one format, sorted by name.
fn definitions(format: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder(format)).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind != "snap")).collect();
    files.sort();
    files
}

/// The folder of definitions and snapshots.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics").join(name)
}

/// Snapshots are stored next to the definitions, under the same names.
fn snapshots(kind: &str) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder(kind));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name")
}

fn check_all(format: &str) {
    for path in definitions(format) {
        let place = Place::new("");
        std::fs::copy(&path, place.path(name(&path))).expect("copied");
        let output = place.run(&["check", name(&path)]);
        let said = format!("{}{}exit {}\n", stderr(&output), String::from_utf8_lossy(&output.stdout), exit(&output));
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        snapshots(format).bind(|| insta::assert_snapshot!(stem, said));
    }
}

#[test]
fn flows_are_told_what_is_wrong() {
    check_all("flow");
}

#[test]
fn step_lists_are_told_what_is_wrong() {
    check_all("steps");
}

#[test]
fn markdown_is_told_what_is_wrong() {
    check_all("markdown");
}

#[test]
fn pipelines_are_told_what_is_wrong() {
    check_all("pipeline");
}

#[test]
fn graphs_are_told_what_is_wrong() {
    check_all("graph");
}

#[test]
fn agents_are_told_what_is_wrong() {
    check_all("agent");
}

#[test]
fn machines_read_the_same() {
    let place = Place::new("");
    std::fs::copy(folder("flow").join("wild.json"), place.path("wild.json")).expect("copied");
    for style in ["json", "github", "sarif"] {
        let output = place.run(&["check", "wild.json", "--report", style]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        snapshots("reports").bind(|| insta::assert_snapshot!(format!("wild.{style}"), said));
    }
}

#[test]
fn agents_are_told_what_they_may_not_do() {
    let place = Place::new("default_model = \"scripted:echo\"\n[agents.reader]\ntools = [\"agent::\"]\n");
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
    let mut said = String::new();
    for agent in ["reader", "nobody"] {
        let output = place.run(&["run", "w.json", "--agent", agent]);
        said += &format!("--agent {agent}\n{}exit {}\n\n", stderr(&output), exit(&output));
    }
    snapshots("agents").bind(|| insta::assert_snapshot!("refused", said));
}
