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

#[test]
fn files_of_other_programs_in_a_folder_are_no_workflows() {
    let place = Workspace::new("");
    let others = [
        ("network.json", r#"{"nodes": [{"id": "a", "label": "b"}], "edges": [{"from": "a", "to": "a"}]}"#),
        ("cytoscape.json", r#"{"nodes": [{"id": 1}], "edges": []}"#),
        ("ci.json", r#"{"steps": [{"name": "build", "run": "make"}]}"#),
        ("package.json", r#"{"name": "site", "version": "1.0.0", "steps": ["a"]}"#),
        ("README.md", "Write `<GenText as=\"a\" />` to ask a model.\n"),
    ];
    others.iter().for_each(|(name, text)| drop(place.write(name, text)));
    place.write("hello.mdx", "Hi.\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n");
    let checked = place.run(&["check", "."]);
    let notes = stderr_text(&checked);
    assert_eq!(exit_code(&checked), 0, "{notes}");
    for (name, _) in others {
        assert!(notes.contains(name), "{name}: {notes}");
    }
    // A person who names one means a workflow.
    let named = place.run(&["check", "network.json"]);
    assert_eq!(exit_code(&named), 2, "{}", stderr_text(&named));
}
