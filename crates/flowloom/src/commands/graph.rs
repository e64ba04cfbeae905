//! `flowloom graph`: draws a definition.

use flowloom_app::config::Config;
use flowloom_app::definitions::find::find_definition;
use flowloom_app::definitions::source::{self, LoadedDefinition, Loader};
use serde_json::json;

use super::agent_tools::attach_tools;
use crate::cli::{Global, GraphArgs};
use crate::failure::{CommandError, CommandResult};
use crate::terminal::diagnostics;
use crate::terminal::draw::draw_plan;

pub(crate) async fn draw_definition(global: &Global, arguments: &GraphArgs) -> CommandResult {
    let source = load_definition(global.load_config()?, arguments).await?;
    let Some(plan) = &source.compiled.plan else {
        diagnostics::print_diagnostics(&source);
        if global.json {
            super::results::print_json(&json!({"problems": source.problems()}));
        }
        return Ok(2);
    };
    let drawing = draw_plan(plan, arguments.format)?;
    match global.json {
        true => super::results::print_json(&json!({"drawing": drawing})),
        false => print_for_people!("{drawing}"),
    }
    Ok(0)
}

/// The definition; an agent with the workflows that are its tools.
async fn load_definition(config: Config, arguments: &GraphArgs) -> Result<LoadedDefinition, CommandError> {
    let format = source::parse_format(arguments.definition.as_deref())?;
    let file = find_definition(&config, &arguments.file)?;
    let source = Loader { format, lenient: arguments.lenient, ..Loader::new(&config) }.compile(&file);
    attach_tools(&config, None, source, &file, arguments.lenient).await
}
