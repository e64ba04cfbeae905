//! `flowloom list`: lists the workflows of a folder.

use std::path::Path;

use flowloom_app::definitions::find::{FoundFile, find_definitions};
use flowloom_app::definitions::source::Loader;
use serde_json::json;

use super::results::print_json;
use crate::cli::{Global, ProjectConfigs};
use crate::failure::{CommandError, CommandResult};
use crate::hint::{self, quote_argument};
use crate::print::{print_wrapped, show_name, show_path};
use crate::style::{Style, paint_text};
use crate::terminal::measure::{count_columns, pad_columns};
use crate::terminal::table::print_header;

pub(crate) fn list_workflows(global: &Global, folder: &Path) -> CommandResult {
    let mut configs = ProjectConfigs::new(global);
    let config = configs.load_around(folder)?;
    if !folder.is_dir() {
        return Err(CommandError::usage(format!("{} is not a folder", folder.display())));
    }
    let mut found = find_definitions(folder, &Loader::new(&config)).definitions;
    for file in &mut found {
        let path = folder.join(&file.file);
        let own = configs.load_around(&path)?;
        if own.project != config.project {
            file.source = Loader::new(&own).compile(&path);
        }
    }
    if global.json {
        let workflows: Vec<_> = found.iter().map(to_json).collect();
        print_json(&serde_json::Value::from(workflows));
        return Ok(0);
    }
    if found.is_empty() {
        eprintln!("there are no workflows in {}; create one: {}", show_path(folder), hint::command_line("init"));
    }
    let width = found.iter().map(|file| count_columns(&show_name(&file.id))).max().unwrap_or(0).max("ID".len());
    if !found.is_empty() {
        print_header(&format!("  {:<width$}  {:<8}  FILE", "ID", "FORMAT"));
    }
    for file in &found {
        let mark =
            if file.source.is_refused() { paint_text(Style::Bad, "✗") } else { paint_text(Style::Good, "✓") };
        let format = file.source.compiled.format.as_ref().map_or("", flowloom_core::plan::Format::name);
        let id = pad_columns(&show_name(&file.id), width);
        print_wrapped(&format!("{mark} {id}  {format:<8}  {}", show_path(&file.file)), 4);
    }
    if found.iter().any(|file| file.source.is_refused()) {
        eprintln!("✗ has errors; to see them: flowloom check {}", quote_argument(folder));
    }
    Ok(0)
}

fn to_json(file: &FoundFile) -> serde_json::Value {
    let compiled = &file.source.compiled;
    json!({
        "id": file.id,
        "name": compiled.plan.as_ref().map(|plan| &plan.name),
        "format": compiled.format.as_ref().map(flowloom_core::plan::Format::name),
        "file": file.file,
        "errors": compiled.diagnostics.iter().filter(|problem| problem.is_error()).count(),
    })
}
