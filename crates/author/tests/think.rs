//! All stages, and continuing after each kind of interruption.

mod support;

use flowloom_author::decompose::decompose;
use flowloom_author::search::search;
use flowloom_author::wire::{definition, wire};
use flowloom_author::{Draft, Rehearsal, Settings, think};
use flowloom_core::block::Thresholds;
use flowloom_core::code::Code;
use flowloom_core::error::StepError;
use flowloom_core::value::Value;
use support::{Scripted, TEXT, kept, needs, value, wires, writes};

const NUMBER: &str = r#"{"type":"object","properties":{"text":{"type":"number"}}}"#;

fn errors(world: &Scripted, stage: &str) -> Vec<bool> {
    let told = world.told("validation");
    let of_stage = told.iter().filter(|event| event.get("stage") == Some(&stage.into()));
    of_stage.map(|event| event.get("error").is_some()).collect()
}

#[tokio::test]
async fn an_invalid_list_goes_back_with_everything_that_is_wrong() {
    let twice = needs(&["a", "a", "b/c"]);
    let world = Scripted::says([twice, "no".into(), needs(&["a"])]);
    let wanted = decompose(&world, "wish").await.expect("at last");
    assert_eq!(wanted.len(), 1);
    let last = &world.wishes()[2];
    assert!(last.contains("answer 1: there are several blocks \"a\"") && last.contains("answer 1: \"b/c\" is no id"));
    assert!(last.contains("answer 2: the answer has no JSON object"), "{last}");
    assert_eq!(errors(&world, "decompose"), [true, true, false]);
    let names = world.names();
    let end = ["llm_prompt", "llm_response", "stage_result", "decompose_blocks", "validation"];
    assert_eq!(names[names.len() - 5..], end);
}

#[tokio::test]
async fn an_unusable_list_is_an_error_and_no_empty_success() {
    let world = Scripted::says(vec![r#"{"required_blocks":[]}"#; 5]);
    let mut draft = Draft::new("wish", "u");
    let error = think(&world, &Settings::default(), &mut draft).await.expect_err("nothing");
    assert_eq!(error.code, Code::AuthoringFailed);
    assert_eq!(world.asked().len(), 4, "three repairs and no more");
    assert_eq!(draft, Draft::new("wish", "u"));
    let names = world.names();
    assert!(!names.contains(&"complete") && !names.contains(&"stage_result"));
    assert_eq!(names.last(), Some(&"error"));
    let told = &world.told("error")[0];
    assert_eq!((told.get("stage"), told.get("code")), (Some(&"decompose".into()), Some(&"FL1060".into())));
}

#[tokio::test]
async fn the_registry_is_asked_for_each_block() {
    let registry = vec![kept("good", TEXT, 0.9), kept("bad", NUMBER, 1.0)];
    let wanted = decompose(&Scripted::says([needs(&["a"])]), "wish").await.expect("a list");
    let world = Scripted { registry, ..Scripted::default() };
    let searched = search(&world, &wanted, &Thresholds::default()).await.expect("searched");
    assert_eq!(searched.found_ids().collect::<Vec<_>>(), ["good"]);
    assert_eq!(searched.taken, ["good", "bad"]);
    let found = &world.told("search_found")[0];
    for key in ["block_id", "matched_block_id"] {
        assert_eq!(found.get(key), Some(&"good".into()));
    }
    let missing = search(&world, &wanted, &Thresholds { likeness: 0.95, words: 0.95 }).await.expect("searched");
    assert_eq!(missing.missing_ids().collect::<Vec<_>>(), ["a"], "a clash of types is no match, whatever the score");
    assert_eq!(world.told("search_missing")[0].get("candidates_checked"), Some(&2.into()));
}

#[tokio::test]
async fn wiring_goes_back_until_it_passes_and_never_passes_by_being_asked_often() {
    let blocks = [kept("a", TEXT, 1.0).block];
    let bad = r#"{"nodes":[{"id":"n1","block_id":"b","inputs":{"text":"{{n2.x}}"}}]}"#.to_owned();
    let world = Scripted::says([bad.clone(), wires(&["a"])]);
    let wired = wire(&world, "wish", &blocks, &Settings::default().sources).await.expect("at last");
    assert_eq!(wired.pipeline.get("id"), Some(&"pipeline_p".into()));
    let wishes = world.wishes();
    assert!(wishes[0].contains("===== data: the blocks =====") && !wishes[0].contains("rror"));
    assert!(wishes[1].contains("\"b\" is none of the blocks") && wishes[1].contains("n2"), "{}", wishes[1]);
    assert_eq!(errors(&world, "wire"), [true, false]);

    let world = Scripted::says(vec![bad; 5]);
    let error = wire(&world, "wish", &blocks, &Settings::default().sources).await.expect_err("never");
    assert_eq!((error.code, world.asked().len()), (Code::AuthoringFailed, 4));
    assert!(world.told("stage_result").is_empty());
}

fn rehearsed(node: &str) -> Rehearsal {
    serde_json::from_str(&format!(r#"{{"nodes":[{node}],"notifications":[],"memory":[],"usage":{{}}}}"#)).expect("one")
}

#[tokio::test]
async fn a_pipeline_that_fails_when_it_is_tried_goes_back() {
    let fails = r#"{"node_id":"n1","block_id":"a","status":"failed","inputs":{"text":"x"},"error":{"code":"FL1052","message":"KeyError: 'y'"}}"#;
    let excused = fails.replace("\"status\"", "\"excuse\":\"played\",\"status\"");
    let blocks = [kept("a", TEXT, 1.0).block];
    let world = Scripted::says([wires(&["a"]), wires(&["a"])]);
    world.rehearsals.lock().expect("lock").extend([Ok(rehearsed(fails)), Ok(rehearsed(&excused))]);
    let wired = wire(&world, "wish", &blocks, &Settings::default().sources).await.expect("at last");
    assert_eq!(wired.tried, rehearsed(&excused), "a failure that says nothing about the pipeline does not hold it up");
    let wishes = world.wishes();
    assert!(wishes[1].contains("the node n1 (block a) fails: KeyError: 'y'; it was given {\"text\":\"x\"}"));
    assert_eq!(errors(&world, "wire"), [true, false]);
    assert_eq!(world.told("stage_result")[0].get("tried"), Some(&wired.tried.to_value()));

    let world = Scripted::says(vec![wires(&["a"]); 5]);
    world.rehearsals.lock().expect("lock").extend((0..5).map(|_| Ok(rehearsed(fails))));
    let error = wire(&world, "wish", &blocks, &Settings::default().sources).await.expect_err("never");
    assert_eq!((error.code, world.asked().len()), (Code::AuthoringFailed, 4));

    let world = Scripted::says([wires(&["a"])]);
    world.rehearsals.lock().expect("lock").push_back(Err(StepError::new(Code::NoSandbox, "there is none")));
    let error = wire(&world, "wish", &blocks, &Settings::default().sources).await.expect_err("no sandbox");
    assert_eq!((error.code, world.asked().len()), (Code::NoSandbox, 1), "nobody is asked to repair the world");
}

#[tokio::test]
async fn what_was_found_is_not_written_and_the_catalogue_has_no_source() {
    let registry = vec![kept("a", TEXT, 1.0)];
    let world = Scripted { registry, ..Scripted::says([needs(&["x", "y"]), wires(&["a"])]) };
    let mut draft = Draft::new("wish", "u");
    let pipeline = think(&world, &Settings::default(), &mut draft).await.expect("a pipeline");
    assert_eq!(draft.blocks().len(), 1, "a block that serves twice is one block");
    assert!(!world.wishes()[1].contains("source_code"));
    let complete = &world.told("complete")[0];
    assert_eq!(complete.get("pipeline"), Some(&pipeline));
    assert_eq!(complete.get("result").and_then(|result| result.get("pipeline_json")), Some(&pipeline));
    assert_eq!(complete.get("log"), Some(&Value::list(draft.log())));
    let runs = definition(&pipeline, &draft.blocks());
    assert_eq!(runs.get("blocks").and_then(Value::as_list).map(<[Value]>::len), Some(1));
    let statuses: Vec<_> = world.told("stage").iter().filter_map(|event| event.get("status").cloned()).collect();
    assert_eq!(statuses, ["running".into(), "running".into(), "skipped".into(), Value::from("running")]);
}

#[tokio::test]
async fn without_one_of_its_blocks_there_is_no_pipeline() {
    let mut answers = vec![needs(&["a", "b"])];
    answers.extend(vec![writes("wrong"); 4]);
    answers.extend([writes("upper"), wires(&["b"])]);
    let world = Scripted::says(answers);
    let mut draft = Draft::new("wish", "u");
    let error = think(&world, &Settings::default(), &mut draft).await.expect_err("a is missing");
    assert!(error.code == Code::AuthoringFailed && error.message.contains("a ("), "{error}");
    assert_eq!(draft.missing_blocks(), ["a"]);
    assert_eq!(draft.blocks().len(), 1, "the one that passed is kept");
    assert_eq!(world.told("error")[0].get("missing_blocks"), Some(&value(r#"["a"]"#)));
    let result = world.told("stage_result").pop().expect("create");
    let fields = ["status", "created", "failed"].map(|key| result.get(key).cloned().unwrap_or_default());
    assert_eq!(fields, ["failed".into(), value(r#"["b"]"#), value(r#"["a"]"#)]);
}

#[tokio::test]
async fn a_new_block_never_takes_the_place_of_another() {
    let registry = vec![kept("a", NUMBER, 1.0)];
    let answers = [needs(&["a", "web_scrape"]), writes("upper"), writes("upper"), wires(&["a_2", "web_scrape_2"])];
    let world = Scripted { registry, ..Scripted::says(answers) };
    let mut draft = Draft::new("wish", "u");
    think(&world, &Settings::default(), &mut draft).await.expect("a pipeline");
    let created: Vec<_> =
        world.told("block_created").iter().filter_map(|event| event.get("block_id").cloned()).collect();
    assert_eq!(created, ["a_2".into(), Value::from("web_scrape_2")]);
}

/// Every question interrupts the planner once; the remaining draft continues with a new environment, after a round trip
/// through JSON.
#[tokio::test]
async fn a_draft_goes_on_where_it_was_left() {
    let answers = || vec![needs(&["a", "b"]), writes("upper"), writes("wrong"), writes("upper"), wires(&["a", "b"])];
    let mut whole = Draft::new("wish", "u");
    think(&Scripted::says(answers()), &Settings::default(), &mut whole).await.expect("a pipeline");
    for end in 0..answers().len() {
        let mut draft = Draft::new("wish", "u");
        let first = Scripted::says(answers().into_iter().take(end));
        think(&first, &Settings::default(), &mut draft).await.expect_err("interrupted");
        assert_eq!(first.names().last(), Some(&"error"));
        let text = serde_json::to_string(&draft).expect("JSON");
        let mut draft: Draft = serde_json::from_str(&text).expect("a draft");
        // A block that was being written is started anew.
        let left = if end == 3 { 2 } else { end };
        let second = Scripted::says(answers().into_iter().skip(left));
        let pipeline = think(&second, &Settings::default(), &mut draft).await.expect("a pipeline");
        assert_eq!(Some(pipeline), draft.pipeline);
        assert_eq!(draft, whole, "left before answer {end}");
        assert_eq!(second.names().contains(&"start"), end == 0);
    }
    let done = Scripted::default();
    assert_eq!(think(&done, &Settings::default(), &mut whole.clone()).await.ok(), whole.pipeline);
    assert_eq!(done.names(), ["complete"], "nothing is left to do");
}

#[tokio::test]
async fn prompts_and_answers_are_told_in_both_forms() {
    let world = Scripted::says([needs(&["a"])]);
    decompose(&world, "wish").await.expect("a list");
    let (prompt, response) = (&world.told("llm_prompt")[0], &world.told("llm_response")[0]);
    let prompts = prompt.get("prompts").and_then(Value::as_list).expect("a list");
    assert_eq!(prompts[0].get("content"), prompt.get("system"));
    assert_eq!((prompts[1].get("role"), prompts[1].get("content")), (Some(&"user".into()), prompt.get("user")));
    assert_eq!(response.get("response"), response.get("raw"));
    assert_eq!((response.get("elapsed"), response.get("elapsed_s")), (Some(&value("0.5")), Some(&value("0.5"))));
    assert_eq!(prompt.get("type"), Some(&"llm_prompt".into()));
}
