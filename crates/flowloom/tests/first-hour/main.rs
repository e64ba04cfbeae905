//! The first hour of a new user, in terminals of 80 and 120 columns: what the README's first screen shows, a mistake, a
//! question, a conversation, a drawing, a missing key and Ctrl-C. The snapshots are what a person sees.

#[path = "../support/mod.rs"]
mod support;

mod terminal;

use std::path::Path;
use std::process::Command;

use support::{TestServer, Workspace, two_calls_flow};
use terminal::{Screen, TerminalSession};

/// Longer than a line of either terminal.
const ANSWER: &str = "The lighthouse stands on the last rock before the open sea, and its light has led three \
generations of fishing boats home through fog and storm.";

/// The widths of the terminals, in columns.
const WIDTHS: [u16; 2] = [80, 120];

/// The signs of a spinner.
const SPINNER: &str = "⠁⠂⠄⡀⢀⠠⠐⠈⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";

/// A new user: an empty folder, and a model that answers from a script.
struct NewUser {
    place: Workspace,
    columns: u16,
}

impl NewUser {
    fn new(columns: u16) -> NewUser {
        let place = Workspace::new("");
        std::fs::remove_file(place.path("flowloom.toml")).expect("removed");
        let script = serde_json::json!({"match": [
            {"contains": "lighthouse", "answer": ANSWER},
            {"contains": "slow", "answer": "It was slow."},
            {"contains": "a poem", "answer": "The tide goes out,\nthe tide comes in."},
        ]});
        place.write("answers.json", &script.to_string());
        NewUser { place, columns }
    }

    /// A command in a folder below that of the user.
    fn build_command(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = self.place.build_command(arguments);
        let model = format!("scripted:{}", self.place.path("answers.json").display());
        command.current_dir(self.place.path(folder)).env("FLOWLOOM_DEFAULT_MODEL", model);
        command.env_remove("FLOWLOOM_DATA_DIR").env("TERM", "xterm-256color");
        command
    }

    fn start(&self, folder: &str, arguments: &[&str]) -> TerminalSession {
        TerminalSession::start(self.build_command(folder, arguments), self.columns)
    }

    /// Runs a command to its end and compares what the user sees.
    fn check(&self, name: &str, folder: &str, arguments: &[&str]) {
        let screen = self.start(folder, arguments).finish();
        self.check_screen(name, arguments, &screen);
    }

    fn check_screen(&self, name: &str, arguments: &[&str], screen: &Screen) {
        // A terminal may drop the sign of Ctrl-C together with what it has not shown yet.
        let text = screen.text.replace("^C", "");
        let printed = format!("$ flowloom {}\n{}\nexit {:?}\n", arguments.join(" "), text.trim_end(), screen.exit);
        assert!(!screen.text.contains(|c| SPINNER.contains(c)), "a spinner is left over:\n{printed}");
        let colours = screen.bytes.split("\x1b[").skip(1).filter(|code| ends_colour(code)).count();
        assert_eq!(colours, 0, "colours in spite of NO_COLOR: {:?}", screen.bytes);
        // Only the model's own text may fill a line.
        let wide: Vec<_> = screen.wrapped.iter().filter(|line| !ANSWER.contains(line.as_str())).collect();
        assert!(wide.is_empty(), "wider than {} columns: {wide:#?}\n{printed}", self.columns);
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.add_filter(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "[run]");
        settings.add_filter(r"(?m)^[0-9a-f]{8}  ", "[run]  ");
        settings.add_filter(r" +\d+(\.\d)?m?s\b", " [time]");
        settings.add_filter(r"▏[ ━]*▕", "▏[bar]▕");
        settings.add_filter(r"127\.0\.0\.1:\d+", "[address]");
        settings.add_filter(r"scripted:\S*(…|answers\.json)", "[model]");
        // A long time leaves less room for an address and for an error.
        settings.add_filter(r"(FL1004: localhost:80).*…", "$1…");
        settings.add_filter(r"\[address\]/s(l|lo)?…", "[address]/slow");
        settings.bind(|| insta::assert_snapshot!(format!("{name}-{}", self.columns), printed));
    }
}

/// Lists, reports and help, which fit the narrowest terminal that is supported.
const NARROW_COMMANDS: &[&[&str]] = &[
    &["--help"],
    &["doctor"],
    &["list"],
    &["runs"],
    &["show", "last"],
    &["show", "last", "/sentence"],
    &["plan", "describe"],
    &["schedule", "list"],
    &["logs", "last"],
    &["models", "list"],
    &["keys", "list"],
    &["audit"],
    &["usage"],
    &["user", "show"],
    &["run", "describe", "--modle", "x"],
];

#[test]
fn every_list_fits_a_terminal_of_60_columns() {
    let user = NewUser::new(60);
    user.start("", &["init", "hello"]).finish();
    let first = user.start("hello", &["run", "describe", "-i", "topic=a lighthouse"]).finish();
    user.start("hello", &["keys", "create", "--name", "a-key-with-a-long-name", "--scopes", "read,run"]).finish();
    user.start("hello", &["schedule", "add", "describe.json", "--cron", "0 6 * * *", "--timezone", "Europe/Berlin"])
        .finish();
    for arguments in NARROW_COMMANDS {
        let screen = user.start("hello", arguments).finish();
        // A path without blanks cannot be broken.
        let wide: Vec<_> = screen.wrapped.iter().filter(|line| line.trim().contains(' ')).collect();
        assert!(wide.is_empty(), "{arguments:?}: {wide:#?}\n{}", screen.text);
    }
    // The answer is broken between its words.
    let words: Vec<&str> = first.text.split_whitespace().collect();
    assert!(ANSWER.split(' ').all(|word| words.contains(&word)), "{}", first.text);
}

/// Whether what follows an escape sequence's start makes it a colour or a style.
fn ends_colour(code: &str) -> bool {
    code.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').starts_with('m')
}

fn copy_example(user: &NewUser, path: &str) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let copied = Command::new("cp").arg("-r").arg(examples.join(path)).arg(user.place.path("")).status();
    assert!(copied.is_ok_and(|status| status.success()));
}

#[test]
fn the_first_screen_of_the_readme() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        user.check("init", "", &["init", "hello"]);
        user.check("list", "hello", &["list"]);
        user.check("run", "hello", &["run", "describe", "-i", "topic=a lighthouse"]);
        user.check("show", "hello", &["show", "last"]);
        user.check("runs", "hello", &["runs"]);
        user.check("graph", "hello", &["graph", "describe.json"]);
    }
}

#[test]
fn a_mistake_is_explained() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        user.check("init", "", &["init", "hello"]);
        let file = user.place.path("hello/describe.json");
        let text = std::fs::read_to_string(&file).expect("written by init");
        std::fs::write(&file, text.replace("llmInstruction", "llmInstructoin")).expect("written");
        user.check("check", "hello", &["check", "describe.json"]);
        user.check("run-refused", "hello", &["run", "describe"]);
        user.check("explain", "hello", &["explain", "FL0201"]);
    }
}

/// A step list in one line, with a mistake in its middle.
const LONG_LINE: &str = r#"{"id": "long", "name": "Long", "description": "Writes a sentence, reads it again, and says it in other words", "steps": [{"name": "write", "functionId": "agent::chatt", "mode": "sequential", "promptTemplate": "Write one sentence about {{input}}, and nothing else.", "errorMode": "fail"}]}"#;

#[test]
fn a_mistake_in_a_long_line_is_underlined() {
    for columns in [60, 80, 120] {
        let user = NewUser::new(columns);
        user.place.write("long.json", LONG_LINE);
        user.check("check-long", "", &["check", "long.json"]);
    }
}

#[test]
fn a_missing_key_is_found_before_the_first_step() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        user.check("init", "", &["init", "hello"]);
        user.check("no-key", "hello", &["run", "describe", "--model", "openai:gpt-4o"]);
    }
}

#[test]
fn a_person_is_asked_in_the_terminal() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        copy_example(&user, "steps/ask-a-person.json");
        let run = ["run", "ask-a-person.json"];
        let session = user.start("", &run);
        session.wait_for("? What shall the poem be about?");
        session.send_keys("the tide\r");
        user.check_screen("ask", &run, &session.finish());
        let session = user.start("", &run);
        session.wait_for("? What shall the poem be about?");
        session.send_keys("\x1b");
        user.check_screen("ask-later", &run, &session.finish());
        let answer = ["answer", "last"];
        let session = user.start("", &answer);
        session.wait_for("? What shall the poem be about?");
        session.send_keys("the tide\r");
        user.check_screen("answer", &answer, &session.finish());
    }
}

#[test]
fn a_person_answers_one_question_after_the_other() {
    let ask = |name: &str, question: &str| serde_json::json!({"name": name, "functionId": "human::ask", "mode": "fanout", "promptTemplate": question, "errorMode": "fail"});
    let steps = [ask("city", "Which city?"), ask("colour", "Which colour?")];
    let questions = serde_json::json!({"id": "questions", "name": "Questions", "steps": steps}).to_string();
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        user.place.write("questions.json", &questions);
        let run = ["run", "questions.json", "-i", "input=x"];
        let session = user.start("", &run);
        session.wait_for("? Which city?");
        session.send_keys("\x1b");
        user.check_screen("ask-twice-later", &run, &session.finish());
        let answer = ["answer", "last"];
        let session = user.start("", &answer);
        session.wait_for("? Which city?");
        session.send_keys("Oslo\r");
        session.wait_for("? Which colour?");
        session.send_keys("blue\r");
        user.check_screen("answer-twice", &answer, &session.finish());
    }
}

/// Output with which a model may try to set the clipboard, to clear the screen, in the second form too, and to turn
/// text around.
const CONTROLS: &str = "\u{1b}]52;c;eA==\u{7}\u{1b}[2J\u{9b}2J\u{202e}";

/// Fails if a program has printed what controls the terminal and is no part of a prompt.
fn assert_harmless(screen: &Screen) {
    for control in ["\u{1b}]52", "\u{7}", "\u{1b}[2J", "\u{9b}", "\u{202e}"] {
        assert!(!screen.bytes.contains(control), "{control:?} in {:?}", screen.bytes);
    }
}

#[test]
fn a_question_does_not_control_the_terminal() {
    let user = NewUser::new(80);
    let ask = serde_json::json!({"name": "ask", "functionId": "human::ask", "mode": "sequential",
        "promptTemplate": format!("Which {CONTROLS} city?"), "errorMode": "fail"});
    let steps = serde_json::json!({"id": "question", "name": "Question", "steps": [ask]});
    user.place.write("question.json", &steps.to_string());
    let session = user.start("", &["run", "question.json", "-i", "input=x"]);
    session.wait_for("city?");
    session.send_keys("\x1b");
    assert_harmless(&session.finish());
    for command in ["resume", "answer"] {
        let session = user.start("", &[command, "last"]);
        session.wait_for("city?");
        session.send_keys(if command == "answer" { "Oslo\r" } else { "\x1b" });
        assert_harmless(&session.finish());
    }
}

#[test]
fn an_input_does_not_control_the_terminal_and_an_option_stays_what_it_is() {
    let user = NewUser::new(80);
    let hostile = format!("red{CONTROLS}");
    let escaped: String = hostile.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let text = format!(
        "---\ninput:\n  name: {{type: text, message: \"{escaped}\"}}\n  colour: {{type: select, message: \"{escaped}\", \
         options: [blue, \"{escaped}\"]}}\n---\n\n{{name}} {{colour}}\n\n<GenText as=\"answer\" model=\"scripted:echo\" />\n"
    );
    user.place.write("colour.mdx", &text);
    let session = user.start("", &["run", "colour.mdx"]);
    session.wait_for("red");
    session.send_keys("lamp\r");
    session.wait_for("> blue");
    session.send_keys("\x1b[B\r");
    let screen = session.finish();
    assert_eq!(screen.exit, Some(0), "{}", screen.text);
    assert_harmless(&screen);
    let shown = user.build_command("", &["show", "last", "--json"]).output().expect("the program runs");
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let output = shown["output"].as_str().unwrap_or_default();
    assert!(output.starts_with(&format!("lamp {hostile}\n")), "{output:?}");
}

#[test]
fn a_conversation_streams_its_answers() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        copy_example(&user, "graph");
        let chat = ["chat", "graph/helpdesk.json", "--model", "scripted:graph/helpdesk.script.json"];
        let session = user.start("", &chat);
        session.wait_for("> ");
        session.send_keys("Where is my order 4711?\r");
        session.wait_for("arrives tomorrow.");
        session.wait_for("\n> ");
        session.send_keys("\x04");
        user.check_screen("chat", &chat, &session.finish());
    }
}

#[test]
fn lists_have_headers() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        copy_example(&user, "steps/ask-a-person.json");
        user.start("", &["hooks", "add", "ask-a-person.json", "--id", "poem"]).finish();
        user.check("hooks", "", &["hooks", "list"]);
        user.check("blocks", "", &["blocks", "list"]);
    }
}

#[test]
fn ctrl_c_cancels_a_turn_of_a_conversation() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        let server = TestServer::start();
        user.place.write(
            "flowloom.toml",
            &format!("{}[tools]\nbase_url = \"http://{}\"\n", server.egress_config(), server.address),
        );
        copy_example(&user, "graph");
        let tools = user.place.path("graph/agents/orders/jsonSchema.json");
        let schema = std::fs::read_to_string(&tools).expect("it is there").replace("/orders/status", "/slow");
        std::fs::write(tools, schema).expect("written");
        let chat = ["chat", "graph/helpdesk.json", "--model", "scripted:graph/helpdesk.script.json"];
        let session = user.start("", &chat);
        session.wait_for("> ");
        session.send_keys("Where is my order 4711?\r");
        server.wait_for_requests("/slow", 1);
        session.wait_for("/tool_executor#1");
        session.send_keys("\x03");
        session.wait_for("stay in the conversation\n\n>");
        session.send_keys("/exit\r");
        user.check_screen("chat-cancelled", &chat, &session.finish());
        server.release_slow();
    }
}

#[test]
fn ctrl_c_leaves_a_clean_screen_and_a_run_that_continues() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        let server = TestServer::start();
        user.place.write("flowloom.toml", &server.egress_config());
        user.place.write("slow.json", &two_calls_flow(&server, "GET", "/slow"));
        let run = ["run", "slow.json"];
        let session = user.start("", &run);
        server.wait_for_requests("/slow", 1);
        session.wait_for("/two");
        assert!(session.keeps_output(), "Ctrl-C drops a part of the drawing");
        session.send_keys("\x03");
        user.check_screen("stopped", &run, &session.finish());
        server.release_slow();
        user.check("resumed", "", &["resume", "last"]);
    }
}

#[test]
fn a_folder_is_served_until_ctrl_c() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        user.start("", &["init", "hello"]).finish();
        let serve = ["serve", "hello", "--bind", "127.0.0.1:0"];
        let session = user.start("", &serve);
        session.wait_for("Studio: ");
        session.send_keys("\x03");
        user.check_screen("serve", &serve, &session.finish());
    }
}

#[test]
fn an_agent_answers_and_ctrl_d_ends_the_conversation() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        user.start("", &["init", "hello"]).finish();
        let agent = ["agent", "hello"];
        let session = user.start("", &agent);
        session.wait_for("> ");
        session.send_keys("Say a poem, please\r");
        session.wait_for("the tide comes in.");
        session.wait_for("\n> ");
        session.send_keys("\x04");
        user.check_screen("agent", &agent, &session.finish());
    }
}

#[test]
fn a_pipeline_is_written_from_plain_language() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        copy_example(&user, "author");
        let model = "scripted:author/frequent-words.script.json";
        let goal = "Count the most frequent words of a text";
        let new = ["new", "--yes", goal, "--out", "counted", "--model", model];
        user.place.write("flowloom.toml", "[embeddings]\nmodel = \"none\"\n");
        user.check("new", "", &new);
    }
}

#[test]
fn an_uncertain_request_is_decided_by_a_person() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        let server = TestServer::start();
        user.place.write("flowloom.toml", &server.egress_config());
        user.place.write("slow.json", &two_calls_flow(&server, "POST", "/slow"));
        let mut crashing = user.build_command("", &["run", "slow.json"]).spawn().expect("it starts");
        server.wait_for_requests("/slow", 1);
        crashing.kill().expect("killed");
        crashing.wait().expect("ended");
        server.release_slow();
        user.check("uncertain", "", &["resume", "last"]);
        user.check("resolve", "", &["resolve", "last", "/two", "--value", r#"{"path": "slow"}"#]);
    }
}

#[test]
fn a_saved_file_runs_again() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        user.start("", &["init", "hello"]).finish();
        let dev = ["dev", "describe", "-i", "topic=a lighthouse"];
        let session = user.start("hello", &dev);
        session.wait_for("Ctrl-C ends");
        let file = user.place.path("hello/describe.json");
        let text = std::fs::read_to_string(&file).expect("written by init");
        std::fs::write(&file, text.replace("llmInstruction", "llmInstructoin")).expect("written");
        session.wait_for("not run: 1 error\nwaiting for a change");
        session.send_keys("\x03");
        user.check_screen("dev", &dev, &session.finish());
    }
}

#[test]
fn reports_about_this_machine_fit_the_terminal() {
    for columns in WIDTHS {
        let user = NewUser::new(columns);
        user.start("", &["init", "hello"]).finish();
        for arguments in [&["doctor"][..], &["models", "list"]] {
            let screen = user.start("hello", arguments).finish();
            assert_eq!(screen.exit, Some(0), "{arguments:?}: {}", screen.text);
            let wide: Vec<_> = screen.wrapped.iter().filter(|line| line.trim().contains(' ')).collect();
            assert!(wide.is_empty(), "{arguments:?} in {columns} columns: {wide:#?}");
        }
    }
}
