//! The processor time of the routes that read a definition grows in proportion to its size, and that of tests to their number.

mod support;

use serde_json::{Value, json};
use support::Workspace;
use support::http::RunningServer;

#[path = "../../formats/tests/hostile/definitions.rs"]
mod definitions;

use definitions::{HostileDefinition, hostile_definitions};

/// Sizes of the definitions that are compared, in bytes.
const SIZES: (usize, usize) = (16 << 10, 128 << 10);

/// Least processor time that counts, in ticks of 10 ms: less is not measured exactly.
const MIN_TICKS: u64 = 3;

/// Eight times the size takes eight times the time in linear code, and 64 times the time in quadratic code.
const MAX_RATIO: u64 = 24;

/// Maximum size of the reply to a conversion, in sizes of the definition: a pipeline needs a block for each step.
const MAX_GROWTH: usize = 16;

/// Writes the request about a definition in a format, if it must be named.
type MakeRequest = fn(&str, Option<&str>) -> Value;

/// A route with the request about a definition.
type MeasuredRoute = (&'static str, MakeRequest);

fn open_source(text: &str, format: Option<&str>) -> Value {
    json!({"entry": "x.json", "files": {"x.json": text}, "format": format})
}

fn write_conversion(text: &str, format: Option<&str>, to: &str) -> Value {
    json!({"source": text, "format": format, "to": to})
}

fn write_question(text: &str, format: Option<&str>, what: &str) -> Value {
    json!({"source": open_source(text, format), "what": what, "at": text.len() / 2})
}

/// The request to change a definition.
fn write_edit(text: &str, format: Option<&str>, edit: &Value) -> Value {
    json!({"source": open_source(text, format), "edits": [edit]})
}

/// The list that has the parts of a definition.
fn find_list(text: &str) -> &'static str {
    match text {
        text if text.contains("\"nodes\"") => "nodes",
        text if text.starts_with('{') && text.contains('"') => "steps",
        _ => "elements",
    }
}

/// Definitions that compile, besides those that do not.
fn all_definitions() -> Vec<HostileDefinition> {
    let many_inputs = HostileDefinition {
        name: "prompts that read many inputs",
        format: None,
        write: |bytes| {
            let count = bytes / 200;
            let variable = |n: usize| json!({"name": format!("v{n}"), "value": "x"});
            let variables: Vec<Value> = (0..count).map(variable).collect();
            let ask = |n: usize| {
                let config =
                    json!({"instruction": format!("${{v{n}}} and ${{v{}}}", n / 2), "resultVariable": format!("r{n}")});
                json!({"type": "llmInstruction", "config": config})
            };
            let start = json!({"type": "start", "config": {"variables": variables}});
            let steps: Vec<Value> = std::iter::once(start).chain((0..count).map(ask)).collect();
            json!({"name": "x", "description": "d", "steps": steps}).to_string()
        },
    };
    let chain = HostileDefinition {
        name: "nodes that each read the one before",
        format: None,
        write: |bytes| {
            let node = |n: usize| {
                let message = format!("{{{{n{}.delivered}}}}", n.saturating_sub(1));
                json!({"id": format!("n{n}"), "block_id": "notify_push", "inputs": {"title": "t", "body": message}})
            };
            let count = bytes / 110;
            let nodes: Vec<Value> = (0..count).map(node).collect();
            let edge = |n: usize| json!({"from": format!("n{n}"), "to": format!("n{}", n + 1)});
            let edges: Vec<Value> = (0..count - 1).map(edge).collect();
            json!({"id": "p", "name": "p", "nodes": nodes, "edges": edges}).to_string()
        },
    };
    let one_title = HostileDefinition {
        name: "valid steps with one name",
        format: None,
        write: |bytes| {
            let step = json!({"name": "a", "functionId": "agent::chat", "mode": "sequential",
                "promptTemplate": "{{input}}", "errorMode": "fail"});
            json!({"name": "x", "steps": vec![step; bytes / 120]}).to_string()
        },
    };
    let mut all = hostile_definitions();
    all.extend([many_inputs, chain, one_title]);
    all.extend(unfinished_references());
    all.extend(unfinished_markdown());
    all
}

/// Texts with many beginnings of references, which do not end, or have one end.
fn unfinished_references() -> [HostileDefinition; 4] {
    fn write_flow(prompt: &str) -> String {
        let start = json!({"type": "start", "config": {"variables": [{"name": "a", "value": prompt}]}});
        json!({"name": "f", "steps": [start]}).to_string()
    }
    fn write_steps(prompt: &str) -> String {
        let step = json!({"name": "a", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": prompt});
        json!({"name": "x", "steps": [step]}).to_string()
    }
    let new = |name, write| HostileDefinition { name, format: None, write };
    [
        new("references that do not end", |bytes| write_flow(&"${a".repeat(bytes / 3))),
        new("references without a name", |bytes| write_flow(&format!("{}}}", "${[]".repeat(bytes / 4)))),
        new("braces that do not end", |bytes| write_steps(&"{{a".repeat(bytes / 3))),
        new("braces with one end", |bytes| write_steps(&format!("{}}}}}", "{{.".repeat(bytes / 3)))),
    ]
}

/// Markdown whose elements and expressions do not end.
fn unfinished_markdown() -> [HostileDefinition; 5] {
    let new = |name, write| HostileDefinition { name, format: Some("markdown"), write };
    [
        new("expressions that do not end", |bytes| "{a\n\n".repeat((bytes / 4).min(3_900))),
        new("braces in one paragraph", |bytes| "{ a } ".repeat((bytes / 6).min(4_000))),
        new("elements that do not end", |bytes| "<Loop as=\"a\">\n\n".repeat((bytes / 15).min(3_900))),
        new("conditions with results", |bytes| {
            "<Cond as=\"a\">\n\n<GenText as=\"b\" />\n\n</Cond>\n\n".repeat((bytes / 50).min(1_300))
        }),
        new("quotes and slashes", |bytes| "{ ' / [ } \n\n".repeat((bytes / 12).min(3_900))),
    ]
}

/// The processor time of a process and of its threads, in ticks.
fn read_ticks(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("its times");
    let after_name = stat.rsplit_once(')').expect("a name").1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("ticks")).sum()
}

/// Fails if the processor time of one of these routes grows faster than the definitions.
fn assert_linear_time(routes: &[MeasuredRoute]) {
    let place = Workspace::new("default_model = \"scripted:echo\"\n");
    let server = RunningServer::start(&place, &[]);
    let measure = |path: &str, body: &Value| {
        let before = read_ticks(server.child.id());
        let answer = server.post(path, body);
        assert!(!answer.body.contains("invalid request body"), "{path}: {}", answer.body);
        (read_ticks(server.child.id()) - before, answer.body.len())
    };
    let mut problems = Vec::new();
    for definition in all_definitions() {
        for &(path, request) in routes {
            let ((small, _), (large, bytes)) = (
                measure(path, &request(&(definition.write)(SIZES.0), definition.format)),
                measure(path, &request(&(definition.write)(SIZES.1), definition.format)),
            );
            if large > small.max(MIN_TICKS) * MAX_RATIO {
                problems.push(format!("{path}, {}: {small}0 ms, then {large}0 ms", definition.name));
            }
            if path == "/api/v1/convert" && bytes > MAX_GROWTH * SIZES.1 {
                problems.push(format!("{path}, {}: a reply of {bytes} bytes", definition.name));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn questions_about_definitions_take_linear_time() {
    assert_linear_time(&[
        ("/api/v1/definitions/analyze", |text, format| write_question(text, format, "variables")),
        ("/api/v1/definitions/analyze", |text, format| write_question(text, format, "completions")),
        ("/api/v1/definitions/analyze", |text, format| write_question(text, format, "meaning")),
    ]);
}

#[test]
fn conversions_take_linear_time() {
    assert_linear_time(&[
        ("/api/v1/convert", |text, format| write_conversion(text, format, "markdown")),
        ("/api/v1/convert", |text, format| write_conversion(text, format, "pipeline")),
    ]);
}

#[test]
fn comparisons_and_estimates_take_linear_time() {
    assert_linear_time(&[
        (
            "/api/v1/diff",
            |text, format| json!({"a": {"source": open_source(text, format)}, "b": {"source": open_source(&text.replace("0\"", "1\""), format)}}),
        ),
        ("/api/v1/estimate", |text, format| json!({"source": open_source(text, format)})),
        ("/api/v1/definitions/inspect", |text, format| json!({"source": open_source(text, format)})),
    ]);
}

#[test]
fn edits_take_linear_time() {
    assert_linear_time(&[
        ("/api/v1/definitions/edit", |text, format| {
            write_edit(text, format, &json!({"do": "set", "path": ["name"], "value": "y"}))
        }),
        ("/api/v1/definitions/edit", |text, format| {
            write_edit(text, format, &json!({"do": "duplicate", "path": [find_list(text), 0]}))
        }),
        ("/api/v1/definitions/edit", |text, format| {
            write_edit(text, format, &json!({"do": "move", "path": [find_list(text), 0], "at": 1}))
        }),
        ("/api/v1/definitions/edit", |text, format| {
            write_edit(text, format, &json!({"do": "paste", "list": [find_list(text)], "at": 1, "text": text}))
        }),
    ]);
}

#[test]
fn a_conversion_lists_two_hundred_findings_and_counts_the_others() {
    let place = Workspace::new("");
    let server = RunningServer::start(&place, &[]);
    let step = |n: usize| {
        json!({"name": format!("s{n}"), "functionId": "agent::chat", "mode": "sequential",
            "promptTemplate": "x", "errorMode": "skip"})
    };
    let steps: Vec<Value> = (0..300).map(step).collect();
    let text = json!({"name": "x", "steps": steps}).to_string();
    let answer = server.post("/api/v1/convert", &json!({"source": text, "to": "flow"})).json();
    let (shown, omitted) = (answer["findings"].as_array().expect("findings"), &answer["omitted"]);
    assert_eq!(shown.len(), 200);
    assert!(omitted.as_u64().is_some_and(|count| count >= 100), "{omitted}");
    assert!(shown.iter().all(|finding| finding["fate"] == "lost"), "what is lost is shown before other findings");
    let problems = answer["problems"].as_array().expect("problems");
    assert_eq!((problems.len(), &problems[200]["code"]), (201, &json!("FL0117")));
}

#[test]
fn changes_of_a_large_definition_are_limited() {
    let place = Workspace::new("");
    let server = RunningServer::start(&place, &[]);
    let step =
        json!({"name": "a", "functionId": "agent::chat", "mode": "sequential", "promptTemplate": "x".repeat(1 << 20)});
    let text = json!({"name": "x", "steps": [step]}).to_string();
    let edits = vec![json!({"do": "duplicate", "path": ["steps", 0]}); 400];
    let answer = server.post(
        "/api/v1/definitions/edit",
        &json!({"source": {"entry": "x.json", "files": {"x.json": text}}, "edits": edits}),
    );
    assert_eq!((answer.status, answer.error_code().as_str()), (400, "FL1505"), "{}", answer.status);
    assert!(answer.body.contains("too large"), "{}", answer.body);
}

/// Steps of the workflow that tests run.
const TESTED_STEPS: usize = 10;

/// A workspace with a number of tests of a workflow.
fn place_with_tests(count: usize) -> Workspace {
    let place = Workspace::new("");
    let step = |n: usize| {
        json!({"name": format!("s{n}"), "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail",
            "promptTemplate": format!("{n}: {{{{input}}}}"), "outputVar": format!("s{n}")})
    };
    let steps: Vec<Value> = (0..TESTED_STEPS).map(step).collect();
    place.write("chain.json", &json!({"id": "chain", "name": "Chain", "description": "d", "steps": steps}).to_string());
    std::fs::create_dir(place.path("tests")).expect("a folder");
    let answers: Vec<String> = (0..TESTED_STEPS).map(|n| format!("answer {n}")).collect();
    for n in 0..count {
        let last = format!("answer {}", TESTED_STEPS - 1);
        let test = json!({"definition": "../chain.json", "inputs": format!("input {n}"), "answers": answers,
            "expect": {"output": [{"equals": last}], "steps": {"/s3": [{"equals": "answer 3"}]}}});
        place.write(&format!("tests/t{n}.json"), &test.to_string());
    }
    place
}

/// The processor time in milliseconds that the program takes for its tests, as the shell measures it.
fn measure_tests(count: usize) -> u64 {
    let place = place_with_tests(count);
    let program = env!("CARGO_BIN_EXE_flowloom");
    let mut shell = place.isolate_program("sh");
    let script = "\"$0\" test tests; code=$?; times; exit $code";
    let output = shell.args(["-c", script, program]).output().expect("a shell");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    // The last line is that of the programs that have ended: user and system time, such as `0m1.250000s 0m0.070000s`.
    let parse = |time: &str| {
        let (minutes, seconds) = time.trim_end_matches('s').split_once('m').expect("minutes and seconds");
        let seconds: f64 = seconds.replace(',', ".").parse().expect("seconds");
        minutes.parse::<u64>().expect("minutes") * 60_000 + (seconds * 1e3) as u64
    };
    printed.lines().last().expect("the times").split_whitespace().map(parse).sum()
}

/// Ten times the tests take at most ten times the processor time, with some room for what differs from run to run.
#[test]
fn tests_take_linear_time() {
    let (few, many) = (measure_tests(50), measure_tests(500));
    assert!(many <= few.max(100) * 15, "50 tests take {few} ms, and 500 take {many} ms");
}
