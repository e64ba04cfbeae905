//! The toy format runs on the engine with a scripted model: recognised, compiled, run, replayed and presented.

mod world;

use std::sync::Arc;

use flowloom_core::code::Code;
use flowloom_core::event::Event;
use flowloom_core::hash::Hash;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_core::value::Value;
use flowloom_formats::{Compiled, Registry, Sources};
use flowloom_runtime::memory::MemoryJournal;
use flowloom_runtime::sim::SimClock;
use flowloom_runtime::{Engine, StartOptions};
use toy_format::{FORMAT, FRONT_END};
use world::effects;

const DEFINITION: &str = "name: greeting\nprompts:\n  - Name a city.\n  - Greet the people of {last}.\n";

fn registry() -> Registry {
    Registry::built_in().with(FRONT_END)
}

fn compile(file: &str, text: &str) -> Compiled {
    let files = [(file.to_owned(), text.as_bytes().to_vec())].into();
    registry().compile(file, &Sources { files, source_bytes: 1 << 20, ..Sources::default() }, None)
}

#[test]
fn a_seventh_format_runs_on_the_engine() {
    let compiled = compile("greeting.toy.yaml", DEFINITION);
    assert_eq!(compiled.diagnostics, []);
    assert_eq!(compiled.format, Some(FORMAT));
    let plan = Arc::new(compiled.plan.expect("a plan"));
    let clock = SimClock::new(1_000_000);
    let effects = effects(&clock, &[("Name a city.", "Bergen"), ("Greet the people of Bergen.", "Hello, Bergen!")]);
    let engine = Engine::new(effects, Arc::new(MemoryJournal::new())).with_ids(|| RunId::new(1, [7; 10]));
    let start = StartOptions::new(plan.clone(), Hash::of_bytes(DEFINITION.as_bytes()), Value::Null, "local");
    let run = engine.start_run(start).expect("accepted");
    let outcome = clock.block_on(run.drive_to_end()).expect("no deadlock");
    assert_eq!(outcome.state.status, Status::Succeeded, "{:?}", outcome.state.error);
    let presented = registry().render_result(&plan, &outcome.state, &outcome.env);
    assert_eq!(presented.output, Value::from("Hello, Bergen!"));
    let answers = Value::list(vec!["Bergen".into(), "Hello, Bergen!".into()]);
    assert_eq!(presented.result, Value::map([("answers", answers)]));

    let Event::RunCreated(created) = &outcome.records[0].event else { panic!("the first event") };
    assert_eq!(created.format, FORMAT);
    assert!(serde_json::to_string(&*outcome.records[0]).expect("JSON").contains("\"format\":\"toy\""));
    let replayed = clock.block_on(engine.replay_run(outcome.records.clone(), plan)).expect("no deadlock");
    assert_eq!(replayed.expect("no divergence").state.status, Status::Succeeded);
}

#[test]
fn what_is_wrong_is_a_diagnostic() {
    let compiled = compile("greeting.toy.yaml", "name: greeting\nquestions: []\n");
    assert!(compiled.plan.is_none());
    assert_eq!(compiled.diagnostics.first().map(|problem| problem.code), Some(Code::WrongKind));
}

#[test]
fn the_other_formats_are_recognised_as_before() {
    let flow = r#"{"name": "f", "steps": [{"type": "llmInstruction", "config": {"instruction": "Hi."}}]}"#;
    assert_eq!(compile("f.json", flow).format, Some(flowloom_formats::flow::FORMAT));
    assert_eq!(compile("f.mdx", "Hello.\n").format, Some(flowloom_formats::markdown::FORMAT));
}

#[test]
fn a_format_that_is_not_there_is_an_error() {
    let files = [("a.toy.yaml".to_owned(), DEFINITION.as_bytes().to_vec())].into();
    let sources = Sources { files, source_bytes: 1 << 20, ..Sources::default() };
    let compiled = flowloom_formats::compile("a.toy.yaml", &sources, Some(FORMAT));
    assert_eq!(compiled.diagnostics.first().map(|problem| problem.code), Some(Code::UnknownFormat));
}
