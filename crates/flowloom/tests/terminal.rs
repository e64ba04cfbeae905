//! The output of the commands without a terminal, one snapshot each.

mod support;

use support::{Workspace, exit_code, stderr_text};

const STEPS_DEFINITION: &str = include_str!("../../../examples/steps/review-document.json");
const ASK_DEFINITION: &str = include_str!("../../../examples/steps/ask-a-person.json");

/// A flow that needs no server.
const FLOW_DEFINITION: &str = r#"{
  "name": "Two sentences",
  "description": "Writes a sentence about a city and translates it",
  "steps": [
    {"type": "start", "config": {"variables": [{"name": "city", "value": "Oslo"}]}},
    {"type": "llmInstruction", "config": {"instruction": "One sentence about ${city}", "resultVariable": "sentence"}},
    {"type": "llmInstruction", "config": {"instruction": "In German: ${sentence}", "resultVariable": "german", "directOutput": true}}
  ]
}
"#;

const MODEL_SCRIPT: &str = r#"{"match": [
  {"contains": "One sentence about", "answer": "Oslo lies at the end of a fjord."},
  {"contains": "In German", "answer": "Oslo liegt am Ende eines Fjords."},
  {"contains": "A clean room. Repaired on Friday.", "answer": "The room was clean, and the lift is repaired."},
  {"contains": "out of order for three days", "answer": "Repaired on Friday."},
  {"contains": "Dear guests", "answer": "The lift works again."},
  {"contains": "Rewrite the input text", "answer": "A clean room."},
  {"contains": "poem", "answer": "The tide goes out,\nthe tide comes in."}
]}"#;

/// Steps that ask two questions at the same time.
const ASK_TWICE: &str = r#"{"id": "questions", "name": "Questions", "steps": [
  {"name": "city", "functionId": "human::ask", "mode": "fanout", "promptTemplate": "Which city?", "errorMode": "fail"},
  {"name": "colour", "functionId": "human::ask", "mode": "fanout", "promptTemplate": "Which colour?\nOne word.", "errorMode": "fail"},
  {"name": "all", "functionId": "agent::chat", "mode": "collect", "promptTemplate": "{{input}}", "errorMode": "fail"}
]}"#;

/// A node that says itself that it has failed, and one after it.
const REFUSED_OUTPUT: &str = r#"{"pipeline": {"id": "p", "name": "p", "nodes": [
    {"id": "first", "block_id": "refuse", "inputs": {}},
    {"id": "second", "block_id": "refuse", "inputs": {"value": "{{first.value}}"}}
  ], "edges": []},
  "blocks": [{"id": "refuse", "execution_type": "python",
    "source_code": "def execute(inputs, context):\n    return {'error': 'nothing found'}"}]
}"#;

/// A condition that does not hold, and a model call after it.
const NO_BRANCH: &str = "Hello

<Cond as=\"draft\" if={false}>
A draft.
</Cond>

A poem, please.

<GenText as=\"poem\" model=\"scripted:script.json\" />
";

/// A workspace with definitions and a scripted model.
fn create_workspace() -> Workspace {
    let place = Workspace::new("default_model = \"scripted:script.json\"\n");
    place.write("script.json", MODEL_SCRIPT);
    place.write("flow.json", FLOW_DEFINITION);
    place.write("review.json", STEPS_DEFINITION);
    place.write("ask.json", ASK_DEFINITION);
    place
}

/// Runs one command and compares its output with a snapshot, with times, ids and folders replaced.
fn check_output(name: &str, place: &Workspace, arguments: &[&str]) {
    let output = place.run(arguments);
    let printed = format!(
        "$ flowloom {}\n{}\n{}\nexit {}\n",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stdout),
        stderr_text(&output),
        exit_code(&output)
    );
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("terminal");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let folder = place.path("");
    let folder = folder.to_str().expect("UTF-8").trim_end_matches('/');
    // The details of the sandbox depend on the machine.
    settings.add_filter(r"((?:javascript|python) sandbox +works: ).*", "${1}[HOW]");
    settings.add_filter(
        r"[✓!] (namespaces|Landlock|signal scope|own user|memory shortage)( +)(?:missing: .*\n +)?.*",
        "? ${1}${2}[HOW]",
    );
    settings.add_filter(folder, "[folder]");
    settings.add_filter(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "[run]");
    settings.add_filter(r" +\d+(\.\d)?m?s\b", " [time]");
    settings.add_filter(r"▏[ ━]*▕", "▏[bar]▕");
    settings.bind(|| insta::assert_snapshot!(name, printed));
}

#[test]
fn a_flow_runs_and_is_looked_at() {
    let place = create_workspace();
    check_output("run-flow", &place, &["run", "flow.json"]);
    check_output("show-flow", &place, &["show", "last"]);
    check_output("replay", &place, &["replay", "last"]);
}

#[test]
fn a_step_list_runs_and_is_looked_at() {
    let place = create_workspace();
    // Branches end in the order of the model's answers; scripted answers come in the order of the steps.
    check_output("run-steps", &place, &["run", "review.json", "-i", "text=My lamp is broken."]);
    check_output("show-steps", &place, &["show", "last"]);
    check_output("runs", &place, &["runs"]);
}

#[test]
fn a_run_that_waits_says_what_for() {
    let place = create_workspace();
    check_output("run-waits", &place, &["run", "ask.json"]);
    check_output("show-waits", &place, &["show", "last"]);
    check_output("answer", &place, &["answer", "last", "the tide"]);
    check_output("answer-again", &place, &["answer", "last", "the moon"]);
}

#[test]
fn a_run_with_two_questions_names_both() {
    let place = create_workspace();
    place.write("questions.json", ASK_TWICE);
    check_output("run-waits-twice", &place, &["run", "questions.json", "-i", "input=x"]);
    check_output("answer-without-path", &place, &["answer", "last", "Oslo"]);
    check_output("answer-wrong-path", &place, &["answer", "last", "Oslo", "--path", "/nowhere"]);
    check_output("answer-first", &place, &["answer", "last", "Oslo", "--path", "/fanout~1/city"]);
    check_output("answer-second", &place, &["answer", "last", "blue"]);
}

#[test]
fn a_run_that_fails_says_why() {
    let place = create_workspace();
    place.write("script.json", r#"{"match": [], "default": {"error": "the server is down"}}"#);
    check_output("run-fails", &place, &["run", "flow.json"]);
    check_output("show-fails", &place, &["show", "last"]);
    check_output("run-refused", &place, &["run", "nowhere.json"]);
    check_output("resume-ended", &place, &["resume", "last"]);
    check_output("show-nothing", &place, &["show", "0123"]);
}

/// The output of a node is looked at when the node has ended.
#[test]
fn a_node_whose_output_is_refused_is_shown_as_failed() {
    let place = create_workspace();
    place.write("pipeline.json", REFUSED_OUTPUT);
    check_output("run-refused-output", &place, &["run", "pipeline.json"]);
}

/// The name of the condition stands in the conversation, and the author refers to nothing.
#[test]
fn a_condition_that_does_not_hold_is_no_missing_reference() {
    let place = create_workspace();
    place.write("poem.mdx", NO_BRANCH);
    check_output("run-no-branch", &place, &["run", "poem.mdx"]);
}

#[test]
fn codes_are_explained() {
    let place = create_workspace();
    check_output("explain", &place, &["explain", "FL0105"]);
    check_output("explain-unknown", &place, &["explain", "FL9999"]);
}

#[test]
fn a_misspelled_name_gets_a_suggestion() {
    let place = create_workspace();
    check_output("no-such-command", &place, &["rnu"]);
    check_output("no-such-flag", &place, &["run", "flow.json", "--modle", "x"]);
    check_output("input-without-option", &place, &["run", "flow.json", "city=New York"]);
}

#[test]
fn doctor_says_what_is_configured() {
    let place = Workspace::new("default_model = \"scripted:echo\"\n[egress]\nallow = [\"127.0.0.1:8791\"]\n");
    check_output("doctor", &place, &["doctor"]);
}
