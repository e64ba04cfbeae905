//! Recorded conversations become pipelines that achieve their goals in the real sandbox, repeatedly.

mod support;

use std::path::{Path, PathBuf};

use conformance::block_on;
use flowloom_author::dry_run::{DryRunInputs, NodeStatus, Prompts};
use flowloom_author::evaluation::{Task, load_tasks, recorded_conversation};
use flowloom_author::wire::build_definition;
use flowloom_author::{Draft, run_planner};
use flowloom_core::render;
use flowloom_core::value::Value;
use flowloom_formats::{Sources, compile};
use support::{AuthoringWorld, TEST_USER, value_of};

fn conversation_path(id: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/author/evaluation/recorded");
    folder.join(format!("{id}.json"))
}

fn cases_with_conversations() -> impl Iterator<Item = Task> {
    load_tasks().expect("readable").into_iter().filter(|case| recorded_conversation(&case.id).is_some())
}

fn author_for(case: &Task) -> AuthoringWorld {
    AuthoringWorld::new(
        &conversation_path(&case.id),
        DryRunInputs { prompts: Prompts::Mocked, ..case.initial_inputs() },
    )
}

/// Authors the pipeline of a conversation; also returns it as text that can be saved.
fn author_pipeline(case: &Task) -> (AuthoringWorld, Draft, String) {
    let world = author_for(case);
    let mut draft = Draft::new(&case.intent, TEST_USER);
    let pipeline = block_on(run_planner(&world, &world.new_settings(), &mut draft));
    let pipeline = pipeline.unwrap_or_else(|error| panic!("{}: {error}", case.id));
    let saved = render::to_json(&build_definition(&pipeline, &draft.available_blocks()));
    (world, draft, saved)
}

#[test]
fn five_goals_are_reached_and_again_from_what_was_saved() {
    let mut count = 0;
    for case in cases_with_conversations() {
        let (world, draft, saved) = author_pipeline(&case);
        let files = [("pipeline.json".to_owned(), saved.clone().into_bytes())].into();
        let sources = Sources { files, source_bytes: 1 << 20, ..world.new_settings().sources };
        assert_eq!(
            compile("pipeline.json", &sources, Some(flowloom_formats::pipeline::FORMAT)).diagnostics,
            [],
            "{}",
            case.id
        );
        let tried = draft.tried.expect("it was tried");
        assert!(tried.nodes.iter().all(|node| node.status == NodeStatus::Completed), "{}: {tried:?}", case.id);
        for _ in 0..2 {
            let ran = block_on(world.dry_runner.dry_run(&value_of(&saved), &case.initial_inputs()));
            let row = case.evaluate_run(ran);
            assert!(row.has_passed(), "{}: {:?} {:?}", case.id, row.failures, row.error);
        }
        count += 1;
    }
    assert_eq!(count, 5);
}

#[test]
fn what_first_failed_was_repaired() {
    let failures = |id: &str| {
        let case = cases_with_conversations().find(|case| case.id == id).expect("a case");
        let (world, ..) = author_pipeline(&case);
        let events = world.events.lock().expect("lock").iter().map(|event| event.to_payload()).collect::<Vec<Value>>();
        let errors = events.iter().filter_map(|event| event.get("error").and_then(Value::as_str).map(str::to_owned));
        (world.count_events("block_test_failed"), errors.collect::<Vec<_>>().join("; "))
    };
    let (failed, why) = failures("clean-table");
    assert!(failed == 1 && why.contains("but the example says"), "{why}");
    let (failed, why) = failures("extract-notify");
    assert!(failed == 0 && why.contains("in the dry run, the node n2 (block report_incidents) fails"), "{why}");
    let (failed, why) = failures("daily-digest");
    assert!(failed == 0 && why.contains("has no \"text\""), "{why}");
}

#[test]
fn what_one_goal_comes_to_is_not_what_another_wants() {
    let all = load_tasks().expect("readable");
    let mut held = Vec::new();
    for case in cases_with_conversations() {
        let (world, _, saved) = author_pipeline(&case);
        let ran = block_on(world.dry_runner.dry_run(&value_of(&saved), &case.initial_inputs())).expect("a run");
        let fits = all.iter().filter(|other| other.id != case.id && other.failed_checks(&ran).is_empty());
        held.extend(fits.map(|other| format!("{} passes for {}", case.id, other.id)));
    }
    assert_eq!(held, [""; 0]);
}

#[test]
fn what_a_run_gets_wrong_does_not_pass() {
    let case = cases_with_conversations().find(|case| case.id == "clean-table").expect("the case");
    let (world, _, saved) = author_pipeline(&case);
    let wrong = [
        ("lower()", "upper()"),
        ("kept.sort(key=lambda row: row[name_of])", "kept.reverse()"),
        ("mail in seen", "False"),
    ];
    for (right, wrong) in wrong {
        assert!(saved.contains(right), "{right}");
        let ran = block_on(world.dry_runner.dry_run(&value_of(&saved.replace(right, wrong)), &case.initial_inputs()))
            .expect("a run");
        assert!(!case.failed_checks(&ran).is_empty(), "{wrong}");
    }
}
