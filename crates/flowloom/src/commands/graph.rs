//! `flowloom graph`: draws a definition.

use flowloom_app::definitions::source::{self, Loader};

use serde_json::json;

use crate::cli::{Global, GraphArgs};
use crate::failure::CommandResult;
use crate::terminal::diagnostics;
use crate::terminal::draw::draw_plan;

pub(crate) fn draw_definition(global: &Global, arguments: &GraphArgs) -> CommandResult {
    let config = global.load_config()?;
    let format = source::parse_format(arguments.definition.as_deref())?;
    let source = Loader { format, lenient: arguments.lenient, ..Loader::new(&config) }.compile(&arguments.file);
    let Some(plan) = &source.compiled.plan else {
        diagnostics::print_diagnostics(&source);
        if global.json {
            super::results::print_json(&json!({"problems": source.problems()}));
        }
        return Ok(2);
    };
    let drawing = draw_plan(plan, arguments.format);
    match global.json {
        true => super::results::print_json(&json!({"drawing": drawing})),
        false => print!("{drawing}"),
    }
    Ok(0)
}
