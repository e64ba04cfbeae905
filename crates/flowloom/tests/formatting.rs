//! `flowloom fmt`: what it changes, what it leaves alone, and its exit codes.

mod support;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use support::{Workspace, exit_code, stderr_text};

const MESSY: &str =
    "{\"steps\": [{\"config\": {\"variables\": []}, \"type\": \"start\"}], \"name\": \"a\", \"description\": \"d\"}";

const NEAT: &str = "{\n  \"name\": \"a\",\n  \"description\": \"d\",\n  \"steps\": [\n    {\"type\": \"start\", \"config\": {\"variables\": []}}\n  ]\n}\n";

fn stdout_text(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_missing_file_is_reported_as_such() {
    let place = Workspace::new("");
    for name in ["NOTTHERE", "nothing.json"] {
        let output = place.run(&["fmt", name]);
        let shown = stderr_text(&output);
        assert_eq!(exit_code(&output), 2, "{shown}");
        assert!(shown.contains(&format!("{name}: not formatted, because it cannot be read")), "{shown}");
    }
}

#[test]
fn a_folder_is_formatted_in_place() {
    let place = Workspace::new("");
    let file = place.write("messy.json", MESSY);
    place.write("neat.json", NEAT);
    place.write("other.json", "[1,2]");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("a mode");
    let checked = place.run(&["fmt", "--check"]);
    assert_eq!((exit_code(&checked), stdout_text(&checked).as_str()), (1, "messy.json\n"), "{}", stderr_text(&checked));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), MESSY, "nothing was changed");
    let formatted = place.run(&["fmt"]);
    assert_eq!(exit_code(&formatted), 0, "{}", stderr_text(&formatted));
    assert!(stderr_text(&formatted).contains("messy.json: formatted"), "{}", stderr_text(&formatted));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), NEAT);
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
    assert_eq!(exit_code(&place.run(&["fmt", "--check", "."])), 0);
}

#[test]
fn the_change_is_shown_as_a_diff() {
    let place = Workspace::new("");
    place.write("a.json", &NEAT.replace("    {\"type\"", "{\"type\""));
    let shown = place.run(&["fmt", "--diff", "a.json"]);
    let expected = "--- a.json\n+++ a.json\n@@ -2,6 +2,6 @@\n   \"name\": \"a\",\n   \"description\": \"d\",\n   \"steps\": [\n\
                    -{\"type\": \"start\", \"config\": {\"variables\": []}}\n\
                    +    {\"type\": \"start\", \"config\": {\"variables\": []}}\n   ]\n }\n";
    assert_eq!((exit_code(&shown), stdout_text(&shown).as_str()), (1, expected), "{}", stderr_text(&shown));
}

#[test]
fn stdin_is_written_to_stdout() {
    let place = Workspace::new("");
    let mut command = place.build_command(&["fmt", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("stdin").write_all(MESSY.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((exit_code(&output), stdout_text(&output).as_str()), (0, NEAT));
}

#[test]
fn text_on_stdin_is_what_it_is_called_or_looks_like() {
    let place = Workspace::new("");
    let commented = NEAT.replace("{\n  \"name\"", "// A flow.\n{\n  \"name\"");
    let format = |arguments: &[&str], text: &str| {
        let mut command = place.build_command(&[&["fmt", "-"], arguments].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        child.stdin.take().expect("stdin").write_all(text.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("it ends");
        (exit_code(&output), stdout_text(&output), stderr_text(&output))
    };
    let squeezed = commented.replace("    {\"type\"", "{\"type\"");
    for arguments in [&["--as", "flow"][..], &[], &["--stdin-filename", "c.jsonc"]] {
        let (exit, laid_out, messages) = format(arguments, &squeezed);
        assert_eq!((exit, laid_out.as_str()), (0, commented.as_str()), "{arguments:?}: {messages}");
    }
    let (exit, _, messages) = format(&["--stdin-filename", "flows/c.json"], &squeezed);
    assert!(exit == 2 && messages.contains("flows/c.json: not formatted"), "{messages}");
}

#[test]
fn markdown_with_a_broken_expression_or_frontmatter_stays_as_it_is() {
    let place = Workspace::new("");
    let action = "<GenText as=\"a\"   model=\"scripted:echo\" />";
    for (text, code) in [
        (format!("---\ntitle: T\n---\n\nHi {{a +}}\n\n{action}\n"), "FL0610"),
        (format!("---\ntitle: T\nx: [1\n---\n\nHi\n\n{action}\n"), "FL0602"),
    ] {
        let file = place.write("broken.mdx", &text);
        let refused = place.run(&["fmt", "broken.mdx"]);
        let shown = stderr_text(&refused);
        assert!(exit_code(&refused) == 2 && shown.contains(code), "{shown}");
        assert_eq!(std::fs::read_to_string(file).expect("a file"), text);
    }
}

#[test]
fn the_frontmatter_has_one_order_with_every_line_end() {
    let place = Workspace::new("");
    let text = "---\ninput:\n  a: {type: text}\ntitle: T\n---\n\nHi {a}\n\n<GenText as=\"b\" />\n";
    let sorted = "---\ntitle: T\ninput:\n  a: {type: text}\n---\n\nHi {a}\n\n<GenText as=\"b\" />\n";
    for line_end in ["\n", "\r\n"] {
        let file = place.write("order.mdx", &text.replace('\n', line_end));
        assert_eq!(exit_code(&place.run(&["fmt", "order.mdx"])), 0);
        assert_eq!(std::fs::read_to_string(file).expect("a file"), sorted.replace('\n', line_end));
    }
}

#[test]
fn what_does_not_parse_stays_as_it_is() {
    let place = Workspace::new("");
    let broken = place.write("broken.json", "{\"steps\": [}, \"name\": 1}");
    place.write("messy.json", MESSY);
    let refused = place.run(&["fmt", "--as", "flow", "broken.json", "messy.json"]);
    assert_eq!(exit_code(&refused), 2);
    let printed = stderr_text(&refused);
    assert!(printed.contains("error[FL0105]") && printed.contains("broken.json: not formatted"), "{printed}");
    assert_eq!(std::fs::read_to_string(broken).expect("a file"), "{\"steps\": [}, \"name\": 1}");
    let listed: serde_json::Value =
        serde_json::from_slice(&place.run(&["fmt", "--check", "--json", "messy.json"]).stdout).expect("JSON");
    assert_eq!(listed, serde_json::json!({"changed": [], "unchanged": 1, "refused": []}));
}

#[test]
fn blocks_and_records_of_agents_are_laid_out_and_mean_the_same() {
    let place = Workspace::new("");
    for folder in ["flows/blocks", "flows/agents/clerk", "blocks"] {
        std::fs::create_dir_all(place.path(folder)).expect("created");
    }
    let block = "{\"execution_type\": \"llm\", \"prompt_template\": \"x {b} {a}\",\n\"input_schema\": {\"properties\": \
                 {\"b\": {\"type\": \"string\"}, \"a\": {}}, \"type\": \"object\"}, \"id\": \"twice\", \"name\": \"Twice\"}";
    let agent = "{\"tools\": [], \"agentId\": \"clerk\"}";
    place.write("flows/blocks/twice.json", block);
    place.write("flows/agents/clerk/jsonSchema.json", agent);
    place.write("blocks/of-another-program.json", "{\"b\":1,\"a\":2}");
    let listed = stdout_text(&place.run(&["fmt", "--check", "flows", "blocks/../flows/blocks/twice.json"]));
    assert_eq!(
        listed.lines().collect::<Vec<_>>(),
        ["flows/agents/clerk/jsonSchema.json", "flows/blocks/twice.json", "blocks/../flows/blocks/twice.json"]
    );
    let formatted = place.run(&["fmt", "flows"]);
    assert_eq!(exit_code(&formatted), 0, "{}", stderr_text(&formatted));
    let read = |file: &str| std::fs::read_to_string(place.path(file)).expect("a file");
    assert_eq!(read("flows/agents/clerk/jsonSchema.json"), "{\n  \"agentId\": \"clerk\",\n  \"tools\": []\n}\n");
    let laid_out = read("flows/blocks/twice.json");
    assert!(laid_out.starts_with("{\n  \"id\": \"twice\",\n  \"name\": \"Twice\",\n"), "{laid_out}");
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(parse(&laid_out), parse(block));
    assert!(laid_out.contains("{\"b\": {\"type\": \"string\"}, \"a\": {}}"), "free data keeps its order: {laid_out}");
    assert_eq!(exit_code(&place.run(&["fmt", "--check", "flows"])), 0, "it is stable");
    assert_eq!(read("blocks/of-another-program.json"), "{\"b\":1,\"a\":2}");
}

/// A file with a byte order mark has the same places for `fmt` as for `check`.
#[test]
fn a_byte_order_mark_moves_no_problem() {
    let place = Workspace::new("");
    place.write("a.mdx", "\u{feff}Hello\n\n<GenText as={\n");
    let place_of = |arguments: &[&str]| {
        let shown = stderr_text(&place.run(arguments)) + &stdout_text(&place.run(arguments));
        shown.split_once("[a.mdx:").and_then(|(_, rest)| rest.split_once(']')).map(|(place, _)| place.to_owned())
    };
    let checked = place_of(&["check", "a.mdx"]);
    assert!(checked.is_some());
    assert_eq!(place_of(&["fmt", "a.mdx"]), checked);
}

#[test]
fn mixed_line_ends_are_formatted_once() {
    let place = Workspace::new("");
    let action = "<GenText as=\"t\" model=\"scripted:echo\" />";
    let mixed = format!("<Loop as=\"l\"\r\n until={{$.self.length === 2}}>\n  T\n\n  {action}\n</Loop>\n");
    let file = place.write("mixed.mdx", &mixed);
    assert_eq!(exit_code(&place.run(&["fmt", "mixed.mdx"])), 0);
    let laid_out = format!("<Loop as=\"l\" until={{$.self.length === 2}}>\n  T\n\n  {action}\n</Loop>\n");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), laid_out);
    assert_eq!(exit_code(&place.run(&["fmt", "--check", "mixed.mdx"])), 0);
    let windows = laid_out.replace('\n', "\r\n");
    place.write("mixed.mdx", &windows);
    assert_eq!(exit_code(&place.run(&["fmt", "--check", "mixed.mdx"])), 0, "its line ends are all alike");
}

#[test]
fn a_link_that_leaves_the_folder_is_not_written_through() {
    let place = Workspace::new("");
    let pipeline =
        r#"{"user_prompt": "p", "name": "a", "nodes": [{"id": "n", "block_id": "b", "inputs": {}}], "edges": []}"#;
    for folder in ["outside", "project"] {
        std::fs::create_dir(place.path(folder)).expect("a folder");
    }
    let outside = place.write("outside/pipeline.json", pipeline);
    place.write("project/neat.json", NEAT);
    std::os::unix::fs::symlink("../outside/pipeline.json", place.path("project/pipeline.json")).expect("a link");
    let output = place.run(&["fmt", "project"]);
    assert_eq!(std::fs::read_to_string(&outside).expect("a file"), pipeline, "{}", stderr_text(&output));
    assert_eq!(exit_code(&output), 0, "{}", stderr_text(&output));
    // A link that is named is meant.
    let named = place.run(&["fmt", "project/pipeline.json"]);
    assert_ne!(std::fs::read_to_string(&outside).expect("a file"), pipeline, "{}", stderr_text(&named));
}

#[test]
fn names_of_files_are_shown_on_one_line_also_in_pipes() {
    let place = Workspace::new("");
    place.write("messy\nb.json: ok\u{1b}[2J.json", MESSY);
    place.write("broken\nc.json: ok.json", "{");
    let shown_name = r"messy\nb.json: ok\u{1b}[2J.json";
    for command in [&["fmt", "--check"][..], &["fmt", "--diff"], &["check", "."], &["list"]] {
        let output = place.run(command);
        let printed = format!("{}{}", stdout_text(&output), stderr_text(&output));
        assert!(printed.contains(shown_name), "{command:?}: {printed}");
        assert!(!printed.contains('\u{1b}') && !printed.contains("\nb.json"), "{command:?}: {printed}");
        assert!(!printed.contains("\nc.json"), "{command:?}: {printed}");
    }
}

#[test]
fn a_drawing_in_a_pipe_does_not_control_the_terminal() {
    let place = Workspace::new("");
    place.write("a.json", &NEAT.replace("\"a\"", "\"a\\u001b[2J\\u009b\\u202e\""));
    for format in ["text", "mermaid"] {
        let drawing = stdout_text(&place.run(&["graph", "a.json", "--format", format]));
        assert!(!drawing.is_empty() && !drawing.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{format}: {drawing:?}");
    }
}
