//! Dry runs in the real sandbox: which blocks run, which are mocked, which failures are excused, and that nothing
//! reaches the network.

mod support;

use std::net::TcpListener;

use conformance::block_on;
use flowloom_author::rehearse::{Excuse, Given, Node, NodeStatus, Prompts, Source};
use flowloom_author::{Rehearsal, Rehearser, Trial};
use flowloom_core::code::Code;
use flowloom_core::event::MemoryWrite;
use flowloom_core::render;
use flowloom_core::value::{Map, Value};
use flowloom_runtime::effects::NoCode;
use support::{rehearser, value};

const TEXT: &str = r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
const SHOUT: &str = "def execute(inputs, context):\n    return {'text': inputs['text'].upper()}";
const RAISE: &str = "def execute(inputs, context):\n    raise ValueError('no ' + inputs['text'])";
const REFUSE: &str = "def execute(inputs, context):\n    return {'error': 'no ' + inputs['text']}";

/// A block with a text as input and output.
fn block(id: &str, more: &[(&str, Value)]) -> Value {
    let fields = [("id", Value::from(id)), ("input_schema", value(TEXT)), ("output_schema", value(TEXT))];
    Value::map(fields.into_iter().chain(more.iter().cloned()))
}

fn python(id: &str, source: &str) -> Value {
    block(id, &[("source_code", source.into())])
}

fn function(id: &str, examples: &str) -> Value {
    let kind = [("execution_type", "function".into()), ("function_id", "own::call".into())];
    block(id, &[&kind[..], &[("examples", value(examples))]].concat())
}

fn prompt(id: &str, examples: &str) -> Value {
    let template = ("prompt_template", "Say this in other words: {text}".into());
    block(id, &[("execution_type", "llm".into()), template, ("examples", value(examples))])
}

/// A pipeline of these blocks, each of which receives the text of the previous one.
fn chain(blocks: &[Value]) -> Value {
    let node = |(index, block): (usize, &Value)| {
        let text = if index == 0 { "hello".to_owned() } else { format!("{{{{n{index}.text}}}}") };
        let id = block.get("id").cloned().unwrap_or_default();
        let inputs = Value::map([("text", text.into())]);
        Value::map([("id", format!("n{}", index + 1).into()), ("block_id", id), ("inputs", inputs)])
    };
    let pipeline = [("id", "p".into()), ("nodes", Value::list(blocks.iter().enumerate().map(node).collect()))];
    Value::map([("pipeline", Value::map(pipeline)), ("blocks", Value::list(blocks.to_vec()))])
}

fn world() -> Rehearser {
    rehearser(None, &["own::call"])
}

fn played() -> Given {
    Given { prompts: Prompts::Played, ..Given::default() }
}

fn rehearse(definition: &Value, given: &Given) -> Rehearsal {
    block_on(world().rehearse(definition, given)).expect("a rehearsal")
}

fn gave(node: &Node) -> String {
    node.output.as_ref().map(render::json).unwrap_or_default()
}

#[test]
fn blocks_run_and_what_would_reach_the_user_is_told_and_kept_nowhere() {
    let definition = value(
        r#"{"id":"p","nodes":[
            {"id":"n1","block_id":"memory_write","inputs":{"key":"seen","value":"{{memory.topic}}"}},
            {"id":"n2","block_id":"memory_read","inputs":{"key":"seen"}},
            {"id":"n3","block_id":"notify_push","inputs":{"title":"{{n2.value}}","body":"with {{secret.TOKEN}}"}}],
            "edges":[{"from":"n1","to":"n2"}]}"#,
    );
    let memory = Map::from_iter([("topic".into(), Value::from("tea"))]);
    let given = Given { memory, ..played() };
    for _ in 0..2 {
        let rehearsal = rehearse(&definition, &given);
        let ids: Vec<_> = rehearsal.nodes.iter().map(|node| (node.node_id.as_str(), node.block_id.as_str())).collect();
        assert_eq!(ids, [("n1", "memory_write"), ("n2", "memory_read"), ("n3", "notify_push")]);
        assert_eq!(gave(&rehearsal.nodes[1]), r#"{"value":"tea"}"#, "what was written is seen within the run");
        assert_eq!((rehearsal.nodes[2].played, rehearsal.nodes[1].played), (Some(Source::Example), None));
        let told = rehearsal.notifications[0].get("body").and_then(Value::as_str).expect("a body");
        assert!(told.contains("TOKEN"), "a secret is no more than its name: {told}");
        assert_eq!(rehearsal.notifications[0].get("title"), Some(&"tea".into()));
        let write = MemoryWrite { key: "seen".into(), value: Some("tea".into()) };
        assert_eq!((rehearsal.memory.as_slice(), rehearsal.faults().len()), (&[write][..], 0));
    }
    let fresh = rehearse(
        &value(r#"{"id":"p","nodes":[{"id":"n1","block_id":"memory_read","inputs":{"key":"seen"}}]}"#),
        &given,
    );
    assert_eq!(gave(&fresh.nodes[0]), r#"{"value":null}"#);
}

#[test]
fn what_does_not_run_is_played_and_failures_that_follow_are_told_apart() {
    let example = r#"[{"inputs":{"text":"x"},"outputs":{"text":"an example"}}]"#;
    for played_block in [function("f", example), prompt("f", example)] {
        let rehearsal = rehearse(&chain(&[played_block, python("shout", SHOUT)]), &played());
        assert_eq!(rehearsal.nodes[0].played, Some(Source::Example));
        assert_eq!(gave(&rehearsal.nodes[1]), r#"{"text":"AN EXAMPLE"}"#);
    }
    let end = |first: Value, source: &str| {
        let rehearsal = rehearse(&chain(&[first, python("last", source), python("after", SHOUT)]), &played());
        let [_, last, after] = rehearsal.nodes.as_slice() else { panic!("{rehearsal:?}") };
        assert_eq!((last.status, after.status), (NodeStatus::Failed, NodeStatus::Skipped));
        (rehearsal.nodes[0].played, last.excuse, rehearsal.faults())
    };
    let (source, excuse, faults) = end(function("f", "[]"), RAISE);
    assert_eq!((source, excuse, faults.len()), (Some(Source::MadeUp), Some(Excuse::Played), 0));
    let (_, excuse, faults) = end(function("f", example), REFUSE);
    assert_eq!((excuse, faults.len()), (Some(Excuse::Played), 0), "a block may refuse an example for other inputs");
    let (_, excuse, faults) = end(function("f", example), RAISE);
    assert_eq!((excuse, faults.len()), (None, 1), "and must not break on one");
    let (_, excuse, faults) = end(python("f", SHOUT), REFUSE);
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
    let example = [("examples", value(r#"[{"inputs":{"text":"x"},"outputs":{"text":"an example"}}]"#))];
    let reaches = python("reaches", &source);
    let rehearsal = rehearse(&chain(std::slice::from_ref(&reaches)), &played());
    let node = &rehearsal.nodes[0];
    assert_eq!((node.status, node.excuse), (NodeStatus::Failed, Some(Excuse::WantedMore)));
    let why = &node.error.as_ref().expect("why").message;
    assert!(why.contains("no network") && why.contains(&address), "{why}");

    let fixture =
        r#"{"reaches":[{"inputs":{"text":"elsewhere"},"outputs":{"text":"no"}},{"outputs":{"text":"a fixture"}}]}"#;
    let given = Given { fixtures: serde_json::from_str(fixture).expect("fixtures"), ..played() };
    let rehearsal = rehearse(&chain(&[reaches]), &given);
    assert_eq!(
        (rehearsal.nodes[0].played, gave(&rehearsal.nodes[0])),
        (Some(Source::Fixture), r#"{"text":"a fixture"}"#.into())
    );
    let told = block("reaches", &[&[("source_code", source.as_str().into())][..], &example].concat());
    assert_eq!(rehearse(&chain(std::slice::from_ref(&told)), &played()).nodes[0].played, Some(Source::Example));

    let trial = block_on(world().attempt(&told, &value(r#"{"text":"x"}"#))).expect("a trial").into_trial();
    assert!(
        matches!(&trial, Trial::Failed(error) if error.message.contains("no network")),
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
    let world = rehearser(Some(script.path()), &[]);
    let attempt = |block: &Value, inputs: &str| block_on(world.attempt(block, &value(inputs)));
    let asked = attempt(&prompt("p", "[]"), r#"{"text":"hello"}"#).expect("a trial");
    assert!(asked.usage.input_tokens > 0);
    assert_eq!(asked.into_trial(), Trial::Gave(value(r#"{"text":"hi"}"#)));
    let no_json = attempt(&prompt("p", "[]"), r#"{"text":"else"}"#).expect("a trial").into_trial();
    assert!(matches!(&no_json, Trial::Failed(error) if error.code == Code::ModelNotJson), "{no_json:?}");

    let reference = r#"{"text":"{{n9.text}} {{memory.x}}"}"#;
    let data = attempt(&python("shout", SHOUT), reference).expect("a trial").into_trial();
    assert_eq!(data, Trial::Gave(value(r#"{"text":"{{N9.TEXT}} {{MEMORY.X}}"}"#)), "what is tried is data");
    let refused = attempt(&python("b", REFUSE), r#"{"text":"x"}"#).expect("a trial").into_trial();
    assert_eq!(refused, Trial::Gave(value(r#"{"error":"no x"}"#)), "what it gave is told, so that it can be judged");
    let unfit = attempt(&python("b", SHOUT), "{}").expect("a trial").into_trial();
    assert!(matches!(&unfit, Trial::Failed(error) if error.code == Code::BlockInput), "{unfit:?}");
}

#[test]
fn what_the_installation_lacks_is_an_error_and_nobodys_failure() {
    let no_model = block_on(world().attempt(&prompt("p", "[]"), &value(r#"{"text":"x"}"#))).expect_err("no model");
    assert_eq!(no_model.code, Code::ModelNone);
    let no_sandbox = Rehearser { code: std::sync::Arc::new(NoCode), ..world() };
    let error = block_on(no_sandbox.rehearse(&chain(&[python("b", SHOUT)]), &played())).expect_err("no sandbox");
    assert_eq!(error.code, Code::NoSandbox);
    let odd = block_on(world().rehearse(&value(r#"{"id":"p","nodes":[{"id":"n1","block_id":"lost"}]}"#), &played()));
    assert_eq!(odd.expect_err("no such block").code, Code::UnknownBlockId);
}
