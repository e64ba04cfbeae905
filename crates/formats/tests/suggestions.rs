//! Names that are probably misspelt: each is offered as a guess, in the place of what is written.

use flowloom_core::diagnostic::apply_fixes;
use flowloom_formats::{Sources, compile};

/// The text after all fixes of its problems, which are no more than guesses.
fn apply_guesses(file: &str, text: &str) -> String {
    let files = [(file.to_owned(), text.as_bytes().to_vec())];
    let sources = Sources { files: files.into(), source_bytes: 1 << 20, ..Sources::default() };
    let found = compile(file, &sources, None).diagnostics;
    let guesses: Vec<_> = found.iter().filter_map(|problem| problem.fix.as_ref()).collect();
    assert!(guesses.iter().all(|fix| !fix.is_safe()), "{file}: {guesses:?}");
    apply_fixes(text, guesses).0
}

#[test]
fn names_that_are_meant_can_be_written() {
    let flow = |steps: &str| format!(r#"{{"name": "F", "steps": [{steps}]}}"#);
    let variables = |list: &str| format!(r#"{{"type": "start", "config": {{"variables": [{list}]}}}}"#);
    let ask = |prompt: &str| format!(r#"{{"type": "llmInstruction", "config": {{"instruction": "{prompt}"}}}}"#);
    let city = r#"{"name": "city", "value": "Oslo"}"#;
    let row = |prompt: &str| {
        format!(
            r#"{{"name": "S", "description": "d", "steps": [{{"name": "a", "functionId": "agent::chat", "mode": "sequential", "errorMode": "fail", "promptTemplate": "{prompt}"}}]}}"#
        )
    };
    let markdown = |kind: &str, attribute: &str, name: &str| {
        format!(
            "---\ninput:\n  city: {{type: {kind}}}\n---\n\nAbout {{{name}}}\n\n<GenText as=\"a\" {attribute}=\"m:x\" model=\"m:x\" />\n"
        )
    };
    let pipeline = |block: &str, from: &str, field: &str| {
        format!(
            r#"{{"id": "p", "name": "P", "nodes": [{{"id": "first", "block_id": "{block}", "inputs": {{"url": "https://example.org"}}}}, {{"id": "second", "block_id": "text_summarizer", "inputs": {{"text": "{{{{{field}.content}}}}"}}}}], "edges": [{{"from": "{from}", "to": "second"}}]}}"#
        )
    };
    let graph = |target: &str, agent: &str| {
        format!(
            r#"{{"graph_name": "G", "entrypointNodeId": "start", "nodes": [{{"id": "start", "name": "start", "nodeType": "AGENT", "agentId": "{agent}"}}, {{"id": "answer", "name": "answer", "nodeType": "AGENT", "agentId": "refunds"}}], "edges": [{{"sourceNodeId": "start", "targetNodeId": "{target}", "conditionType": "ALWAYS"}}], "agents": [{{"id": "refunds", "systemPrompt": "Help."}}]}}"#
        )
    };
    let cases = [
        (
            "f.json",
            flow(&[variables(city), ask("${cty}")].join(",")),
            flow(&[variables(city), ask("${city}")].join(",")),
        ),
        (
            "f.json",
            flow(&[variables(city), ask("${other}")].join(",")),
            flow(&[variables(&format!(r#"{{"name": "other", "value": ""}}, {city}"#)), ask("${other}")].join(",")),
        ),
        (
            "f.json",
            flow(&[variables(""), ask("${other}")].join(",")),
            flow(&[variables(r#"{"name": "other", "value": ""}"#), ask("${other}")].join(",")),
        ),
        ("s.json", row("{{inptu}}"), row("{{input}}")),
        ("m.mdx", markdown("txt", "rloe", "cty"), markdown("text", "role", "city")),
        (
            "p.json",
            pipeline("web_scrape", "first", "first").replace("\"url\"", "\"ulr\""),
            pipeline("web_scrape", "first", "first"),
        ),
        ("p.json", pipeline("web_scarpe", "first", "first"), pipeline("web_scrape", "first", "first")),
        ("p.json", pipeline("web_scrape", "frist", "first"), pipeline("web_scrape", "first", "first")),
        ("p.json", pipeline("web_scrape", "first", "frist"), pipeline("web_scrape", "first", "first")),
        ("g.json", graph("answr", "refunds"), graph("answer", "refunds")),
        ("g.json", graph("answer", "refnds"), graph("answer", "refunds")),
    ];
    for (file, text, meant) in cases {
        assert_eq!(apply_guesses(file, &text), meant);
    }
}
