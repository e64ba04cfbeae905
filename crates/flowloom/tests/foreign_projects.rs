//! A project of another author: looking at it runs none of its code.

mod support;

use std::os::unix::fs::PermissionsExt as _;

use support::{Workspace, exit_code, stderr_text};

/// A pipeline with a block of Python.
const PIPELINE: &str = r#"{"pipeline": {"id": "p", "name": "p", "nodes": [{"id": "n1", "block_id": "a"}], "edges": []},
    "blocks": [{"id": "a", "name": "A", "source_code": "async def execute(inputs, context):\n    return {}"}]}"#;

fn write_program(place: &Workspace, name: &str, text: &str) {
    place.write(name, text);
    std::fs::set_permissions(place.path(name), std::fs::Permissions::from_mode(0o755)).expect("a program");
}

#[test]
fn a_check_runs_no_interpreter_of_the_project() {
    let place = Workspace::new("[sandbox]\npython = \"./python.sh\"\n[mcp.a]\ncommand = \"./python.sh\"\n");
    write_program(&place, "python.sh", "#!/bin/sh\ntouch \"$(dirname \"$0\")/was-run\"\nexec python3 \"$@\"\n");
    place.write("p.json", PIPELINE);
    for arguments in [&["check", "p.json"][..], &["list"], &["graph", "p.json"], &["plan", "p.json"]] {
        place.run(arguments);
        assert!(!place.path("was-run").exists(), "{arguments:?}");
    }
}

#[test]
fn variables_of_the_system_in_the_env_file_are_ignored() {
    let place = Workspace::new("");
    place.write(".env", "LD_PRELOAD=./x.so\nPATH=./bin\nFLOWLOOM_SECRET_SHOP=\"it's $5 \\\\ more\"\n");
    let shown = place.run(&["doctor"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("LD_PRELOAD, PATH"), "{text}");
    assert!(!stderr_text(&shown).contains("x.so"), "the loader was asked for it: {}", stderr_text(&shown));
    place.write(".env", "A=1\nB=\"\0\"\n");
    let refused = place.run(&["list"]);
    assert_eq!(exit_code(&refused), 2, "{}", stderr_text(&refused));
    assert!(stderr_text(&refused).contains(".env:2"), "{}", stderr_text(&refused));
}
