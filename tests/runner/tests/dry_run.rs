//! Dry runs in the real sandbox: which blocks run, which are mocked, which failures are excused, and that nothing
//! reaches the network.

mod support;

use std::net::TcpListener;

use conformance::block_on;
use flowloom_author::dry_run::{DryRunInputs, Excuse, MockSource, NodeReport, NodeStatus, Prompts};
use flowloom_author::{DryRun, DryRunner, TrialOutcome};
use flowloom_core::code::Code;
use flowloom_core::event::MemoryWrite;
use flowloom_core::render;
use flowloom_core::state::RunState;
use flowloom_core::status::Status;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::NoCodeRunner;
use support::{new_dry_runner, value_of};

const TEXT_SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
const SHOUT_SOURCE: &str = "def execute(inputs, context):\n    return {'text': inputs['text'].upper()}";
const RAISE_SOURCE: &str = "def execute(inputs, context):\n    raise ValueError('no ' + inputs['text'])";
const REFUSE_SOURCE: &str = "def execute(inputs, context):\n    return {'error': 'no ' + inputs['text']}";

/// A block with a text as input and output.
fn text_block(id: &str, more: &[(&str, Value)]) -> Value {
    let fields =
        [("id", Value::from(id)), ("input_schema", value_of(TEXT_SCHEMA)), ("output_schema", value_of(TEXT_SCHEMA))];
    Value::map(fields.into_iter().chain(more.iter().cloned()))
}

fn python_block(id: &str, source: &str) -> Value {
    text_block(id, &[("source_code", source.into())])
}

fn function_block(id: &str, examples: &str) -> Value {
    let kind = [("execution_type", "function".into()), ("function_id", "own::call".into())];
    text_block(id, &[&kind[..], &[("examples", value_of(examples))]].concat())
}

fn prompt_block(id: &str, examples: &str) -> Value {
    let template = ("prompt_template", "Say this in other words: {text}".into());
    text_block(id, &[("execution_type", "llm".into()), template, ("examples", value_of(examples))])
}

/// A pipeline of these blocks, each of which receives the text of the previous one.
fn chain_pipeline(blocks: &[Value]) -> Value {
    let node = |(index, block): (usize, &Value)| {
        let text = if index == 0 { "hello".to_owned() } else { format!("{{{{n{index}.text}}}}") };
        let id = block.get("id").cloned().unwrap_or_default();
        let inputs = Value::map([("text", text.into())]);
        Value::map([("id", format!("n{}", index + 1).into()), ("block_id", id), ("inputs", inputs)])
    };
    let pipeline = [("id", "p".into()), ("nodes", Value::list(blocks.iter().enumerate().map(node).collect()))];
    Value::map([("pipeline", Value::map(pipeline)), ("blocks", Value::list(blocks.to_vec()))])
}

fn offline_runner() -> DryRunner {
    new_dry_runner(None, &["own::call"])
}

fn mocked_inputs() -> DryRunInputs {
    DryRunInputs { prompts: Prompts::Mocked, ..DryRunInputs::default() }
}

fn run_dry(definition: &Value, given: &DryRunInputs) -> DryRun {
    block_on(offline_runner().dry_run(definition, given)).expect("a rehearsal")
}

fn node_output(node: &NodeReport) -> String {
    node.output.as_ref().map(render::to_json).unwrap_or_default()
}

#[test]
fn blocks_run_and_what_would_reach_the_user_is_reported_and_kept_nowhere() {
    let definition = value_of(
        r#"{"id":"p","nodes":[
            {"id":"n1","block_id":"memory_write","inputs":{"key":"seen","value":"{{memory.topic}}"}},
            {"id":"n2","block_id":"memory_read","inputs":{"key":"seen"}},
            {"id":"n3","block_id":"notify_push","inputs":{"title":"{{n2.value}}","body":"with milk"}}],
            "edges":[{"from":"n1","to":"n2"}]}"#,
    );
    let memory = Map::from_iter([("topic".into(), Value::from("tea"))]);
    let given = DryRunInputs { memory, ..mocked_inputs() };
    for _ in 0..2 {
        let dry_run = run_dry(&definition, &given);
        let ids: Vec<_> = dry_run.nodes.iter().map(|node| (node.node_id.as_str(), node.block_id.as_str())).collect();
        assert_eq!(ids, [("n1", "memory_write"), ("n2", "memory_read"), ("n3", "notify_push")]);
        assert_eq!(node_output(&dry_run.nodes[1]), r#"{"value":"tea"}"#, "what was written is seen within the run");
        assert_eq!((dry_run.nodes[2].mocked, dry_run.nodes[1].mocked), (Some(MockSource::Example), None));
        assert_eq!(dry_run.notifications[0].get("body"), Some(&"with milk".into()));
        assert_eq!(dry_run.notifications[0].get("title"), Some(&"tea".into()));
        let write = MemoryWrite { key: "seen".into(), value: Some("tea".into()) };
        assert_eq!((dry_run.memory.as_slice(), dry_run.list_faults().len()), (&[write][..], 0));
    }
    let fresh = run_dry(
        &value_of(r#"{"id":"p","nodes":[{"id":"n1","block_id":"memory_read","inputs":{"key":"seen"}}]}"#),
        &given,
    );
    assert_eq!(node_output(&fresh.nodes[0]), r#"{"value":null}"#);
}

#[test]
fn the_events_of_a_dry_run_can_be_replayed() {
    let dry_run = run_dry(&chain_pipeline(&[python_block("shout", SHOUT_SOURCE)]), &mocked_inputs());
    assert!(dry_run.to_value().get("events").is_none(), "a report for people and models is short");
    let text = serde_json::to_string(&dry_run).expect("JSON");
    let DryRun { events, nodes, .. } = serde_json::from_str(&text).expect("a dry run");
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), Vec::from_iter(1..=events.len() as u64));
    let state = RunState::from_records(&events).expect("a run");
    let node = state.steps().iter().find(|step| step.path.to_string() == "/nodes~1/n1").expect("a step");
    assert_eq!((state.status, &node.output), (Status::Succeeded, &nodes[0].output));
}

#[test]
fn what_does_not_run_is_mocked_and_failures_that_follow_are_distinguished() {
    let example = r#"[{"inputs":{"text":"x"},"outputs":{"text":"an example"}}]"#;
    for mocked_block in [function_block("f", example), prompt_block("f", example)] {
        let dry_run = run_dry(&chain_pipeline(&[mocked_block, python_block("shout", SHOUT_SOURCE)]), &mocked_inputs());
        assert_eq!(dry_run.nodes[0].mocked, Some(MockSource::Example));
        assert_eq!(node_output(&dry_run.nodes[1]), r#"{"text":"AN EXAMPLE"}"#);
    }
    let end = |first: Value, source: &str| {
        let dry_run = run_dry(
            &chain_pipeline(&[first, python_block("last", source), python_block("after", SHOUT_SOURCE)]),
            &mocked_inputs(),
        );
        let [_, last, after] = dry_run.nodes.as_slice() else { panic!("{dry_run:?}") };
        assert_eq!((last.status, after.status), (NodeStatus::Failed, NodeStatus::Skipped));
        (dry_run.nodes[0].mocked, last.excuse, dry_run.list_faults())
    };
    let (source, excuse, faults) = end(function_block("f", "[]"), RAISE_SOURCE);
    assert_eq!((source, excuse, faults.len()), (Some(MockSource::MadeUp), Some(Excuse::Mocked), 0));
    let (_, excuse, faults) = end(function_block("f", example), REFUSE_SOURCE);
    assert_eq!((excuse, faults.len()), (Some(Excuse::Mocked), 0), "a block may refuse an example for other inputs");
    let (_, excuse, faults) = end(function_block("f", example), RAISE_SOURCE);
    assert_eq!((excuse, faults.len()), (None, 1), "and must not break on one");
    let (_, excuse, faults) = end(python_block("f", SHOUT_SOURCE), REFUSE_SOURCE);
    assert_eq!((excuse, faults.len()), (None, 1));
    assert!(
        faults[0].contains("the node n2 (block last) fails: no HELLO; it was given {\"text\":\"HELLO\"}"),
        "{faults:?}"
    );
}

#[test]
fn nothing_reaches_the_network() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a listener");
    let address = format!("http://{}/", listener.local_addr().expect("an address"));
    let source = format!(
        "async def execute(inputs, context):\n    return {{'text': (await httpx.AsyncClient().get('{address}')).text}}"
    );
    let example = [("examples", value_of(r#"[{"inputs":{"text":"x"},"outputs":{"text":"an example"}}]"#))];
    let reaches = python_block("reaches", &source);
    let dry_run = run_dry(&chain_pipeline(std::slice::from_ref(&reaches)), &mocked_inputs());
    let node = &dry_run.nodes[0];
    assert_eq!((node.status, node.excuse), (NodeStatus::Failed, Some(Excuse::WantedMore)));
    let why = &node.error.as_ref().expect("why").message;
    assert!(why.contains("no network") && why.contains(&address), "{why}");

    let fixture =
        r#"{"reaches":[{"inputs":{"text":"elsewhere"},"outputs":{"text":"no"}},{"outputs":{"text":"a fixture"}}]}"#;
    let given = DryRunInputs { fixtures: serde_json::from_str(fixture).expect("fixtures"), ..mocked_inputs() };
    let dry_run = run_dry(&chain_pipeline(&[reaches]), &given);
    assert_eq!(
        (dry_run.nodes[0].mocked, node_output(&dry_run.nodes[0])),
        (Some(MockSource::Fixture), r#"{"text":"a fixture"}"#.into())
    );
    let body = text_block("reaches", &[&[("source_code", source.as_str().into())][..], &example].concat());
    assert_eq!(
        run_dry(&chain_pipeline(std::slice::from_ref(&body)), &mocked_inputs()).nodes[0].mocked,
        Some(MockSource::Example)
    );

    let trial =
        block_on(offline_runner().try_block(&body, &value_of(r#"{"text":"x"}"#))).expect("a trial").into_trial();
    assert!(
        matches!(&trial, TrialOutcome::Failed(error) if error.message.contains("no network")),
        "its trial is its own: {trial:?}"
    );
    assert!(listener.accept().is_err(), "somebody called");
}

#[test]
fn a_block_is_tried_alone_with_prompts_really_asked() {
    let script = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        script.path(),
        r#"{"match":[{"contains":"other words: hello","answer":{"json":{"text":"hi"}}}],"default":"never"}"#,
    )
    .expect("written");
    let world = new_dry_runner(Some(script.path()), &[]);
    let attempt = |block: &Value, inputs: &str| block_on(world.try_block(block, &value_of(inputs)));
    let asked = attempt(&prompt_block("p", "[]"), r#"{"text":"hello"}"#).expect("a trial");
    assert!(asked.usage.input_tokens > 0);
    assert_eq!(asked.into_trial(), TrialOutcome::Returned(value_of(r#"{"text":"hi"}"#)));
    let no_json = attempt(&prompt_block("p", "[]"), r#"{"text":"else"}"#).expect("a trial").into_trial();
    assert!(matches!(&no_json, TrialOutcome::Failed(error) if error.code == Code::ModelNotJson), "{no_json:?}");

    let reference = r#"{"text":"{{n9.text}} {{memory.x}}"}"#;
    let data = attempt(&python_block("shout", SHOUT_SOURCE), reference).expect("a trial").into_trial();
    assert_eq!(
        data,
        TrialOutcome::Returned(value_of(r#"{"text":"{{N9.TEXT}} {{MEMORY.X}}"}"#)),
        "what is tried is data"
    );
    let refused = attempt(&python_block("b", REFUSE_SOURCE), r#"{"text":"x"}"#).expect("a trial").into_trial();
    assert_eq!(
        refused,
        TrialOutcome::Returned(value_of(r#"{"error":"no x"}"#)),
        "what it gave is told, so that it can be judged"
    );
    let unfit = attempt(&python_block("b", SHOUT_SOURCE), "{}").expect("a trial").into_trial();
    assert!(matches!(&unfit, TrialOutcome::Failed(error) if error.code == Code::BlockInput), "{unfit:?}");
}

#[test]
fn what_the_installation_lacks_is_an_error_and_nobodys_failure() {
    let no_model = block_on(offline_runner().try_block(&prompt_block("p", "[]"), &value_of(r#"{"text":"x"}"#)))
        .expect_err("no model");
    assert_eq!(no_model.code, Code::ModelNone);
    let no_sandbox = DryRunner { code: std::sync::Arc::new(NoCodeRunner), ..offline_runner() };
    let error = block_on(no_sandbox.dry_run(&chain_pipeline(&[python_block("b", SHOUT_SOURCE)]), &mocked_inputs()))
        .expect_err("no sandbox");
    assert_eq!(error.code, Code::NoSandbox);
    let odd = block_on(
        offline_runner().dry_run(&value_of(r#"{"id":"p","nodes":[{"id":"n1","block_id":"lost"}]}"#), &mocked_inputs()),
    );
    assert_eq!(odd.expect_err("no such block").code, Code::UnknownBlockId);
}
