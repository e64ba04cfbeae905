//! The output of every command: one value with `--json`, and colours where they are asked for.

mod support;

use serde_json::{Value, json};
use support::{Workspace, exit_code, stderr_text};

/// Commands in an order in which each has a result.
const COMMANDS_WITH_RESULTS: &[&[&str]] = &[
    &["run", "hello.json", "--input", "hello.json"],
    &["check", "hello.json"],
    &["runs"],
    &["show", "last"],
    &["replay", "last"],
    &["graph", "hello.json"],
    &["graph", "broken.json"],
    &["schema", "steps"],
    &["explain", "FL1001"],
    &["explain", "prompt"],
    &["blocks", "list"],
    &["blocks", "show", "filter"],
    &["blocks", "export", "blocks", "filter"],
    &["blocks", "import", "blocks"],
    &["blocks", "remove", "filter"],
    &["blocks", "find", "keep some items"],
    &["keys", "create", "--name", "k"],
    &["keys", "list"],
    &["keys", "revoke", "k"],
    &["user", "set", "name=Ada"],
    &["user", "show"],
    &["usage"],
    &["audit"],
    &["schedule", "add", "hello.json", "0 6 * * *"],
    &["schedule", "list"],
    &["schedule", "pause", "hello"],
    &["schedule", "resume", "hello"],
    &["schedule", "remove", "hello"],
    &["models", "list"],
    &["backup", "backup.db"],
    &["prune", "--older", "30d"],
    &["doctor"],
    &["sync", "."],
    &["init", "project"],
    &["list"],
    &["fmt", "--check", "hello.json"],
    &["convert", "hello.json", "--to", "markdown"],
    &["plan", "hello.json"],
    &["diff", "hello.json", "hello.json"],
    &["fork", "last"],
    &["test"],
    &["logs", "last"],
    &["delete", "last"],
    &["notifications"],
    &["schema", "flow"],
    &["man", "man"],
    &["completions", "bash"],
    &["help"],
    &["help", "blocks", "list"],
    &["demo", "--model", "scripted:echo"],
    &["import", "item.json"],
    &["hooks", "add", "hello"],
    &["hooks", "list"],
    &["eval", "author", "--set", "nowhere"],
    &["keys", "rotate", "k"],
    &["agent", ".", "-m", "hello"],
    &["models", "pull", "nowhere.gguf"],
];

/// Commands that talk to another program until it is done: their output is a protocol, or that of many runs.
const CONVERSATIONS: &[&str] = &["serve", "studio", "worker", "mcp", "lsp", "dap", "dev"];

/// Commands that fail.
const COMMANDS_WITH_ERRORS: &[&[&str]] = &[
    &["run", "nowhere.json"],
    &["check", "nowhere.json"],
    &["show", "ffff"],
    &["replay", "ffff"],
    &["cancel", "ffff"],
    &["delete", "ffff"],
    &["resume", "ffff"],
    &["retry", "ffff"],
    &["answer", "ffff", "x"],
    &["resolve", "ffff", "/a", "--fail"],
    &["graph", "nowhere.json"],
    &["schema", "haiku"],
    &["explain", "FL9999"],
    &["blocks", "show", "nothing"],
    &["blocks", "remove", "nothing"],
    &["blocks", "import", "nowhere"],
    &["keys", "revoke", "nobody"],
    &["schedule", "add", "hello.json", "never"],
    &["schedule", "remove", "nothing"],
    &["hooks", "remove", "nothing"],
    &["hooks", "add", "nowhere"],
    &["import", "nowhere.json"],
    &["import", "item.json", "--out", "flow.json"],
    &["backup", "backup.db"],
    &["restore", "nowhere.db"],
    &["prune"],
    &["sync", "nowhere"],
    &["new", " ", "--yes"],
    &["no-such-command"],
    &["run"],
    &["help", "nothing"],
    &["init", "."],
    &["chat", "hello.json"],
    &["logs", "ffff"],
    &["test", "record", "ffff"],
];

#[test]
fn with_json_there_is_exactly_one_value() {
    let place = Workspace::with_hello("[embeddings]\nmodel = \"none\"\n");
    let item = json!({"item": {"flow": json!({"name": "f", "config": {"steps": []}}).to_string()}});
    place.write("item.json", &item.to_string());
    place.write("broken.json", "{");
    for arguments in COMMANDS_WITH_RESULTS.iter().chain(COMMANDS_WITH_ERRORS) {
        let done = place.run(&[*arguments, &["--json"][..]].concat());
        let mut values = serde_json::Deserializer::from_slice(&done.stdout).into_iter::<Value>();
        let (first, second) = (values.next(), values.next());
        assert!(matches!(first, Some(Ok(_))) && second.is_none(), "{arguments:?}: {done:?}");
    }
}

#[test]
fn lists_have_colours_when_they_are_asked_for() {
    let place = Workspace::with_hello("[embeddings]\nmodel = \"none\"\n");
    for arguments in [&["keys", "create", "--name", "k"][..], &["user", "set", "name=Ada"]] {
        assert_eq!(exit_code(&place.run(arguments)), 0, "{arguments:?}");
    }
    for arguments in [
        &["models", "list"][..],
        &["usage"],
        &["keys", "list"],
        &["audit"],
        &["blocks", "list"],
        &["user", "show"],
        &["explain", "FL1001"],
        &["list"],
    ] {
        let coloured = place.run(&[arguments, &["--color", "always"]].concat());
        assert!(String::from_utf8_lossy(&coloured.stdout).contains("\x1b["), "{arguments:?}: {coloured:?}");
        let plain = place.run(arguments);
        assert!(!String::from_utf8_lossy(&plain.stdout).contains('\x1b'), "{arguments:?}: {plain:?}");
    }
    let wrong = place.run(&["user", "set", "x"]);
    assert!(stderr_text(&wrong).contains("an entry is name=value"), "{}", stderr_text(&wrong));
}

/// There is a man page for each command.
#[test]
fn every_command_is_tried_with_json() {
    let place = Workspace::new("");
    assert_eq!(exit_code(&place.run(&["man", "man"])), 0);
    let files = std::fs::read_dir(place.path("man")).expect("pages");
    let names = files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned());
    let pages: Vec<String> =
        names.filter_map(|name| Some(name.strip_prefix("flowloom-")?.strip_suffix(".1")?.to_owned())).collect();
    let is_group = |page: &str| pages.iter().any(|other| other.starts_with(&format!("{page}-")));
    let tried: Vec<String> =
        COMMANDS_WITH_RESULTS.iter().chain(COMMANDS_WITH_ERRORS).map(|words| words.join("-")).collect();
    let is_tried = |page: &str| tried.iter().any(|words| words == page || words.starts_with(&format!("{page}-")));
    let forgotten: Vec<&String> = pages
        .iter()
        .filter(|page| !is_group(page) && !CONVERSATIONS.contains(&page.as_str()) && !is_tried(page))
        .collect();
    assert!(pages.len() > 40 && forgotten.is_empty(), "{forgotten:?}");
}

/// A full disk is no reason to panic.
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let place = Workspace::with_hello("");
    for arguments in
        [&["list"][..], &["run", "hello.json", "--input", "hello.json"], &["check", "hello.json", "--json"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let output = place.build_command(arguments).stdout(full).output().expect("it starts");
        let message = stderr_text(&output);
        assert_eq!(exit_code(&output), 1, "{message}");
        assert!(
            message.contains("the output cannot be written: No space left") && !message.contains("panicked"),
            "{message}"
        );
    }
}

#[test]
fn errors_as_json_contain_what_people_read() {
    let place = Workspace::with_hello("");
    place.write(
        "broken.json",
        r#"{"name": "b", "steps": [{"type": "llmInstruction"}, {"type": "nothing", "config": {}}]}"#,
    );
    for arguments in [&["convert", "broken.json", "--to", "markdown"][..], &["diff", "broken.json", "hello.json"]] {
        let (exit, error) = place.run_json(arguments);
        assert_eq!((exit, &error["error"]["code"]), (2, &json!("FL1402")), "{error}");
        let problems = error["problems"].as_array().unwrap_or_else(|| panic!("{error}"));
        assert!(problems.iter().any(|problem| problem["code"] == "FL0201" && problem["line"] == 1), "{error}");
    }
    let (_, error) = place.run_json(&["convert"]);
    let message = error["error"]["message"].as_str().expect("text");
    assert!(message.contains("--to <") && message.contains("<FILE>"), "{message}");
    assert_eq!(place.run_json(&["--version"]), (0, json!({"version": env!("CARGO_PKG_VERSION")})));
}
