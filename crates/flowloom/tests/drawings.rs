//! Every example is drawn in the words of its definition, and fits a page.

mod support;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use support::{Workspace, exit_code, stderr_text};

/// The definitions of the examples, one of each kind, and the original systems' own.
const EXAMPLES: [&str; 11] = [
    "flow/guide.json",
    "flow/weather-report.json",
    "graph/helpdesk.json",
    "markdown/poem.mdx",
    "markdown/postcards.mdx",
    "markdown/review.mdx",
    "mcp/warehouse.json",
    "pipeline/analyse-review.json",
    "seeds/steps/05.js",
    "steps/ask-a-person.json",
    "steps/review-document.json",
];

fn draw(path: &str, format: &str) -> String {
    let examples: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let place = Workspace::new("[mcp.stock]\ncommand = \"python3\"\n");
    let file = examples.join(path);
    let output = place.run(&["graph", file.to_str().expect("UTF-8"), "--format", format]);
    assert_eq!(exit_code(&output), 0, "{path}: {}", stderr_text(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn drawings_use_the_words_of_the_definition() {
    let drawings: Vec<String> = EXAMPLES.iter().map(|path| format!("# {path}\n\n{}", draw(path, "text"))).collect();
    insta::with_settings!({snapshot_path => "drawings", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("text", drawings.join("\n"));
        insta::assert_snapshot!("mermaid", draw("graph/helpdesk.json", "mermaid"));
        insta::assert_snapshot!("dot", draw("steps/review-document.json", "dot"));
        insta::assert_snapshot!("svg", draw("flow/weather-report.json", "svg"));
    });
}

#[test]
fn drawings_have_a_background_and_one_end_and_fit_a_page() {
    for path in EXAMPLES {
        let svg = draw(path, "svg");
        let width = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a width");
        assert!(width.parse::<f64>().is_ok_and(|width| width <= 800.0), "{path} is {width} px wide");
        assert!(svg.contains("rx=\"8\" fill=\"#fff\"/>"), "{path} has no background");
        assert_eq!(svg.matches(">END</text>").count(), 1, "{path} has one end");
        for arrow in svg.split("<path class=\"e\" d=\"M").skip(1) {
            let arrow = arrow.split('"').next().expect("a path");
            let end_of = |part: &str| {
                let numbers: Vec<&str> = part.split(' ').collect();
                numbers[numbers.len() - 2..].join(" ")
            };
            let ends: Vec<String> = arrow.split(['L', 'C']).map(end_of).collect();
            assert!(ends.windows(2).all(|pair| pair[0] != pair[1]), "{path}: a segment without a length in {arrow}");
        }
    }
}

/// Definitions of every format whose names have blanks and letters of other scripts, each with the names.
const NAMED: [(&str, &str, &[&str]); 4] = [
    (
        "flow.json",
        r#"{"name": "Wetter in Köln", "config": {"steps": [
            {"type": "llmInstruction", "config": {"instruction": "Say", "resultVariable": "kurze Fassung"}}]}}"#,
        &["Wetter in Köln", "llmInstruction → kurze Fassung"],
    ),
    (
        "steps.json",
        r#"{"name": "s", "steps": [
            {"name": "Text prüfen", "functionId": "agent::chat", "promptTemplate": "x", "mode": "sequential"},
            {"name": "数字", "functionId": "agent::chat", "promptTemplate": "x", "mode": "fanout"}]}"#,
        &["Text prüfen", "数字"],
    ),
    ("page.mdx", "Hi\n\n<GenText as=\"größe\" model=\"scripted:x\" />\n", &["größe"]),
    (
        "graph.json",
        r#"{"workflow": {"id": "h", "name": "Hilfe", "isConversational": true, "entrypointNodeId": "n1",
            "nodes": [{"id": "n1", "nodeType": "AGENT", "nodeName": "Erste Hilfe", "agentId": "a"},
                      {"id": "n2", "nodeType": "TOOL_EXECUTOR", "nodeName": "tool_executor", "agentId": null}],
            "edges": [{"id": "e", "sourceNodeId": "n1", "targetNodeId": "n2", "conditionType": "CONDITIONAL",
                       "conditionValue": "tool_executor"}]},
            "agents": [{"id": "a", "systemPrompt": "x", "model": "openai:gpt-4o", "tools": [TOOLS]}]}"#,
        &["Erste Hilfe  openai:gpt-4o, tools: t0, t1, t2, and 2 more"],
    ),
];

#[test]
fn drawings_show_names_as_they_are_written_and_the_tools_of_agents() {
    let place = Workspace::new("");
    let mut tools = String::new();
    for number in 0..5 {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(tools, r#"{comma}{{"name": "t{number}", "functionId": "tool::web_fetch"}}"#);
    }
    for (file, text, names) in NAMED {
        place.write(file, &text.replace("TOOLS", &tools));
        let output = place.run(&["graph", file]);
        let drawing = String::from_utf8(output.stdout).expect("UTF-8");
        for name in names {
            assert!(drawing.contains(name), "{file} lacks {name}:\n{drawing}");
        }
        assert!(!drawing.contains('~'), "{file} shows a key:\n{drawing}");
    }
}

#[test]
fn a_definition_without_steps_ends_at_once() {
    let place = Workspace::new("");
    place.write("empty.mdx", "Hello.\n");
    let output = place.run(&["graph", "empty.mdx", "--format", "svg"]);
    assert_eq!(String::from_utf8(output.stdout).expect("UTF-8").matches(">END</text>").count(), 1);
}

#[test]
fn an_image_that_nobody_could_read_is_refused() {
    let place = Workspace::new("");
    let block = r#"{"type": "llmInstruction", "config": {"instruction": "Go on."}}"#;
    let flow = |blocks: usize| format!(r#"{{"name": "long", "steps": [{}]}}"#, vec![block; blocks].join(","));
    place.write("long.json", &flow(600));
    let refused = place.run(&["graph", "long.json", "--format", "svg"]);
    assert_eq!(exit_code(&refused), 2);
    let error = stderr_text(&refused);
    assert!(error.contains("error[FL1402]: the drawing has 601 steps") && error.contains("--format dot"), "{error}");
    assert_eq!(exit_code(&place.run(&["graph", "long.json", "--format", "dot"])), 0);
}
