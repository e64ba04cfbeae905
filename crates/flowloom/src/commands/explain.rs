//! `explain`, `schema` and `import`: what needs no run and no database.

use std::path::Path;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::did_you_mean;
use flowloom_formats::{flow, markdown};

use crate::cli::Global;
use crate::failure::{Failure, Outcome};
use crate::report;

/// The pages of `docs/errors`, by code.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/errors.rs"));

pub(crate) fn explain(global: &Global, text: &str) -> Outcome {
    if text == "prompt" {
        return Ok(prompt(global));
    }
    let Some(code) = Code::parse(text) else {
        let known: Vec<String> = Code::ALL.iter().map(Code::to_string).collect();
        let meant = did_you_mean(text, known.iter().map(String::as_str));
        let advice = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
        return Err(Failure::usage(format!("there is no code {text:?}{advice}")));
    };
    let page = page(code);
    if global.json {
        println!("{:#}", serde_json::json!({"code": code, "title": code.title(), "page": page}));
        return Ok(0);
    }
    match page {
        Some(page) => print!("{page}"),
        None => println!("{code}: {}", code.title()),
    }
    Ok(0)
}

/// The page of a code.
pub(crate) fn page(code: Code) -> Option<&'static str> {
    PAGES.iter().find(|(name, _)| *name == code.to_string()).map(|(_, page)| *page)
}

/// The instructions that stand before every conversation of a Markdown workflow.
fn prompt(global: &Global) -> u8 {
    match global.json {
        true => println!("{:#}", serde_json::json!({"prompt": markdown::SYSTEM})),
        false => println!("{}", markdown::SYSTEM),
    }
    0
}

pub(crate) fn schema(name: &str) -> Outcome {
    match flowloom_formats::find_format(name).and_then(flowloom_formats::schema) {
        Some(text) => {
            print!("{text}");
            Ok(0)
        }
        None => {
            let names: Vec<_> = flowloom_formats::formats().map(|format| format.to_string()).collect();
            Err(Failure::usage(format!("there is no schema of {name:?}; there are {}", names.join(", "))))
        }
    }
}

pub(crate) fn import(file: &Path, out: Option<&Path>) -> Outcome {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", file.display())))?;
    let Some(definition) = flow::unwrap_item(&text) else {
        let message =
            format!("{} is no community hub item: it has no item.flow that holds a flow as JSON text", file.display());
        return Err(Failure::usage(message));
    };
    // The stored form has no line break at its end.
    let written = report::indented(&definition);
    match out {
        None => println!("{written}"),
        Some(out) => std::fs::write(out, written)
            .map_err(|error| Failure::usage(format!("{} cannot be written: {error}", out.display())))?,
    }
    Ok(0)
}
