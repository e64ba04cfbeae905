//! `flowloom import FILE`: takes the flow out of an item of AnythingLLM's community hub.

use flowloom_app::definitions::source::Loader;
use flowloom_app::runs::summary;
use flowloom_formats::{flow, format_source};

use crate::cli::{Global, ImportArgs};
use crate::failure::{CommandError, CommandResult};
use crate::replace_file::{check_new_file, replace_file};
use crate::terminal::diagnostics;

/// Prints or writes the flow of an item, in the canonical layout. Its problems are reported; with errors, nothing is written.
pub(crate) fn import_hub_item(global: &Global, arguments: &ImportArgs) -> CommandResult {
    let ImportArgs { file, out, force } = arguments;
    let text = std::fs::read_to_string(file)
        .map_err(|error| CommandError::usage(format!("{} cannot be read: {error}", file.display())))?;
    let Some(definition) = flow::unwrap_item(&text) else {
        let message =
            format!("{} is not a community hub item: expected a flow as JSON text in item.flow", file.display());
        return Err(CommandError::usage(message));
    };
    let config = global.load_config()?;
    let loader = Loader { format: Some(flow::FORMAT), ..Loader::new(&config) };
    let mut checked = loader.compile(file);
    checked.add_check_warnings(&loader);
    diagnostics::print_diagnostics(&checked);
    if checked.is_refused() {
        return Err(CommandError::usage(format!("the flow in {} has errors, so nothing was written", file.display())));
    }
    let plain = summary::to_indented_json(&definition) + "\n";
    let written = format_source(flow::FORMAT, "flow.json", &plain).unwrap_or(plain);
    match out {
        None => print!("{written}"),
        Some(out) => {
            check_new_file(out, *force)?;
            replace_file(out, &written)?;
            super::results::print_result(global, serde_json::json!({"file": out.display().to_string()}), "");
            eprintln!("{} written", out.display());
        }
    }
    Ok(0)
}
