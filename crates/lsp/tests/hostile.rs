//! Texts that nest deeply, and changes with long paths: an editor reads them on a stack of any size, or refuses them.

use std::sync::Arc;

use flowloom_core::plan::Format;
use flowloom_core::value::Value;
use flowloom_formats::{markdown, steps};
use flowloom_lsp::analysis::index::Index;
use flowloom_lsp::analysis::json_place::{JsonPath, PathStep};
use flowloom_lsp::builder::{BuildError, Edit, EditEnv, apply_edits, inspect_definition};

/// A Markdown workflow with an expression.
fn write_markdown(expression: &str) -> String {
    format!(
        "---\ninput:\n  a:\n    type: text\n---\n{{{expression}}}\n\n<GenText as=\"x\" options={{{expression}}} model=\"m:x\" />\n"
    )
}

/// Deep texts of Markdown workflows.
fn deep_texts() -> Vec<String> {
    let wrap = |opening: &str, closing: &str, count: usize| {
        write_markdown(&format!("{}a{}", opening.repeat(count), closing.repeat(count)))
    };
    let levels: String = (0..60).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    vec![
        wrap("(", ")", 1_000),
        wrap("(", ")", 15_000),
        wrap("(", ")", 100_000),
        wrap("!", "", 30_000),
        wrap("a?a:", "", 8_000),
        wrap("[", "]", 15_000),
        wrap("{a:[", "]}", 5_000),
        wrap("`${", "}`", 6_000),
        wrap("x=>", "", 10_000),
        wrap("<b>", "</b>", 4_000),
        wrap("<>{", "}</>", 4_000),
        wrap("a**", "", 10_000),
        wrap("a+", "", 16_000),
        format!("---\n{levels}---\n{{a}}\n"),
        format!("---\na: {}\n---\n{{a}}\n", "[".repeat(5_000)),
        "<Loop>\n\n".repeat(4_000),
        "> ".repeat(60) + "{a}",
    ]
}

fn build_env(format: Format) -> EditEnv<'static> {
    EditEnv { format, file: "x", blocks: &[], model: "m:x" }
}

fn element_path(at: usize) -> JsonPath {
    vec![PathStep::Key("elements".to_owned()), PathStep::Index(at)]
}

#[test]
fn deep_markdown_is_read_and_changed_or_refused() {
    for text in deep_texts() {
        let _ = Index::new(Arc::from(text.as_str()), markdown::FORMAT);
        let _ = inspect_definition(build_env(markdown::FORMAT), &text);
        let key = |name: &str| PathStep::Key(name.to_owned());
        for edit in [
            Edit::Set { path: vec![key("title")], value: Value::from("t") },
            Edit::Rename { path: [element_path(0), vec![key("as")]].concat(), to: "y".to_owned() },
            Edit::Duplicate { path: element_path(0) },
            Edit::Add { list: vec![key("elements")], at: 0, kind: "GenText".to_owned() },
            Edit::Paste { list: vec![key("elements")], at: 0, text: text.clone() },
        ] {
            let _ = apply_edits(build_env(markdown::FORMAT), &text, &[edit]);
        }
    }
}

#[test]
fn a_path_is_at_most_as_long_as_a_definition_is_deep() {
    let path: JsonPath = vec![PathStep::Key("k".to_owned()); 100_000];
    let text = "{\"name\": \"x\", \"steps\": []}";
    let edit = Edit::Set { path, value: Value::from(1) };
    assert_eq!(apply_edits(build_env(steps::FORMAT), text, &[edit]), Err(BuildError::DeepPath));
}
