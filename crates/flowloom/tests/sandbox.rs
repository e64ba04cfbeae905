//! The program is the worker of its own sandbox, and `doctor` reports whether that works.

mod support;

use support::Workspace;

#[test]
fn doctor_tries_the_sandbox() {
    let place = Workspace::new("[sandbox]\nscript_timeout_ms = 250\npython_memory_mb = 300\n");
    let (_, findings) = place.run_json(&["doctor"]);
    let row = |name: &str| {
        let rows = findings.as_array().expect("rows");
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name}")).clone()
    };
    let script = row("javascript sandbox");
    assert!(script["value"].as_str().is_some_and(|value| value.starts_with("works: 250 ms, 32 MiB")), "{script}");
    let python = row("python sandbox");
    if python["ok"] == true {
        assert!(python["value"].as_str().is_some_and(|value| value.contains("300 MiB")), "{python}");
    }
}

#[test]
fn doctor_lists_the_protections_and_what_to_do_about_missing_ones() {
    let place = Workspace::new("");
    let (_, findings) = place.run_json(&["doctor"]);
    let rows: Vec<_> = findings
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| !row["active"].is_null() && row["name"] != "providers")
        .collect();
    if !findings.to_string().contains("works: Python") {
        return assert!(rows.is_empty(), "{rows:?}");
    }
    let names: Vec<_> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    let expected = [
        "namespaces",
        "seccomp",
        "Landlock",
        "signal scope",
        "own user",
        "no new privileges",
        "limits",
        "memory shortage",
        "cgroup",
    ];
    assert_eq!(names, expected);
    for row in rows {
        let is_missing = row["value"].as_str().is_some_and(|value| value.starts_with("missing: "));
        assert_eq!(row["active"], !is_missing, "{row}");
        assert_eq!(row["ok"], true, "{row}");
    }
    let text = String::from_utf8_lossy(&place.run(&["doctor"]).stdout).into_owned();
    assert!(text.contains("! cgroup             missing: none is configured\n"), "{text}");
    assert!(text.contains("set cgroup in [sandbox]"), "{text}");
}

#[test]
fn doctor_says_what_is_missing() {
    let place = Workspace::new("[sandbox]\npython = \"/nowhere/python3\"\n");
    let (exit, findings) = place.run_json(&["doctor"]);
    assert_eq!(exit, 1);
    assert!(findings.to_string().contains("/nowhere/python3"), "{findings}");
}

#[test]
fn settings_that_do_not_exist_are_refused() {
    let place = Workspace::new("[sandbox]\nunsafe = true\n");
    let output = place.run(&["doctor"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("FL1401"));
}
