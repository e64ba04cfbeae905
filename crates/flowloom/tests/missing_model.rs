//! The file of a model is missing while a run continues: recorded steps need no model, and failed ones can be retried.

mod support;

use serde_json::{Value, json};
use support::{Workspace, exit_code, stderr_text};

/// A workspace with a step list that asks a person between two calls of a scripted model. `mode` is the error mode of the
/// second call.
fn make_workspace(mode: &str) -> Workspace {
    let place = Workspace::new("[models.alias]\n\"*\" = \"scripted:answers.json\"\n");
    restore_model(&place);
    let call = |name: &str, mode: &str| {
        json!({"name": name, "functionId": "agent::chat", "mode": "sequential", "errorMode": mode,
            "promptTemplate": format!("{name} {{{{input}}}}"), "outputVar": name})
    };
    let ask = |name: &str| json!({"name": name, "functionId": "human::ask", "mode": "fanout", "promptTemplate": "Go on?", "errorMode": "fail"});
    let steps = json!([call("a", "fail"), ask("first"), call("e", mode), ask("second")]);
    place.write("w.json", &json!({"name": "w", "description": "d", "steps": steps}).to_string());
    place
}

fn restore_model(place: &Workspace) {
    place.write("answers.json", r#"{"match": [{"contains": "", "answer": "ok"}]}"#);
}

fn remove_model(place: &Workspace) {
    std::fs::remove_file(place.path("answers.json")).expect("removed");
}

/// The phase of each step of the last run, by name.
fn read_phases(place: &Workspace) -> Vec<(String, String)> {
    let (code, shown) = place.run_json(&["show", "last"]);
    assert_eq!(code, 0, "{shown}");
    let text = |step: &Value, key: &str| step[key].as_str().unwrap_or_default().to_owned();
    shown["steps"].as_array().expect("steps").iter().map(|step| (text(step, "path"), text(step, "phase"))).collect()
}

#[track_caller]
fn check_exit(place: &Workspace, arguments: &[&str], code: i32) -> String {
    let output = place.run(arguments);
    assert_eq!(exit_code(&output), code, "{arguments:?}: {}", stderr_text(&output));
    stderr_text(&output)
}

#[test]
fn a_run_without_its_model_fails_at_the_next_call_and_can_be_retried() {
    let place = make_workspace("fail");
    check_exit(&place, &["run", "w", "-i", "input=x"], 4);
    remove_model(&place);
    let failed = check_exit(&place, &["answer", "last", "yes"], 1);
    assert!(failed.contains("/e"), "{failed}");
    let phases = read_phases(&place);
    assert!(phases.contains(&("/a".into(), "finished".into())), "{phases:?}");
    assert!(phases.contains(&("/e".into(), "failed".into())), "{phases:?}");
    check_exit(&place, &["replay", "last"], 0);
    restore_model(&place);
    check_exit(&place, &["retry", "last"], 4);
    check_exit(&place, &["answer", "last", "yes"], 0);
    check_exit(&place, &["doctor", "--read-data"], 0);
}

#[test]
fn what_is_recorded_is_replayed_and_forked_without_the_model() {
    let place = make_workspace("fail");
    check_exit(&place, &["run", "w", "-i", "input=x"], 4);
    check_exit(&place, &["answer", "last", "yes"], 4);
    remove_model(&place);
    check_exit(&place, &["replay", "last"], 0);
    check_exit(&place, &["fork", "last", "--at", "/second"], 4);
    let phases = read_phases(&place);
    assert!(phases.contains(&("/e".into(), "finished".into())), "{phases:?}");
}

/// The call failed because its model could not be asked. That it can be asked when the run continues changes nothing.
#[test]
fn a_recorded_failure_counts_although_the_model_is_back() {
    let place = make_workspace("skip");
    check_exit(&place, &["run", "w", "-i", "input=x"], 4);
    remove_model(&place);
    check_exit(&place, &["answer", "last", "yes"], 4);
    restore_model(&place);
    check_exit(&place, &["answer", "last", "yes"], 0);
    let phases = read_phases(&place);
    assert!(phases.contains(&("/e".into(), "failed".into())), "{phases:?}");
    check_exit(&place, &["replay", "last"], 0);
    check_exit(&place, &["doctor", "--read-data"], 0);
}

#[test]
fn all_models_that_cannot_be_used_are_reported_before_the_first_step() {
    let place = Workspace::new("");
    let action = |model: &str, name: &str| format!("Hello\n\n<GenText model=\"{model}\" as=\"{name}\" />\n\n");
    let text = [("scripted:echo", "a"), ("local:lost", "b"), ("nosuch:model", "c"), ("local:lost", "d")]
        .map(|(model, name)| action(model, name))
        .concat();
    place.write("m.mdx", &text);
    let refused = check_exit(&place, &["run", "m.mdx"], 1);
    assert!(refused.contains("b, d: the model file "), "{refused}");
    assert!(refused.contains("; c: unknown model provider `nosuch`; the providers are local, "), "{refused}");
    let (_, runs) = place.run_json(&["runs"]);
    assert_eq!(runs, json!([]), "no step has run");
}
