//! Writes steps in the other formats.

use flowloom_core::json::write_json;
use flowloom_core::value::Value;

use super::read_steps::{ExportPiece, ExportStep, StepAction};

/// The metadata of a definition.
pub(super) struct DefinitionInfo<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) description: &'a str,
}

type WriteResult = Result<String, Vec<String>>;

pub(super) fn write_flow(about: &DefinitionInfo<'_>, parts: &[ExportStep]) -> WriteResult {
    let start = flow_step("start", Value::map([("variables", Value::list(Vec::new()))]));
    let mut steps = vec![start];
    for (at, part) in parts.iter().enumerate() {
        let (kind, key, pieces) = match &part.action {
            StepAction::Prompt(pieces) => ("llmInstruction", "instruction", pieces),
            StepAction::Page(pieces) => ("webScraping", "url", pieces),
        };
        let mut config = vec![
            (key, write_references(&part.id, pieces, "${", "}")?.into()),
            ("resultVariable", part.id.as_str().into()),
        ];
        if matches!(part.action, StepAction::Page(_)) {
            config.push(("enableSummarization", false.into()));
        }
        if at + 1 == parts.len() {
            config.push(("directOutput", true.into()));
        }
        steps.push(flow_step(kind, Value::map(config)));
    }
    Ok(pretty_json(&Value::map([
        ("name", about.name.into()),
        ("description", about.description.into()),
        ("active", true.into()),
        ("steps", Value::list(steps)),
    ])))
}

fn flow_step(kind: &str, config: Value) -> Value {
    Value::map([("type", kind.into()), ("config", config)])
}

pub(super) fn write_steps(about: &DefinitionInfo<'_>, parts: &[ExportStep]) -> WriteResult {
    let mut steps = Vec::new();
    for part in parts {
        let (function, pieces) = match &part.action {
            StepAction::Prompt(pieces) => ("agent::chat", pieces),
            StepAction::Page(pieces) => ("tool::web_fetch", pieces),
        };
        steps.push(Value::map([
            ("name", part.id.as_str().into()),
            ("functionId", function.into()),
            ("mode", "sequential".into()),
            ("promptTemplate", write_references(&part.id, pieces, "{{", "}}")?.into()),
            ("outputVar", part.id.as_str().into()),
        ]));
    }
    Ok(pretty_json(&Value::map([
        ("id", about.id.into()),
        ("name", about.name.into()),
        ("description", about.description.into()),
        ("steps", Value::list(steps)),
    ])))
}

/// Each step is a phase of its own, so that it sees only what it refers to.
pub(super) fn write_markdown(about: &DefinitionInfo<'_>, parts: &[ExportStep], model: &str) -> WriteResult {
    let mut out = format!("---\ntitle: {}\n---\n", write_json(&about.name.into()));
    let mut problems = Vec::new();
    for part in parts {
        match &part.action {
            StepAction::Prompt(pieces) => {
                let text: String = pieces.iter().map(escape_markdown).collect();
                let (id, model) = (&part.id, write_json(&model.into()));
                out.push_str(&format!(
                    "\n---\n\n{}\n\n<GenText as=\"{id}\" model={{{model}}} />\n",
                    escape_line_starts(text.trim())
                ));
            }
            StepAction::Page(_) => problems.push(format!("{}: web pages cannot be exported to Markdown", part.id)),
        }
    }
    if problems.is_empty() { Ok(out) } else { Err(problems) }
}

fn escape_markdown(piece: &ExportPiece) -> String {
    match piece {
        ExportPiece::Text(text) => {
            text.replace('\\', "\\\\").replace('{', "\\{").replace('<', "\\<").replace('`', "\\`")
        }
        ExportPiece::Result(id) => format!("{{{id}}}"),
    }
}

/// Escapes line starts that would begin a comment, a heading, a rule or a list.
fn escape_line_starts(text: &str) -> String {
    let plain = |line: &str| match line.trim_start().starts_with(['>', '#', '-', '*', '_', '+', '=']) {
        true => format!("\\{}", line.trim_start()),
        false => line.to_owned(),
    };
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// A text with references in the syntax of a format. Text that looks like a reference is not supported.
fn write_references(id: &str, pieces: &[ExportPiece], open: &str, close: &str) -> WriteResult {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            ExportPiece::Text(text) if text.contains(open) => {
                return Err(vec![format!("{id}: the text contains {open}, which starts a reference")]);
            }
            ExportPiece::Text(text) => out.push_str(text),
            ExportPiece::Result(id) => out.push_str(&format!("{open}{id}{close}")),
        }
    }
    Ok(out)
}

/// Indented JSON.
fn pretty_json(value: &Value) -> String {
    let parsed: serde_json::Value = serde_json::from_str(&write_json(value)).unwrap_or_default();
    format!("{parsed:#}\n")
}
