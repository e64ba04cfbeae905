//! Writing, trying and rewriting blocks.

mod support;

use flowloom_author::create::{Made, create, free_id};
use flowloom_core::code::Code;
use flowloom_core::value::Value;
use support::{Scripted, order, value, writes};

fn retries(world: &Scripted) -> Vec<Option<bool>> {
    world.told("block_test_failed").iter().map(|event| event.get("retry").and_then(Value::as_bool)).collect()
}

#[tokio::test]
async fn a_block_is_tried_with_its_examples_and_with_made_inputs() {
    let world = Scripted::says([writes("upper")]);
    let made = create(&world, &order()).await.expect("made");
    let Made::Created { block, answers: 1 } = made else { panic!("{made:?}") };
    assert_eq!(block.get("id"), Some(&"shout".into()));
    assert_eq!(world.tried(), [r#"upper {"text":"abc"}"#, r#"upper {"text":"some text"}"#]);
    let names = ["creating_block", "llm_prompt", "llm_response", "block_created", "block_test_passed"];
    assert_eq!(world.names(), names);
    assert_eq!(world.asked()[0].stage, "create:shout");
    assert!(!world.wishes()[0].contains("rror"));
}

#[tokio::test]
async fn a_repaired_block_is_run_again_and_the_model_knows_every_earlier_error() {
    let world = Scripted::says([writes("first"), "sorry".into(), writes("nothing"), writes("upper")]);
    let made = create(&world, &order()).await.expect("made");
    assert!(matches!(made, Made::Created { answers: 4, .. }), "{made:?}");
    let tried = world.tried();
    assert_eq!(tried.len(), 6, "{tried:?}");
    assert!(tried[0].starts_with("first") && tried[2].starts_with("nothing") && tried[5].starts_with("upper"));
    assert_eq!(retries(&world), [Some(true); 3]);
    let wishes = world.wishes();
    assert!(wishes[1].contains("answer 1: ") && wishes[1].contains("NameError: first"));
    for (number, error) in [(1, "NameError: first"), (2, "no JSON object"), (3, "\"text\" is a required property")] {
        assert!(wishes[3].contains(&format!("answer {number}: ")) && wishes[3].contains(error), "{}", wishes[3]);
    }
    assert_eq!(world.asked()[3].messages[1].content, writes("nothing"), "it sees what it wrote last");
}

#[tokio::test]
async fn what_still_fails_is_given_up() {
    let world = Scripted::says([writes("a"), writes("number"), writes("nothing"), writes("b"), writes("upper")]);
    let made = create(&world, &order()).await.expect("told");
    let Made::Failed { block_id, errors } = made else { panic!("{made:?}") };
    assert_eq!((block_id.as_str(), errors.len()), ("shout", 4));
    assert_eq!(retries(&world), [Some(true), Some(true), Some(true), Some(false)]);
    assert_eq!(world.asked().len(), 4, "three repairs and no more");
    assert_eq!(world.told("block_create_failed").len(), 1);
    assert!(world.told("block_test_passed").is_empty());
}

#[tokio::test]
async fn a_stub_never_passes() {
    let without_example = r#"{"source_code":"SOURCE"}"#;
    for source in ["nothing", "refuse", "number"] {
        let answer = without_example.replace("SOURCE", source);
        let world = Scripted::says(vec![answer; 4]);
        let made = create(&world, &order()).await.expect("told");
        assert!(made.block().is_none(), "{source}");
    }
    let outputs = writes("upper").replace("ABC", "AB");
    let world = Scripted::says(vec![outputs; 4]);
    let made = create(&world, &order()).await.expect("told");
    let Made::Failed { errors, .. } = made else { panic!("{made:?}") };
    assert!(errors[0].contains("the example says {\"text\":\"AB\"}"), "{errors:?}");
}

#[tokio::test]
async fn a_prompt_is_tried_with_a_real_call() {
    let world = Scripted::says([r#"{"prompt_template":"Shout {text}"}"#]);
    let made = create(&world, &order()).await.expect("made");
    assert_eq!(made.block().and_then(|block| block.get("execution_type")), Some(&"llm".into()));
    assert_eq!(world.tried(), [r#"Shout {text} {"text":"some text"}"#]);
    let created = &world.told("block_created")[0];
    assert_eq!((created.get("has_prompt"), created.get("has_source_code")), (Some(&true.into()), Some(&false.into())));
}

#[tokio::test]
async fn an_answer_that_the_provider_refuses_is_one_that_cannot_be_used() {
    let world = Scripted::says(["!FL1015".to_owned(), writes("upper")]);
    assert!(matches!(create(&world, &order()).await, Ok(Made::Created { answers: 2, .. })));
    assert_eq!(world.asked()[1].messages[1].content, "(nothing)");
}

#[tokio::test]
async fn a_failing_world_is_nobodys_fault() {
    let no_sandbox = Scripted { has_no_sandbox: true, ..Scripted::says([writes("upper")]) };
    let error = create(&no_sandbox, &order()).await.expect_err("no sandbox");
    assert_eq!((error.code, no_sandbox.asked().len()), (Code::NoSandbox, 1), "it is not asked to repair");
    assert_eq!(no_sandbox.names().last(), Some(&"block_create_failed"));
    let no_model = Scripted::says(["!FL1010"]);
    assert_eq!(create(&no_model, &order()).await.expect_err("no model").code, Code::ModelFailed);
}

#[test]
fn an_id_is_nobody_elses() {
    assert_eq!(free_id("a", |_| false), "a");
    assert_eq!(free_id("a", |id| ["a", "a_2"].contains(&id)), "a_3");
}

#[test]
fn what_was_made_can_be_put_away() {
    for made in [
        Made::Created { block: value(r#"{"id":"a","n":1.50}"#), answers: 2 },
        Made::Failed { block_id: "b".into(), errors: vec!["e".into()] },
    ] {
        let text = serde_json::to_string(&made).expect("JSON");
        assert_eq!(serde_json::from_str::<Made>(&text).expect("the same"), made);
    }
}
