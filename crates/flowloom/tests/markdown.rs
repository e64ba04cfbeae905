//! Markdown workflows: inputs of every kind, prompts at a terminal, output files, and configured actions.

mod support;

use std::process::{Command, Output, Stdio};

use serde_json::json;
use support::{TestServer, Workspace, exit_code, stderr_text};

const ALL_INPUTS: &str = "---
title: Everything
input:
  topic: {type: text, message: What about?}
  tone: {type: select, options: [dry, warm]}
  lines: {type: text, format: number}
  rhymes: {type: text, format: boolean}
  names: {type: array}
  picture: {type: file, fileType: image}
---

{lines} {tone} lines about {topic} for {names.length}, {rhymes ? 'rhymed' : 'free'}.

{picture}

<GenText as=\"poem\" model=\"openai:gpt-4o\" />
";

/// A minimal GIF.
const PIXEL_GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;";

const ECHO_ARGUMENTS: [&str; 2] = ["--model", "*=scripted:echo"];

fn create_workspace() -> Workspace {
    let place = Workspace::new("");
    place.write("all.mdx", ALL_INPUTS);
    std::fs::write(place.path("pixel.gif"), PIXEL_GIF).expect("written");
    place
}

#[test]
fn a_large_frontmatter_is_refused_in_plain_words() {
    let place = Workspace::new("");
    let items = "[".to_owned() + &"1,".repeat(199) + "1]";
    let aliases = "*a,".repeat(120);
    place.write("many.mdx", &format!("---\ndata:\n  a: &a {items}\n  b: [{aliases}1]\n---\n\nHi.\n"));
    let checked = place.run(&["check", "many.mdx"]);
    let printed = stderr_text(&checked);
    assert_eq!(exit_code(&checked), 2, "{printed}");
    assert!(printed.contains("more than 20000 values") && !printed.contains("Nodes {"), "{printed}");
}

#[test]
fn inputs_of_every_kind_come_from_flags() {
    let place = create_workspace();
    let inputs = "-i topic=cats -i tone=dry -i lines=2 -i rhymes=true -i names=[\"Tom\",\"Ann\"] -i picture=@pixel.gif";
    let arguments: Vec<&str> = ["run", "all.mdx"].into_iter().chain(ECHO_ARGUMENTS).chain(inputs.split(' ')).collect();
    let (code, output) = place.run_json(&arguments);
    assert_eq!(code, 0, "{output}");
    let poem = output["result"]["results"]["poem"].as_str().expect("a text");
    assert!(poem.contains("2 dry lines about cats for 2, rhymed."), "{poem}");
}

#[test]
fn file_inputs_take_a_path_or_an_address() {
    let pages = TestServer::start();
    let place = Workspace::new(&pages.egress_config());
    std::fs::write(place.path("pixel.gif"), PIXEL_GIF).expect("written");
    place.write("notes.txt", "from a file");
    let inputs =
        "input:\n  notes: {type: file, fileType: text}\n  picture: {type: file, fileType: image, required: false}\n";
    place.write(
        "f.mdx",
        &format!("---\n{inputs}---\n\nRead {{notes}}.\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n"),
    );
    let answer = |values: &[&str]| {
        let given = values.iter().flat_map(|value| ["-i", value]);
        let arguments: Vec<&str> = ["run", "f.mdx"].into_iter().chain(given).collect();
        let (code, output) = place.run_json(&arguments);
        assert_eq!(code, 0, "{output}");
        output["result"]["results"]["a"].as_str().expect("a text").to_owned()
    };
    assert_eq!(answer(&["notes=notes.txt", "picture=pixel.gif"]), "LLM(Read from a file.)");
    assert_eq!(answer(&["notes=@notes.txt", "picture=@pixel.gif"]), "LLM(Read from a file.)");
    assert_eq!(answer(&["notes:=\"itself\""]), "LLM(Read itself.)");
    let page = format!("http://{}/page", pages.address);
    assert_eq!(answer(&[&format!("notes={page}"), &format!("picture={page}")]), "LLM(Read {\"path\":\"/page\"}.)");
    for missing in ["nowhere.txt", &format!("http://{}/status/404", pages.address), "http://127.0.0.1:1/x"] {
        let refused = place.run(&["run", "f.mdx", "-i", &format!("notes={missing}")]);
        assert_ne!(exit_code(&refused), 0, "{missing}");
        assert!(!stderr_text(&refused).contains("/phase~1"), "nothing is run: {}", stderr_text(&refused));
    }
    let (_, runs) = place.run_json(&["runs"]);
    assert_eq!(runs.as_array().map(Vec::len), Some(4), "{runs}");
}

#[test]
fn includes_are_found_in_the_prompts_of_the_project() {
    let place = Workspace::new("");
    for folder in ["flows", "prompts"] {
        std::fs::create_dir_all(place.path(folder)).expect("a folder");
    }
    place.write("prompts/style.mdx", "Be short.");
    place.write("flows/a.mdx", "{include('style')}\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n");
    let (code, output) = place.run_json(&["run", "flows/a.mdx"]);
    assert_eq!((code, &output["result"]["results"]["a"]), (0, &json!("LLM(Be short.)")), "{output}");
    // Where the folder of flows is the project, files next to it are outside.
    std::fs::write(place.path("flows/flowloom.toml"), "").expect("written");
    let refused = place.run(&["check", "flows/a.mdx", "--config", "flows/flowloom.toml"]);
    assert_eq!(exit_code(&refused), 2, "{}", stderr_text(&refused));
}

#[test]
fn what_is_missing_or_wrong_is_reported_before_anything_is_sent() {
    let place = create_workspace();
    let output = place.run(&["run", "all.mdx", "--model", "*=scripted:echo"]);
    assert_eq!(exit_code(&output), 2);
    assert!(
        stderr_text(&output).contains("error[FL1033]") || stderr_text(&output).contains("-i topic=… -i tone=…"),
        "{}",
        stderr_text(&output)
    );
    let wrong = ["run", "all.mdx", "-i", "topic=a", "-i", "tone=loud"];
    let output = place.run(&[&wrong[..], &ECHO_ARGUMENTS].concat());
    assert_eq!(exit_code(&output), 2);
    assert!(stderr_text(&output).contains("must be one of dry, warm"), "{}", stderr_text(&output));
}

/// Nothing would run the calls, so the answer is an empty text: that is asked for again if it must be an object.
#[test]
fn calls_of_tools_that_are_not_available_are_no_answer() {
    let place = Workspace::new("");
    place.write(
        "script.json",
        r#"[{"tool_calls": [{"name": "x"}]}, {"json": {"a": 1}}, {"tool_calls": [{"name": "x"}]}]"#,
    );
    place.write(
        "calls.mdx",
        "A number, please.\n\n\
         <GenObject as=\"object\" model=\"scripted:script.json\" schema={$.z.object({ a: $.z.number() })} />\n\n\
         A text, please.\n\n<GenText as=\"text\" model=\"scripted:script.json\" />\n",
    );
    let (exit, ran) = place.run_json(&["run", "calls.mdx"]);
    assert_eq!((exit, &ran["result"]["results"]), (0, &json!({"object": {"a": 1}, "text": ""})), "{ran}");
}

#[test]
fn the_result_is_written_as_files() {
    let place = Workspace::new("");
    place.write("hello.mdx", "# Say: hello\n\n<GenText as=\"hello\" model=\"openai:gpt-4o\" />\n");
    let output = place.run(&[&["run", "hello.mdx", "--out", "made/here"][..], &ECHO_ARGUMENTS].concat());
    assert_eq!(exit_code(&output), 0, "{}", stderr_text(&output));
    let written = std::fs::read_to_string(place.path("made/here/output.md")).expect("a file");
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines[..2], ["---", "title: \"Say: hello\""], "{written}");
    assert!(lines[2].starts_with("created: 20") && lines[2].ends_with('Z'), "{written}");
    assert!(written.ends_with("# Say: hello\n\nLLM(# Say: hello)\n"), "{written}");
    let result = std::fs::read_to_string(place.path("made/here/result.json")).expect("a file");
    let result: serde_json::Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(result["result"]["results"], json!({"hello": "LLM(# Say: hello)"}));
    // An unwritable output folder is reported before the run costs anything.
    place.write("file", "");
    let output = place.run(&[&["run", "hello.mdx", "--out", "file/below"][..], &ECHO_ARGUMENTS].concat());
    assert_eq!(exit_code(&output), 2);
    let (_, runs) = place.run_json(&["runs"]);
    assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs}");
}

/// Runs the program in a pseudo-terminal; `talk` is a list of expected output and the input to type then.
fn run_at_terminal(place: &Workspace, arguments: &[&str], talk: &serde_json::Value) -> Output {
    const TERMINAL_SCRIPT: &str = "
import json, os, pty, sys
talk, arguments = json.loads(sys.argv[1]), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execv(arguments[0], arguments)
read = b''
for words, typed in talk:
    while words.encode() not in read:
        read += os.read(terminal, 4096)
    read = read[read.index(words.encode()) + len(words):]
    os.write(terminal, typed.encode())
try:
    while chunk := os.read(terminal, 4096):
        read += chunk
except OSError:
    pass
sys.stdout.buffer.write(read)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";
    let mut command = Command::new("python3");
    command.args(["-c", TERMINAL_SCRIPT, &talk.to_string(), env!("CARGO_BIN_EXE_flowloom")]).args(arguments);
    command.current_dir(place.path("")).env("FLOWLOOM_DATA_DIR", place.path("data")).env("TERM", "xterm");
    command.env("FLOWLOOM_CACHE", place.path("cache")).stdin(Stdio::null()).output().expect("Python runs")
}

#[test]
fn a_person_at_a_terminal_is_asked() {
    let place = create_workspace();
    let talk = json!([
        ["What about?", "cats\r"],
        ["tone", "\u{1b}[B\r"],
        ["lines", "2\r"],
        ["rhymes", "y\r"],
        ["names", "Tom\r"],
        ["names", "\r"],
        ["picture", "pixel.gif\r"],
    ]);
    let output = run_at_terminal(&place, &[&["run", "all.mdx"][..], &ECHO_ARGUMENTS].concat(), &talk);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(exit_code(&output), 0, "{printed}");
    assert!(printed.contains("2 warm lines about cats for 1, rhymed."), "{printed}");
    // With `--json`, the program never prompts.
    let output = run_at_terminal(&place, &[&["run", "all.mdx", "--json"][..], &ECHO_ARGUMENTS].concat(), &json!([]));
    assert_eq!(exit_code(&output), 2);
}

#[test]
fn the_configuration_declares_actions() {
    let server = TestServer::start();
    let config = format!(
        "{}[functions.\"shop::find\"]\nurl = \"http://{}/find\"\nhelpers = {{ shelf = \"A1\" }}\n\
         [functions.\"shout\"]\nworkflow = \"shout.json\"\n",
        server.egress_config(),
        server.address
    );
    let place = Workspace::new(&config);
    let flow = json!({"name": "Shout", "description": "Says it louder", "steps": [
        {"type": "start", "config": {"variables": [{"name": "text", "value": ""}]}},
        {"type": "llmInstruction", "config": {"instruction": "Louder: ${text}", "resultVariable": "out", "directOutput": true}},
    ]});
    place.write("shout.json", &flow.to_string());
    place.write("shop.mdx", "Look for it.\n\n<ShopFind as=\"found\" shelf={$.shelf + '!'} twice={[$found.shelf, 'b'].map(x => x + 1)} />\n\n\
        <Shout as=\"loud\" text=\"hey\" />\n");
    let (code, output) = place.run_json(&["run", "shop.mdx", "--model", "scripted:echo"]);
    assert_eq!(code, 0, "{output}");
    assert_eq!(server.request_count("/find"), 1);
    assert!(output["result"]["results"]["loud"].to_string().contains("LLM(Louder: hey)"), "{output}");
    let sent: serde_json::Value = serde_json::from_str(&server.last_body("/find")).expect("JSON");
    assert_eq!(sent, json!({"shelf": "A1!", "twice": ["A11", "b1"]}));
}

#[test]
fn the_instructions_can_be_read() {
    let place = Workspace::new("");
    let output = place.run(&["explain", "prompt"]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("You carry out one step of a workflow."));
    assert_eq!(exit_code(&place.run(&["schema", "markdown"])), 0);
}

#[test]
fn only_lines_that_start_with_a_quotation_mark_are_comments() {
    let place = Workspace::new("");
    let action = "<GenText as=\"a\" model=\"scripted:echo\" />\n";
    let lines = "> note: keep it short\nWrite a poem about {1 + 1} cats.\n> {unknown.name}\nNow \\{not\\} a brace.\n\n";
    place.write("lazy.mdx", &format!("{lines}{action}"));
    let (code, output) = place.run_json(&["run", "lazy.mdx"]);
    assert_eq!(code, 0, "{output}");
    let expected = "LLM(Write a poem about 2 cats.\n\nNow {not} a brace.)";
    assert_eq!(output["result"]["results"]["a"], expected, "{output}");

    let list = "- one\n  > note\n  and {1 + 1} more\n- two\n  > note\n- three\n  > {unknown.name}\n  last\n\n";
    place.write("list.mdx", &format!("{list}{action}"));
    let (code, output) = place.run_json(&["run", "list.mdx"]);
    assert_eq!(code, 0, "{output}");
    let expected = "LLM(- one\n  and 2 more\n- two\n- three\n  last)";
    assert_eq!(output["result"]["results"]["a"], expected, "{output}");

    place.write("empty.mdx", &format!("---\ndata:\n  none: []\n---\nItems: {{none}}\n\n{action}"));
    let (_, output) = place.run_json(&["run", "empty.mdx"]);
    assert_eq!(output["result"]["results"]["a"], "LLM(Items: )", "{output}");
}

#[test]
fn an_expression_without_a_value_is_reported_at_the_next_action() {
    let place = Workspace::new("");
    let head = "---\ndata:\n  weather: {now: rain}\n---\n\nIt is {weather.nwo}.\n\n";
    place.write("w.mdx", &format!("{head}<GenText as=\"a\" model=\"scripted:echo\" />\n"));
    let run = place.run(&["run", "w.mdx"]);
    assert_eq!(exit_code(&run), 0);
    let expected = "! /phase~1/a  weather.nwo is undefined; weather has now";
    assert!(stderr_text(&run).contains(expected), "{}", stderr_text(&run));
}

#[test]
fn a_written_undefined_is_no_missing_value() {
    let place = Workspace::new("");
    place.write("w.mdx", "Nothing: {undefined}.\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n");
    let run = place.run(&["run", "w.mdx"]);
    assert_eq!(exit_code(&run), 0);
    assert!(!stderr_text(&run).contains("undefined"), "{}", stderr_text(&run));
}

#[test]
fn answers_are_fitted_to_their_schema() {
    let place = Workspace::new("");
    place.write("script.json", r#"["{\"n\": \"1\", \"t\": \" Tea \", \"c\": \"none\", \"more\": 2}"]"#);
    let fields = "n: $.z.coerce.number(), t: $.z.string().trim().toLowerCase().max(3), d: $.z.number().default(7), \
                  c: $.z.coerce.number().catch(0), e: $.z.enum(['x', 'y']).catch('x')";
    let schema = format!("{{$.z.object({{ {fields} }})}}");
    place
        .write("d.mdx", &format!("Say it.\n\n<GenObject as=\"a\" model=\"scripted:script.json\" schema={schema} />\n"));
    let (code, output) = place.run_json(&["run", "d.mdx"]);
    assert_eq!(
        (code, &output["result"]["results"]["a"]),
        (0, &json!({"n": 1, "t": "tea", "c": 0, "d": 7, "e": "x"})),
        "{output}"
    );
}

#[test]
fn the_model_of_a_markdown_action_is_edited() {
    let place = Workspace::new("");
    let script = place.write("other.json", &json!({"default": "Other."}).to_string());
    place.write("a.mdx", "Hi.\n\n<GenText as=\"a\" model=\"scripted:echo\" />\n");
    let (_, run) = place.run_json(&["run", "a.mdx"]);
    let id = run["run_id"].as_str().expect("an id").to_owned();
    let (exit, fork) =
        place.run_json(&["fork", &id, "--edit", &format!("/phase~1/a.model=scripted:{}", script.display())]);
    assert_eq!((exit, &fork["result"]["results"]["a"]), (0, &json!("Other.")), "{fork}");
    let refused = place.run(&["fork", &id, "--edit", "/phase~1/a.role=x"]);
    assert!(stderr_text(&refused).contains("it has prompt, as, model"), "{}", stderr_text(&refused));
}

#[test]
fn a_loop_without_effects_ends_when_its_time_is_over() {
    let place = Workspace::new("");
    place.write("loop.mdx", "<Loop as=\"l\" until={$.index === -1} max={1000000000}>\nx\n</Loop>\n");
    let short = |name: &str| format!("<Loop as=\"{name}\" until={{$.index === 100}}>");
    let nested = format!("{}\n{}\n{}\nx\n</Loop>\n</Loop>\n</Loop>\n", short("a"), short("b"), short("c"));
    place.write("nested.mdx", &nested);
    for file in ["loop.mdx", "nested.mdx"] {
        let (code, output) = place.run_json(&["run", file, "--budget", "time=1ms"]);
        assert_eq!((code, output["status"].as_str()), (124, Some("timed_out")), "{output}");
    }
}

#[test]
fn schemas_check_the_form_of_texts() {
    let place = Workspace::new("");
    for (schema, good, bad) in [
        ("string().email()", "ann.b+c@mail.example.org", "not an email"),
        ("string().url()", "https://example.org/a?b", "a.b"),
        ("string().uuid()", "123e4567-e89b-12d3-a456-426614174000", "x"),
        ("string().date()", "2024-02-29", "2020-02-30"),
        ("string().time()", "23:59:59.5", "24:00:00"),
        ("string().datetime()", "2020-01-01T10:00:00Z", "2020-01-01"),
        ("string().datetime({offset: true})", "2020-01-01T10:00:00+02:00", "2020-01-01T10:00:00"),
        ("string().datetime({local: true})", "2020-01-01T10:00:00", "2020-01-01T10:00:00+02:00"),
        ("string().regex(/^A+$/i)", "aa", "ab"),
        ("string().regex(/^b$/m)", "a\nb", "ab"),
        ("string().regex(/^.$/s)", "\n", "ab"),
        ("string().startsWith('a').endsWith('z')", "abz", "abc"),
    ] {
        let definition =
            format!("Go.\n\n<GenObject as=\"o\" model=\"\" schema={{$.z.object({{v: $.z.{schema}}})}} />\n");
        place.write("o.mdx", &definition);
        for (text, expected) in [(good, 0), (bad, 1)] {
            let answer = json!({"v": text}).to_string();
            // An answer that does not fit is asked for once more.
            let script = place.write("answers.json", &json!([answer.clone(), answer]).to_string());
            let (code, output) =
                place.run_json(&["run", "o.mdx", "--model", &format!("scripted:{}", script.display())]);
            assert_eq!(code, expected, "{schema} {text:?}: {output}");
        }
    }
}

#[test]
fn texts_have_the_form_that_their_schema_names() {
    let place = Workspace::new("");
    let forms = [
        ("ip()", "2001:db8::1", "2001:db8::1::2"),
        ("ip({ version: 'v4' })", "192.168.0.1", "2001:db8::1"),
        ("cuid()", "cjld2cjxh0000qzrmn831i7rn", "xjld2"),
        ("ulid()", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAU"),
        ("nanoid()", "V1StGXR8_Z5jdHi6B-myT", "V1StGXR8"),
        ("base64()", "SGVsbG8=", "SGVsbG8"),
        ("emoji()", "\u{1f600}", "smile"),
    ];
    let fields: Vec<String> =
        forms.iter().enumerate().map(|(index, (form, ..))| format!("f{index}: $.z.string().{form}")).collect();
    let schema = format!("{{$.z.object({{ {} }})}}", fields.join(", "));
    place
        .write("d.mdx", &format!("Say it.\n\n<GenObject as=\"a\" model=\"scripted:script.json\" schema={schema} />\n"));
    let answer = |wrong: Option<usize>| -> String {
        let pick = |(index, (_, good, bad)): (usize, &(&str, &str, &str))| {
            (format!("f{index}"), json!(if wrong == Some(index) { bad } else { good }))
        };
        serde_json::Value::Object(forms.iter().enumerate().map(pick).collect()).to_string()
    };
    for wrong in std::iter::once(None).chain((0..forms.len()).map(Some)) {
        place.write("script.json", &json!({"default": answer(wrong)}).to_string());
        let (code, output) = place.run_json(&["run", "d.mdx"]);
        let expected = if wrong.is_none() { 0 } else { 1 };
        assert_eq!(code, expected, "{:?}: {output}", wrong.map(|index| forms[index]));
        if let Some(index) = wrong {
            let message = output["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains(&format!("f{index}")), "{message}");
        }
    }
}
