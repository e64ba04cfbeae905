//! The targets: what must hold for every input.

use std::net::IpAddr;
use std::sync::Arc;

use flowloom_core::plan::Format;
use flowloom_core::{Code, json};
use flowloom_formats::{Compiled, Sources, compile, flow, markdown, pipeline, steps};
use flowloom_lsp::analysis::index::Index;
use flowloom_lsp::analysis::json_place::PathStep;
use flowloom_lsp::builder::{Edit, EditEnv, apply_edits, inspect_definition};
use flowloom_tools::EgressPolicy;
use url::{Host, Url};

use crate::http_head::send_request;
use crate::streams::{parse_events, read_frames};

/// The limit of the size of a definition; no input reaches it.
const MAX_SOURCE_BYTES: u64 = 1 << 20;

/// The formats that editors show as parts.
const EDITED_FORMATS: [Format; 4] = [steps::FORMAT, flow::FORMAT, pipeline::FORMAT, markdown::FORMAT];

/// A reader of untrusted text.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Feeds it an input. Panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    Target { name: "json", run: read_json },
    Target { name: "definition", run: compile_json },
    Target { name: "markdown", run: compile_markdown },
    Target { name: "editor", run: open_in_editor },
    Target { name: "template", run: compile_template },
    Target { name: "egress", run: check_address },
    Target { name: "sse", run: parse_events },
    Target { name: "frames", run: read_frames },
    Target { name: "http", run: send_request },
];

/// A value that is read is written and read again as the same value; the lenient reader reads whatever the strict one
/// does.
fn read_json(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let lenient = json::read_lenient(&text);
    if let Ok(value) = json::parse_value(&text) {
        let written = json::write_json(&value);
        let again = json::parse_value(&written).map_err(|error| error.message);
        assert_eq!(again.as_ref(), Ok(&value), "a value changes when it is written: {written}");
        assert_eq!(lenient.as_ref(), Some(&value), "the lenient reader disagrees");
    }
}

fn compile_json(input: &[u8]) {
    for name in ["a.json", "system_agent_workflow.csv"] {
        compile_file(name, input.to_vec());
    }
}

fn compile_markdown(input: &[u8]) {
    compile_file("a.mdx", input.to_vec());
}

/// An editor indexes the input, shows its parts and changes it. What it changes it can read again.
fn open_in_editor(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for format in EDITED_FORMATS {
        let index = Index::new(Arc::from(&*text), format);
        let offset = text.floor_char_boundary(text.len() / 2);
        index.find_names(offset).for_each(drop);
        let env = EditEnv { format, file: "a", blocks: &[], model: "m:x" };
        let inspection = inspect_definition(env, &text);
        let key = |name: &str| PathStep::Key(name.to_owned());
        let mut edits = vec![Edit::Set { path: vec![key("name")], value: "x".into() }];
        edits.extend(inspection.parts.first().map(|part| Edit::Duplicate { path: part.path.clone() }));
        for edit in edits {
            if let Ok(edited) = apply_edits(env, &text, std::slice::from_ref(&edit)) {
                let again = inspect_definition(env, &edited.text);
                assert!(inspection.problem.is_some() || again.problem.is_none(), "{edit:?} makes {}", edited.text);
            }
        }
    }
}

/// The input is a template of each format.
fn compile_template(input: &[u8]) {
    let text = serde_json::Value::from(String::from_utf8_lossy(input)).to_string();
    for definition in [
        format!(r#"{{"name": "a", "steps": [{{"type": "llmInstruction", "config": {{"instruction": {text}}}}}]}}"#),
        format!(
            r#"{{"name": "a", "steps": [{{"name": "s", "functionId": "agent::chat", "mode": "sequential",
                "promptTemplate": {text}}}]}}"#
        ),
        format!(
            r#"{{"nodes": [{{"id": "n", "block_id": "http_request", "inputs": {{"url": {text}}}}}], "edges": []}}"#
        ),
    ] {
        compile_file("a.json", definition.into_bytes());
    }
}

/// Compiles a file and checks that every problem is at a place in it.
fn compile_file(name: &str, bytes: Vec<u8>) {
    let length = bytes.len();
    let files = [(name.to_owned(), bytes)].into();
    let sources = Sources { files, source_bytes: MAX_SOURCE_BYTES, ..Sources::default() };
    let Compiled { plan, diagnostics, .. } = compile(name, &sources, None);
    for problem in &diagnostics {
        let end = problem.span.start.saturating_add(problem.span.length);
        assert!(end <= length, "{} is at {end}, behind the end of the file at {length}", problem.code);
    }
    assert!(diagnostics.iter().all(|problem| problem.code != Code::SourceTooLarge), "no input is read");
    let has_error = diagnostics.iter().any(flowloom_core::Diagnostic::is_error);
    assert!(plan.is_some() || has_error, "there is neither a plan nor an error");
}

/// No address that is not public is permitted, however it is written.
fn check_address(input: &[u8]) {
    let Ok(url) = Url::parse(&String::from_utf8_lossy(input)) else { return };
    let is_permitted = EgressPolicy::default().check_url(&url).is_ok();
    let address = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => address.to_canonical(),
        _ => return,
    };
    let is_local = match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local() || v6.is_unicast_link_local(),
    };
    assert!(!(is_permitted && is_local), "{url} is permitted");
}
