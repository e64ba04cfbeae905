//! `flowloom new`: pipelines from plain language in the terminal.

mod support;

use serde_json::{Value, json};
use support::author::place;
use support::{exit, stderr};

#[test]
fn a_wish_becomes_a_folder_that_runs() {
    let place = place();
    let made = place.run(&["new", "Shout hello", "--yes"]);
    assert_eq!(exit(&made), 0, "{}", stderr(&made));
    assert!(place.path("shout/pipeline.json").is_file() && place.path("shout/blocks/shout.json").is_file());
    let (code, ran) = place.json(&["run", "shout"]);
    assert_eq!((code, &ran["output"]), (0, &json!({"text": "HELLO"})), "{ran}");
    let again = place.run(&["new", "Shout hello", "--yes"]);
    assert!(place.path("shout_2/pipeline.json").is_file(), "{}", stderr(&again));
    assert_eq!(exit(&place.run(&["check", "shout_2"])), 0);
}

#[test]
fn what_is_unclear_is_asked() {
    let place = place();
    let nobody = place.run(&["new", "Shout"]);
    assert_eq!(exit(&nobody), 2);
    assert!(stderr(&nobody).contains("At whom?") && stderr(&nobody).contains("--answers"), "{}", stderr(&nobody));
    place.write("answers.txt", "\nat everyone\n");
    let (code, made) = place.json(&["new", "Shout", "--answers", "answers.txt", "--out", "here"]);
    assert_eq!((code, &made["pipeline_json"]["user_intent"]), (0, &json!("Shout hello at everyone")), "{made}");
    assert_eq!(made["files"], json!(["pipeline.json", "blocks/shout.json"]));
    assert_eq!(made["tried"]["nodes"][0]["output"], json!({"text": "HELLO"}));
    let full = place.run(&["new", "Shout", "--yes", "--out", "here"]);
    assert!(exit(&full) == 2 && stderr(&full).contains("not empty"), "{}", stderr(&full));
}

#[test]
fn what_cannot_be_made_leaves_nothing_behind() {
    let place = place();
    let (code, told) = place.json(&["new", "Shout hello at nobody", "--yes"]);
    assert_eq!(code, 1);
    assert!(told["error"].as_str().is_some_and(|error| error.contains("required_blocks")), "{told}");
    let (code, told) = place.json(&["new", "Shout hello", "--yes", "--budget", "tokens=2000"]);
    assert_eq!(code, 5, "{told}");
    let (_, runs) = place.json(&["runs"]);
    let names: Vec<&Value> = runs.as_array().expect("a list").iter().map(|run| &run["status"]).collect();
    assert_eq!(names, [&json!("budget_exceeded"), &json!("failed")]);
    assert!(!place.path("shout").exists());
}

#[test]
fn what_another_format_has_no_place_for_is_named_and_nothing_is_lost() {
    let place = place();
    let made = place.run(&["new", "Shout hello", "--yes", "--into", "steps"]);
    assert_eq!(exit(&made), 2);
    assert!(stderr(&made).contains("n1: the Python block shout has no place"), "{}", stderr(&made));
    assert!(place.path("shout/pipeline.json").is_file());
    assert_eq!(exit(&place.run(&["new", "Shout hello", "--yes", "--into", "haiku"])), 2);
}
