//! `flowloom fmt [PATH…]`: writes definitions in the canonical layout of their format.

use std::path::{Path, PathBuf};

use flowloom_app::config::Config;
use flowloom_app::config::project::ProjectTarget;
use flowloom_app::definitions::folder::list_part_files;
use flowloom_app::definitions::reader::read_bounded_text;
use flowloom_app::definitions::source::{self, LoadedDefinition, Loader, STDIN_PATH};
use flowloom_app::folders::name_folder;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::Diagnostic;
use flowloom_formats::{format_part, format_source};
use serde_json::json;

use super::check::{NamedDefinitions, load_definitions};
use crate::cli::{FmtArgs, Global};
use crate::failure::{CommandError, CommandResult};
use crate::line_diff::write_diff;
use crate::print::show_name;
use crate::replace_file::replace_file;
use crate::terminal::diagnostics;

/// Exit code if `--check` or `--diff` finds a file that is not formatted.
const UNFORMATTED_EXIT: u8 = 1;

/// The files of a command, by the result for each.
#[derive(Default)]
struct Summary {
    changed: Vec<String>,
    unchanged: usize,
    refused: Vec<String>,
}

pub(crate) fn format_definitions(global: &Global, arguments: FmtArgs) -> CommandResult {
    let format = source::parse_format(arguments.format.as_deref())?;
    let mut summary = Summary::default();
    for path in &arguments.paths {
        let target = ProjectTarget::Definition(path.clone());
        let config: Config = global.load_config_for(Some(&target))?;
        let loader = Loader { format, stdin_path: arguments.stdin_filename.as_deref(), ..Loader::new(&config) };
        let parts = find_parts(path, &config);
        let sources = match load_definitions(path, &loader) {
            // A folder of blocks has no workflows.
            Err(_) if !parts.is_empty() => NamedDefinitions::default(),
            loaded => loaded?,
        };
        for source in sources.definitions.into_iter().chain(sources.included) {
            format_definition(global, &arguments, path, source, &mut summary)?;
        }
        for part in parts {
            format_definition(global, &arguments, &part, loader.compile(&part), &mut summary)?;
        }
    }
    if global.json {
        let value = json!({"changed": summary.changed, "unchanged": summary.unchanged, "refused": summary.refused});
        println!("{value:#}");
    }
    Ok(match (summary.refused.is_empty(), summary.changed.is_empty()) {
        (false, _) => 2,
        (true, false) if arguments.check || arguments.diff => UNFORMATTED_EXIT,
        (true, _) => 0,
    })
}

/// The files of a folder that are parts of definitions: blocks, and records of agents.
fn find_parts(folder: &Path, config: &Config) -> Vec<PathBuf> {
    let is_part = |file: &PathBuf| {
        let text = read_bounded_text(file, config.limits.source_bytes);
        text.is_ok_and(|text| format_part(&file.display().to_string(), &text).is_some())
    };
    let folder = name_folder(folder.strip_prefix(".").unwrap_or(folder));
    let files = list_part_files(folder).into_iter();
    files.map(|file| file.strip_prefix(".").map(Path::to_owned).unwrap_or(file)).filter(is_part).collect()
}

fn format_definition(
    global: &Global,
    arguments: &FmtArgs,
    path: &Path,
    mut source: LoadedDefinition,
    summary: &mut Summary,
) -> Result<(), CommandError> {
    let name = source.name().to_owned();
    let shown_name = show_name(&name);
    let is_stdin = path == Path::new(STDIN_PATH);
    let text = std::str::from_utf8(source.bytes());
    let part = text.ok().and_then(|text| Some((text.to_owned(), format_part(&name, text)?)));
    let laid_out = match (part, source.compiled.format, text) {
        (Some(part), ..) => Ok(part),
        (None, Some(format), Ok(text)) => {
            format_source(format, &name, text).map(|laid_out| (text.to_owned(), laid_out))
        }
        // The file cannot be read, or is in no known format; its problems say so.
        _ => Err(source.compiled.diagnostics.clone()),
    };
    let (text, laid_out) = match laid_out {
        Ok(both) => both,
        Err(problems) => {
            source.compiled.diagnostics = problems.into_iter().filter(Diagnostic::is_error).collect();
            diagnostics::print_diagnostics(&source);
            let has_problem = |code| source.compiled.diagnostics.iter().any(|problem| problem.code == code);
            let why = match () {
                () if has_problem(Code::Unreadable) => "cannot be read",
                () if has_problem(Code::UnknownFormat) => "is in no known format",
                () => "does not parse",
            };
            eprintln!("{shown_name}: not formatted, because it {why}");
            summary.refused.push(name);
            return Ok(());
        }
    };
    let is_changed = text != laid_out;
    if arguments.diff && is_changed && !global.json {
        print!("{}", write_diff(&shown_name, &text, &laid_out));
    } else if arguments.check && is_changed && !global.json {
        println!("{shown_name}");
    } else if is_stdin && !arguments.check && !arguments.diff && !global.json {
        print!("{laid_out}");
    } else if is_changed && !arguments.check && !arguments.diff && !is_stdin {
        replace_file(Path::new(&name), &laid_out)?;
        eprintln!("{shown_name}: formatted");
    }
    match is_changed {
        true => summary.changed.push(name),
        false => summary.unchanged += 1,
    }
    Ok(())
}
