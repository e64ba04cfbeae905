//! All stages, and continuing after each kind of interruption.

mod support;

use flowloom_author::decompose::decompose_goal;
use flowloom_author::search::search_blocks;
use flowloom_author::wire::{build_definition, wire_blocks};
use flowloom_author::{Draft, DryRun, PlannerSettings, run_planner};
use flowloom_core::block::Thresholds;
use flowloom_core::code::Code;
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use support::{Scripted, TEXT_SCHEMA, block_answer, decomposition_answer, parse_json, pipeline_answer, registry_block};

const NUMBER_SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"number"}}}"#;

fn validation_flags(world: &Scripted, stage: &str) -> Vec<bool> {
    let events = world.event_payloads("validation");
    let of_stage = events.iter().filter(|event| event.get("stage") == Some(&stage.into()));
    of_stage.map(|event| event.get("error").is_some()).collect()
}

#[tokio::test]
async fn an_invalid_list_goes_back_with_everything_that_is_wrong() {
    let twice = decomposition_answer(&["a", "a", "b/c"]);
    let world = Scripted::with_answers([twice, "no".into(), decomposition_answer(&["a"])]);
    let wanted = decompose_goal(&world, "wish").await.expect("at last");
    assert_eq!(wanted.len(), 1);
    let last = &world.last_messages()[2];
    assert!(
        last.contains("answer 1: there are several blocks \"a\"")
            && last.contains("answer 1: \"b/c\" is not a valid id")
    );
    assert!(last.contains("answer 2: the answer has no JSON object"), "{last}");
    assert_eq!(validation_flags(&world, "decompose"), [true, true, false]);
    let names = world.event_names();
    let end = ["llm_prompt", "llm_response", "stage_result", "decompose_blocks", "validation"];
    assert_eq!(names[names.len() - 5..], end);
}

#[tokio::test]
async fn an_unusable_list_is_an_error_and_no_empty_success() {
    let world = Scripted::with_answers(vec![r#"{"required_blocks":[]}"#; 5]);
    let mut draft = Draft::new("wish", "u");
    let error = run_planner(&world, &PlannerSettings::default(), &mut draft).await.expect_err("nothing");
    assert_eq!(error.code, Code::AuthoringFailed);
    assert_eq!(world.asked_questions().len(), 4, "three repairs and no more");
    assert_eq!(draft, Draft::new("wish", "u"));
    let names = world.event_names();
    assert!(!names.contains(&"complete") && !names.contains(&"stage_result"));
    assert_eq!(names.last(), Some(&"error"));
    let events = &world.event_payloads("error")[0];
    assert_eq!((events.get("stage"), events.get("code")), (Some(&"decompose".into()), Some(&"FL1060".into())));
}

#[tokio::test]
async fn endless_loops_end_the_authoring() {
    let mut answers = vec![decomposition_answer(&["a", "b", "c"])];
    answers.extend(vec![block_answer("loop"); 12]);
    let world = Scripted::with_answers(answers);
    let mut draft = Draft::new("wish", "u");
    let error = run_planner(&world, &PlannerSettings::default(), &mut draft).await.expect_err("endless");
    assert_eq!(error.code, Code::AuthoringFailed);
    // Four trials of 5 s each: all repairs of the first block.
    assert_eq!(world.tried_sources().len(), 4);
    assert!(
        error.message.contains("a (with the inputs") && error.message.contains("2 more were not tried"),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_endless_dry_run_is_not_repaired() {
    let looping = DryRun {
        nodes: vec![
            serde_json::from_value(serde_json::json!({
                "node_id": "n1", "block_id": "a", "status": "failed",
                "error": StepFailure::new(Code::BlockLimit, "the block was stopped: it ran longer than 5000 ms"),
            }))
            .expect("a node"),
        ],
        ..DryRun::default()
    };
    let world = Scripted::with_answers(vec![pipeline_answer(&["a"]); 2]);
    world.dry_runs.lock().expect("lock").push_back(Ok(looping));
    let block = registry_block("a", TEXT_SCHEMA, 1.0).block;
    let error = wire_blocks(&world, "wish", &[block], &Default::default()).await.expect_err("endless");
    assert_eq!((error.code, world.asked_questions().len()), (Code::AuthoringFailed, 1), "{error:?}");
    assert!(error.message.contains("longer than 5000 ms") && error.message.contains("(block a)"), "{error:?}");
}

#[tokio::test]
async fn the_registry_is_asked_for_each_block() {
    let registry = vec![registry_block("good", TEXT_SCHEMA, 0.9), registry_block("bad", NUMBER_SCHEMA, 1.0)];
    let wanted = decompose_goal(&Scripted::with_answers([decomposition_answer(&["a"])]), "wish").await.expect("a list");
    let world = Scripted { registry, ..Scripted::default() };
    let searched = search_blocks(&world, &wanted, &Thresholds::default()).await.expect("searched");
    assert_eq!(searched.found_ids().collect::<Vec<_>>(), ["good"]);
    assert_eq!(searched.taken, ["good", "bad"]);
    let found = &world.event_payloads("search_found")[0];
    for key in ["block_id", "matched_block_id"] {
        assert_eq!(found.get(key), Some(&"good".into()));
    }
    let missing = search_blocks(&world, &wanted, &Thresholds { similarity_threshold: 0.95, words: 0.95 })
        .await
        .expect("searched");
    assert_eq!(missing.missing_ids().collect::<Vec<_>>(), ["a"], "a clash of types is no match, whatever the score");
    assert_eq!(world.event_payloads("search_missing")[0].get("candidates_checked"), Some(&2.into()));
}

#[tokio::test]
async fn wiring_goes_back_until_it_passes_and_never_passes_by_being_asked_often() {
    let blocks = [registry_block("a", TEXT_SCHEMA, 1.0).block];
    let bad = r#"{"nodes":[{"id":"n1","block_id":"b","inputs":{"text":"{{n2.x}}"}}]}"#.to_owned();
    let world = Scripted::with_answers([bad.clone(), pipeline_answer(&["a"])]);
    let wired = wire_blocks(&world, "wish", &blocks, &PlannerSettings::default().sources).await.expect("at last");
    assert_eq!(wired.pipeline.get("id"), Some(&"pipeline_p".into()));
    let prompts = world.last_messages();
    assert!(prompts[0].contains("===== data: the blocks =====") && !prompts[0].contains("rror"));
    assert!(prompts[1].contains("\"b\" is not one of the blocks") && prompts[1].contains("n2"), "{}", prompts[1]);
    assert_eq!(validation_flags(&world, "wire"), [true, false]);

    let world = Scripted::with_answers(vec![bad; 5]);
    let error = wire_blocks(&world, "wish", &blocks, &PlannerSettings::default().sources).await.expect_err("never");
    assert_eq!((error.code, world.asked_questions().len()), (Code::AuthoringFailed, 4));
    assert!(world.event_payloads("stage_result").is_empty());
}

fn failed_dry_run(node: &str) -> DryRun {
    serde_json::from_str(&format!(r#"{{"nodes":[{node}],"notifications":[],"memory":[],"usage":{{}}}}"#)).expect("one")
}

#[tokio::test]
async fn a_pipeline_that_fails_when_it_is_tried_goes_back() {
    let fails = r#"{"node_id":"n1","block_id":"a","status":"failed","inputs":{"text":"x"},"error":{"code":"FL1052","message":"KeyError: 'y'"}}"#;
    let excused = fails.replace("\"status\"", "\"excuse\":\"mocked\",\"status\"");
    let blocks = [registry_block("a", TEXT_SCHEMA, 1.0).block];
    let world = Scripted::with_answers([pipeline_answer(&["a"]), pipeline_answer(&["a"])]);
    world.dry_runs.lock().expect("lock").extend([Ok(failed_dry_run(fails)), Ok(failed_dry_run(&excused))]);
    let wired = wire_blocks(&world, "wish", &blocks, &PlannerSettings::default().sources).await.expect("at last");
    assert_eq!(
        wired.dry_run,
        failed_dry_run(&excused),
        "a failure that says nothing about the pipeline does not hold it up"
    );
    let prompts = world.last_messages();
    assert!(prompts[1].contains("the node n1 (block a) fails: KeyError: 'y'; it was given {\"text\":\"x\"}"));
    assert_eq!(validation_flags(&world, "wire"), [true, false]);
    assert_eq!(world.event_payloads("stage_result")[0].get("tried"), Some(&wired.dry_run.to_value()));

    let world = Scripted::with_answers(vec![pipeline_answer(&["a"]); 5]);
    world.dry_runs.lock().expect("lock").extend((0..5).map(|_| Ok(failed_dry_run(fails))));
    let error = wire_blocks(&world, "wish", &blocks, &PlannerSettings::default().sources).await.expect_err("never");
    assert_eq!((error.code, world.asked_questions().len()), (Code::AuthoringFailed, 4));

    let world = Scripted::with_answers([pipeline_answer(&["a"])]);
    world.dry_runs.lock().expect("lock").push_back(Err(StepFailure::new(Code::NoSandbox, "there is none")));
    let error =
        wire_blocks(&world, "wish", &blocks, &PlannerSettings::default().sources).await.expect_err("no sandbox");
    assert_eq!(
        (error.code, world.asked_questions().len()),
        (Code::NoSandbox, 1),
        "nobody is asked to repair the world"
    );
}

#[tokio::test]
async fn what_was_found_is_not_written_and_the_catalogue_has_no_source() {
    let registry = vec![registry_block("a", TEXT_SCHEMA, 1.0)];
    let world =
        Scripted { registry, ..Scripted::with_answers([decomposition_answer(&["x", "y"]), pipeline_answer(&["a"])]) };
    let mut draft = Draft::new("wish", "u");
    let pipeline = run_planner(&world, &PlannerSettings::default(), &mut draft).await.expect("a pipeline");
    assert_eq!(draft.available_blocks().len(), 1, "a block that serves twice is one block");
    assert!(!world.last_messages()[1].contains("source_code"));
    let complete = &world.event_payloads("complete")[0];
    assert_eq!(complete.get("pipeline"), Some(&pipeline));
    assert_eq!(complete.get("result").and_then(|result| result.get("pipeline_json")), Some(&pipeline));
    assert_eq!(complete.get("log"), Some(&Value::list(draft.stage_log())));
    let runs = build_definition(&pipeline, &draft.available_blocks());
    assert_eq!(runs.get("blocks").and_then(Value::as_list).map(<[Value]>::len), Some(1));
    let statuses: Vec<_> =
        world.event_payloads("stage").iter().filter_map(|event| event.get("status").cloned()).collect();
    assert_eq!(statuses, ["running".into(), "running".into(), "skipped".into(), Value::from("running")]);
}

#[tokio::test]
async fn without_one_of_its_blocks_there_is_no_pipeline() {
    let mut answers = vec![decomposition_answer(&["a", "b"])];
    answers.extend(vec![block_answer("wrong"); 4]);
    answers.extend([block_answer("upper"), pipeline_answer(&["b"])]);
    let world = Scripted::with_answers(answers);
    let mut draft = Draft::new("wish", "u");
    let error = run_planner(&world, &PlannerSettings::default(), &mut draft).await.expect_err("a is missing");
    assert!(error.code == Code::AuthoringFailed && error.message.contains("a ("), "{error}");
    assert_eq!(draft.missing_blocks(), ["a"]);
    assert_eq!(draft.available_blocks().len(), 1, "the one that passed is kept");
    assert_eq!(world.event_payloads("error")[0].get("missing_blocks"), Some(&parse_json(r#"["a"]"#)));
    let result = world.event_payloads("stage_result").pop().expect("create");
    let fields = ["status", "created", "failed"].map(|key| result.get(key).cloned().unwrap_or_default());
    assert_eq!(fields, ["failed".into(), parse_json(r#"["b"]"#), parse_json(r#"["a"]"#)]);
}

#[tokio::test]
async fn a_new_block_never_takes_the_place_of_another() {
    let registry = vec![registry_block("a", NUMBER_SCHEMA, 1.0)];
    let answers = [
        decomposition_answer(&["a", "web_scrape"]),
        block_answer("upper"),
        block_answer("upper"),
        pipeline_answer(&["a_2", "web_scrape_2"]),
    ];
    let world = Scripted { registry, ..Scripted::with_answers(answers) };
    let mut draft = Draft::new("wish", "u");
    run_planner(&world, &PlannerSettings::default(), &mut draft).await.expect("a pipeline");
    let created: Vec<_> =
        world.event_payloads("block_created").iter().filter_map(|event| event.get("block_id").cloned()).collect();
    assert_eq!(created, ["a_2".into(), Value::from("web_scrape_2")]);
}

/// Every question interrupts the planner once; the remaining draft continues with a new environment, after a round trip
/// through JSON.
#[tokio::test]
async fn a_draft_continues_where_it_was_left() {
    let answers = || {
        vec![
            decomposition_answer(&["a", "b"]),
            block_answer("upper"),
            block_answer("wrong"),
            block_answer("upper"),
            pipeline_answer(&["a", "b"]),
        ]
    };
    let mut whole = Draft::new("wish", "u");
    run_planner(&Scripted::with_answers(answers()), &PlannerSettings::default(), &mut whole).await.expect("a pipeline");
    for end in 0..answers().len() {
        let mut draft = Draft::new("wish", "u");
        let first = Scripted::with_answers(answers().into_iter().take(end));
        run_planner(&first, &PlannerSettings::default(), &mut draft).await.expect_err("interrupted");
        assert_eq!(first.event_names().last(), Some(&"error"));
        let text = serde_json::to_string(&draft).expect("JSON");
        let mut draft: Draft = serde_json::from_str(&text).expect("a draft");
        // A block that was being written is started anew.
        let left = if end == 3 { 2 } else { end };
        let second = Scripted::with_answers(answers().into_iter().skip(left));
        let pipeline = run_planner(&second, &PlannerSettings::default(), &mut draft).await.expect("a pipeline");
        assert_eq!(Some(pipeline), draft.pipeline);
        assert_eq!(draft, whole, "left before answer {end}");
        assert_eq!(second.event_names().contains(&"start"), end == 0);
    }
    let done = Scripted::default();
    assert_eq!(run_planner(&done, &PlannerSettings::default(), &mut whole.clone()).await.ok(), whole.pipeline);
    assert_eq!(done.event_names(), ["complete"], "nothing is left to do");
}

#[tokio::test]
async fn prompts_and_answers_are_reported_in_both_forms() {
    let world = Scripted::with_answers([decomposition_answer(&["a"])]);
    decompose_goal(&world, "wish").await.expect("a list");
    let (prompt, response) = (&world.event_payloads("llm_prompt")[0], &world.event_payloads("llm_response")[0]);
    let prompts = prompt.get("prompts").and_then(Value::as_list).expect("a list");
    assert_eq!(prompts[0].get("content"), prompt.get("system"));
    assert_eq!((prompts[1].get("role"), prompts[1].get("content")), (Some(&"user".into()), prompt.get("user")));
    assert_eq!(response.get("response"), response.get("raw"));
    assert_eq!(
        (response.get("elapsed"), response.get("elapsed_s")),
        (Some(&parse_json("0.5")), Some(&parse_json("0.5")))
    );
    assert_eq!(prompt.get("type"), Some(&"llm_prompt".into()));
}
