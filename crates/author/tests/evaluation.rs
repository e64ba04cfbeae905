//! The checks of the evaluation pass for the right results and for no others.

use flowloom_author::DryRun;
use flowloom_author::evaluation::{Task, load_tasks};
use serde_json::{Value, json};

/// The right result of each task, with changes that make it wrong.
fn load_answers() -> Value {
    serde_json::from_str(include_str!("answers.json")).expect("JSON")
}

/// A dry run with this result.
fn make_dry_run(answer: &Value) -> DryRun {
    let field = |name: &str| answer.get(name).cloned().unwrap_or_default();
    let node = |id: String, block: &Value, more: Value| {
        let mut node = json!({"node_id": id, "block_id": block, "status": "completed"});
        node.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        node
    };
    let used = field("uses").as_array().cloned().unwrap_or_default();
    let used = used
        .iter()
        .enumerate()
        .map(|(at, block)| node(format!("u{at}"), block, json!({"inputs": {}, "output": {}, "mocked": "fixture"})));
    let mut nodes: Vec<Value> = used.collect();
    nodes.push(node("result".into(), &"own".into(), json!({"output": {"result": field("result")}})));
    let mut notifications = Vec::new();
    if let Some(notification) = answer.get("notification") {
        nodes.push(node(
            "told".into(),
            &"notify_push".into(),
            json!({"inputs": notification, "output": {}, "mocked": "example"}),
        ));
        notifications.push(notification.clone());
    }
    let memory = field("memory").as_object().cloned().unwrap_or_default();
    let memory: Vec<Value> = memory.into_iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
    let whole = json!({"nodes": nodes, "notifications": notifications, "memory": memory, "usage": {}});
    serde_json::from_value(whole).expect("a rehearsal")
}

fn for_each_task(mut look: impl FnMut(&Task, &Value)) {
    let answers = load_answers();
    for case in load_tasks().expect("readable") {
        look(&case, answers.get(&case.id).unwrap_or_else(|| panic!("{} has no answer", case.id)));
    }
}

#[test]
fn the_right_result_passes() {
    for_each_task(|case, answer| {
        assert_eq!(case.failed_checks(&make_dry_run(&answer["right"])), [""; 0], "{}", case.id)
    });
}

#[test]
fn a_wrong_result_does_not_pass() {
    for_each_task(|case, answer| {
        let right = answer["right"].to_string();
        let changes = answer["wrong"].as_array().expect("changes");
        assert!(changes.len() > 1, "{}", case.id);
        for change in changes {
            let [from, to] = [0, 1].map(|at| change[at].as_str().expect("a text"));
            assert!(right.contains(from), "{}: {from:?} is not in {right}", case.id);
            let wrong = serde_json::from_str(&right.replace(from, to)).expect("JSON");
            assert_ne!(case.failed_checks(&make_dry_run(&wrong)), [""; 0], "{}: {from:?} may be {to:?}", case.id);
        }
    });
}

#[test]
fn the_result_of_another_goal_does_not_pass() {
    let answers = load_answers();
    for_each_task(|case, _| {
        for (other, answer) in answers.as_object().expect("answers").iter().filter(|(id, _)| **id != case.id) {
            assert_ne!(case.failed_checks(&make_dry_run(&answer["right"])), [""; 0], "{other} passes for {}", case.id);
        }
    });
}
