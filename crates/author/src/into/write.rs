//! Writes steps in the other formats.

use flowloom_core::json::write;
use flowloom_core::value::Value;

use super::parts::{Does, Part, Piece};

/// The metadata of a definition.
pub(super) struct About<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    pub(super) description: &'a str,
}

type Text = Result<String, Vec<String>>;

pub(super) fn flow(about: &About<'_>, parts: &[Part]) -> Text {
    let start = step("start", Value::map([("variables", Value::list(Vec::new()))]));
    let mut steps = vec![start];
    for (at, part) in parts.iter().enumerate() {
        let (kind, key, pieces) = match &part.does {
            Does::Prompt(pieces) => ("llmInstruction", "instruction", pieces),
            Does::Page(pieces) => ("webScraping", "url", pieces),
        };
        let mut config =
            vec![(key, references(&part.id, pieces, ("${", "}"))?.into()), ("resultVariable", part.id.as_str().into())];
        if matches!(part.does, Does::Page(_)) {
            config.push(("enableSummarization", false.into()));
        }
        if at + 1 == parts.len() {
            config.push(("directOutput", true.into()));
        }
        steps.push(step(kind, Value::map(config)));
    }
    Ok(pretty(&Value::map([
        ("name", about.name.into()),
        ("description", about.description.into()),
        ("active", true.into()),
        ("steps", Value::list(steps)),
    ])))
}

fn step(kind: &str, config: Value) -> Value {
    Value::map([("type", kind.into()), ("config", config)])
}

pub(super) fn steps(about: &About<'_>, parts: &[Part]) -> Text {
    let mut steps = Vec::new();
    for part in parts {
        let (function, pieces) = match &part.does {
            Does::Prompt(pieces) => ("agent::chat", pieces),
            Does::Page(pieces) => ("tool::web_fetch", pieces),
        };
        steps.push(Value::map([
            ("name", part.id.as_str().into()),
            ("functionId", function.into()),
            ("mode", "sequential".into()),
            ("promptTemplate", references(&part.id, pieces, ("{{", "}}"))?.into()),
            ("outputVar", part.id.as_str().into()),
        ]));
    }
    Ok(pretty(&Value::map([
        ("id", about.id.into()),
        ("name", about.name.into()),
        ("description", about.description.into()),
        ("steps", Value::list(steps)),
    ])))
}

/// Each step is a phase of its own, so that it sees only what it refers to.
pub(super) fn markdown(about: &About<'_>, parts: &[Part], model: &str) -> Text {
    let mut out = format!("---\ntitle: {}\n---\n", write(&about.name.into()));
    let mut problems = Vec::new();
    for part in parts {
        match &part.does {
            Does::Prompt(pieces) => {
                let text: String = pieces.iter().map(in_markdown).collect();
                let (id, model) = (&part.id, write(&model.into()));
                out.push_str(&format!(
                    "\n---\n\n{}\n\n<GenText as=\"{id}\" model={{{model}}} />\n",
                    lines(text.trim())
                ));
            }
            Does::Page(_) => problems.push(format!("{}: web pages cannot be exported to Markdown", part.id)),
        }
    }
    if problems.is_empty() { Ok(out) } else { Err(problems) }
}

fn in_markdown(piece: &Piece) -> String {
    match piece {
        Piece::Text(text) => text.replace('\\', "\\\\").replace('{', "\\{").replace('<', "\\<").replace('`', "\\`"),
        Piece::Result(id) => format!("{{{id}}}"),
    }
}

/// Escapes line starts that would begin a comment, a heading, a rule or a list.
fn lines(text: &str) -> String {
    let plain = |line: &str| match line.trim_start().starts_with(['>', '#', '-', '*', '_', '+', '=']) {
        true => format!("\\{}", line.trim_start()),
        false => line.to_owned(),
    };
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// A text with references in the syntax of a format. Text that looks like a reference is not supported.
fn references(id: &str, pieces: &[Piece], (open, close): (&str, &str)) -> Text {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) if text.contains(open) => {
                return Err(vec![format!("{id}: the text contains {open}, which starts a reference")]);
            }
            Piece::Text(text) => out.push_str(text),
            Piece::Result(id) => out.push_str(&format!("{open}{id}{close}")),
        }
    }
    Ok(out)
}

/// Indented JSON.
fn pretty(value: &Value) -> String {
    let parsed: serde_json::Value = serde_json::from_str(&write(value)).unwrap_or_default();
    format!("{parsed:#}\n")
}
