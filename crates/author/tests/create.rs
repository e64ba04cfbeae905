//! Writing, trying and rewriting blocks.

mod support;

use flowloom_author::RequiredBlock;
use flowloom_author::create::{BlockOrder, CreateOutcome, TimeoutAllowance, create_block, free_id};
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use support::{Scripted, block_answer, parse_json, shout_order};

async fn create_shout(world: &Scripted) -> Result<CreateOutcome, StepFailure> {
    create_block(world, &shout_order(), &mut TimeoutAllowance::default()).await
}

fn retry_flags(world: &Scripted) -> Vec<Option<bool>> {
    world.event_payloads("block_test_failed").iter().map(|event| event.get("retry").and_then(Value::as_bool)).collect()
}

#[tokio::test]
async fn a_block_is_tried_with_its_examples_and_with_made_inputs() {
    let world = Scripted::with_answers([block_answer("upper")]);
    let made = create_shout(&world).await.expect("made");
    let CreateOutcome::Created { block, answers: 1 } = made else { panic!("{made:?}") };
    assert_eq!(block.get("id"), Some(&"shout".into()));
    assert_eq!(world.tried_sources(), [r#"upper {"text":"abc"}"#, r#"upper {"text":"some text"}"#]);
    let names = ["creating_block", "llm_prompt", "llm_response", "block_created", "block_test_passed"];
    assert_eq!(world.event_names(), names);
    assert_eq!(world.asked_questions()[0].stage, "create:shout");
    assert!(!world.last_messages()[0].contains("rror"));
}

#[tokio::test]
async fn a_repaired_block_is_run_again_and_the_model_knows_every_earlier_error() {
    let world =
        Scripted::with_answers([block_answer("first"), "sorry".into(), block_answer("nothing"), block_answer("upper")]);
    let made = create_shout(&world).await.expect("made");
    assert!(matches!(made, CreateOutcome::Created { answers: 4, .. }), "{made:?}");
    let tried = world.tried_sources();
    assert_eq!(tried.len(), 6, "{tried:?}");
    assert!(tried[0].starts_with("first") && tried[2].starts_with("nothing") && tried[5].starts_with("upper"));
    assert_eq!(retry_flags(&world), [Some(true); 3]);
    let prompts = world.last_messages();
    assert!(prompts[1].contains("answer 1: ") && prompts[1].contains("NameError: first"));
    for (number, error) in [(1, "NameError: first"), (2, "no JSON object"), (3, "\"text\" is a required property")] {
        assert!(prompts[3].contains(&format!("answer {number}: ")) && prompts[3].contains(error), "{}", prompts[3]);
    }
    assert_eq!(world.asked_questions()[3].messages[1].content, block_answer("nothing"), "it sees what it wrote last");
}

#[tokio::test]
async fn a_trial_that_runs_into_the_time_limit_is_the_last_of_its_block() {
    let world = Scripted::with_answers([block_answer("loop"), block_answer("upper")]);
    let made = create_shout(&world).await.expect("made");
    assert!(matches!(made, CreateOutcome::Created { answers: 2, .. }), "{made:?}");
    let tried = world.tried_sources();
    assert_eq!(tried, [r#"loop {"text":"abc"}"#, r#"upper {"text":"abc"}"#, r#"upper {"text":"some text"}"#]);
    assert!(world.last_messages()[1].contains("it ran longer than 5000 ms"));
}

#[tokio::test]
async fn what_still_fails_is_given_up() {
    let world = Scripted::with_answers([
        block_answer("a"),
        block_answer("number"),
        block_answer("nothing"),
        block_answer("b"),
        block_answer("upper"),
    ]);
    let made = create_shout(&world).await.expect("told");
    let CreateOutcome::Failed { block_id, errors } = made else { panic!("{made:?}") };
    assert_eq!((block_id.as_str(), errors.len()), ("shout", 4));
    assert_eq!(retry_flags(&world), [Some(true), Some(true), Some(true), Some(false)]);
    assert_eq!(world.asked_questions().len(), 4, "three repairs and no more");
    assert_eq!(world.event_payloads("block_create_failed").len(), 1);
    assert!(world.event_payloads("block_test_passed").is_empty());
}

#[tokio::test]
async fn a_stub_never_passes() {
    let without_example = r#"{"source_code":"SOURCE"}"#;
    for source in ["nothing", "refuse", "number"] {
        let answer = without_example.replace("SOURCE", source);
        let world = Scripted::with_answers(vec![answer; 4]);
        let made = create_shout(&world).await.expect("told");
        assert!(made.block().is_none(), "{source}");
    }
    let outputs = block_answer("upper").replace("ABC", "AB");
    let world = Scripted::with_answers(vec![outputs; 4]);
    let made = create_shout(&world).await.expect("told");
    let CreateOutcome::Failed { errors, .. } = made else { panic!("{made:?}") };
    assert!(errors[0].contains("the example says {\"text\":\"AB\"}"), "{errors:?}");
}

fn claim_order(description: &str, kind: &str, category: &str) -> BlockOrder {
    let output =
        parse_json(r#"{"type":"object","properties":{"delivered":{"type":"boolean"}},"required":["delivered"]}"#);
    let mut order = shout_order();
    order.wanted = RequiredBlock {
        description: description.into(),
        category: category.into(),
        execution_type: kind.into(),
        output_schema: Some(output),
        ..order.wanted
    };
    order
}

#[tokio::test]
async fn a_block_that_would_act_is_not_written() {
    for (description, kind, category) in [
        ("Send an e-mail to the user", "llm", "action"),
        ("Sends the summary by e-mail to the customer", "llm", "process"),
        ("Mail the summary to the boss", "python", "process"),
        ("Reserve a seat", "llm", "action"),
    ] {
        let world = Scripted::with_answers([block_answer("upper")]);
        let order = claim_order(description, kind, category);
        let made = create_block(&world, &order, &mut TimeoutAllowance::default()).await.expect("told");
        assert!(made.block().is_none() && world.asked_questions().is_empty(), "{description}: {made:?}");
    }
}

#[tokio::test]
async fn a_block_that_only_claims_to_have_acted_never_passes() {
    let example = r#""examples":[{"inputs":{"text":"x"},"outputs":{"delivered":true}}]"#;
    for (description, kind, code) in [
        ("Tell the user the summary as a notification", "python", r#""source_code":"deliver""#),
        ("Book a table at the restaurant", "python", r#""source_code":"deliver""#),
        ("Tell the user", "llm", r#""prompt_template":"deliver {text}""#),
    ] {
        for examples in ["", example] {
            let answer = format!("{{{code}{}{examples}}}", if examples.is_empty() { "" } else { "," });
            let world = Scripted::with_answers(vec![answer; 4]);
            let order = claim_order(description, kind, "process");
            let made = create_block(&world, &order, &mut TimeoutAllowance::default()).await.expect("told");
            let CreateOutcome::Failed { errors, .. } = made else { panic!("{description}: {made:?}") };
            assert!(errors[0].contains("whatever its inputs are"), "{errors:?}");
        }
    }
}

#[tokio::test]
async fn a_prompt_is_tried_with_a_real_call() {
    let world = Scripted::with_answers([r#"{"prompt_template":"Shout {text}"}"#]);
    let made = create_shout(&world).await.expect("made");
    assert_eq!(made.block().and_then(|block| block.get("execution_type")), Some(&"llm".into()));
    assert_eq!(world.tried_sources(), [r#"Shout {text} {"text":"some text"}"#]);
    let created = &world.event_payloads("block_created")[0];
    assert_eq!((created.get("has_prompt"), created.get("has_source_code")), (Some(&true.into()), Some(&false.into())));
}

#[tokio::test]
async fn an_answer_that_the_provider_refuses_is_one_that_cannot_be_used() {
    let world = Scripted::with_answers(["!FL1015".to_owned(), block_answer("upper")]);
    assert!(matches!(create_shout(&world).await, Ok(CreateOutcome::Created { answers: 2, .. })));
    assert_eq!(world.asked_questions()[1].messages[1].content, "(nothing)");
}

#[tokio::test]
async fn a_failing_world_is_nobodys_fault() {
    let no_sandbox = Scripted { has_no_sandbox: true, ..Scripted::with_answers([block_answer("upper")]) };
    let error = create_shout(&no_sandbox).await.expect_err("no sandbox");
    assert_eq!((error.code, no_sandbox.asked_questions().len()), (Code::NoSandbox, 1), "it is not asked to repair");
    assert_eq!(no_sandbox.event_names().last(), Some(&"block_create_failed"));
    let no_model = Scripted::with_answers(["!FL1010"]);
    assert_eq!(create_shout(&no_model).await.expect_err("no model").code, Code::ModelFailed);
}

#[test]
fn an_id_is_nobody_elses() {
    assert_eq!(free_id("a", |_| false), "a");
    assert_eq!(free_id("a", |id| ["a", "a_2"].contains(&id)), "a_3");
}

#[test]
fn what_was_made_can_be_put_away() {
    for made in [
        CreateOutcome::Created { block: parse_json(r#"{"id":"a","n":1.50}"#), answers: 2 },
        CreateOutcome::Failed { block_id: "b".into(), errors: vec!["e".into()] },
    ] {
        let text = serde_json::to_string(&made).expect("JSON");
        assert_eq!(serde_json::from_str::<CreateOutcome>(&text).expect("the same"), made);
    }
}
