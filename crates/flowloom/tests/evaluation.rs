//! `flowloom eval author`: recorded conversations pass, and an unsuitable model fails.

mod support;

use support::{Workspace, exit_code, stderr_text};

fn create_workspace() -> Workspace {
    Workspace::new("[embeddings]\nmodel = \"none\"\n")
}

#[test]
fn recorded_conversations_make_five_goals_are_reached() {
    let place = create_workspace();
    let ran = place.run(&["eval", "author", "--recorded"]);
    let table = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(exit_code(&ran), 0, "{table}\n{}", stderr_text(&ran));
    for task in ["research-summary", "extract-notify", "compare-documents", "daily-digest", "clean-table"] {
        assert!(table.lines().any(|line| line.starts_with(task) && line.contains(" passed ")), "{task}: {table}");
    }
    assert!(table.ends_with("\n5 of 5 tasks passed; 21 of 21 checks passed\n"), "{table}");
    let (_, runs) = place.run_json(&["runs"]);
    assert_eq!(runs.as_array().map(Vec::len), Some(0), "the user's database is untouched");
}

#[test]
fn a_model_that_cannot_do_it_fails_and_its_records_tell_why() {
    let place = create_workspace();
    let model = ["--model", "scripted:echo", "--records", "records"];
    let (code, shown) = place.run_json(&[&["eval", "author", "clean-table"], &model[..]].concat());
    assert_eq!((code, &shown["passed"]), (1, &0.into()), "{shown}");
    let row = &shown["tasks"][0];
    assert_eq!((&row["error"]["code"], row["failures"].as_array().map(Vec::len)), (&"FL1060".into(), Some(4)), "{row}");
    assert!(row["usage"]["output_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "failures have usage, too: {row}");
    let records = place.path("records");
    let kept = place.run(&["--data-dir", records.to_str().expect("UTF-8"), "show", "last"]);
    assert!(String::from_utf8_lossy(&kept.stdout).contains("decompose"), "{kept:?}");
}

#[test]
fn an_error_that_every_goal_would_meet_ends_at_once() {
    let place = create_workspace();
    let no_model = place.run(&["eval", "author"]);
    assert_eq!(exit_code(&no_model), 2, "{}", stderr_text(&no_model));
    assert!(no_model.stdout.is_empty() && stderr_text(&no_model).contains("FL1013"), "{}", stderr_text(&no_model));
    let unknown = place.run(&["eval", "author", "--recorded", "price-watch"]);
    assert!(exit_code(&unknown) == 2 && stderr_text(&unknown).contains("there is no task \"price-watch\""));
}
