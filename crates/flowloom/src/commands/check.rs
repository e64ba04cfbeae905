//! `flowloom check FILE…`: reports every problem and applies fixes. Never runs anything.

use flowloom_app::definitions::source::{self, LoadedDefinition, Loader};
use flowloom_app::definitions::tool_check::add_tool_warnings;
use flowloom_core::diagnostic::apply_fixes;

use crate::cli::{CheckArgs, Global, ReportStyle};
use crate::failure::{CommandError, CommandResult};
use crate::terminal::diagnostics;

/// Maximum number of rounds of fixes.
const MAX_FIX_ROUNDS: u32 = 10;

pub(crate) fn check_definitions(global: &Global, arguments: CheckArgs) -> CommandResult {
    let config = global.load_config()?;
    let format = source::parse_format(arguments.format.as_deref())?;
    let loader = Loader { format, lenient: arguments.lenient, ..Loader::new(&config) };
    let load = |path: &std::path::PathBuf| loader.compile(path);
    let mut sources: Vec<LoadedDefinition> = arguments.files.iter().map(load).collect();
    if arguments.fix {
        for (path, source) in arguments.files.iter().zip(&mut sources) {
            // A fix can reveal further problems: a block whose type was misspelt was not read before.
            for _ in 0..MAX_FIX_ROUNDS {
                if !apply_source_fixes(path, source)? {
                    break;
                }
                *source = load(path);
            }
        }
    }
    for source in &mut sources {
        add_tool_warnings(&loader, source);
        source.add_secret_warnings(&config, None);
        source.add_injection_warnings(&config);
    }
    let style = if global.json { ReportStyle::Json } else { arguments.report };
    match style {
        ReportStyle::Human => print_report(&sources),
        ReportStyle::Json => println!("{:#}", diagnostics::to_json(&sources)),
        ReportStyle::Github => print!("{}", diagnostics::to_github(&sources)),
        ReportStyle::Sarif => println!("{:#}", diagnostics::to_sarif(&sources)),
    }
    let refused = sources.iter().any(LoadedDefinition::is_refused);
    Ok(if refused { 2 } else { 0 })
}

/// Replaces the file by the fixed one. Returns `false` if there was nothing to fix.
fn apply_source_fixes(path: &std::path::Path, source: &LoadedDefinition) -> Result<bool, CommandError> {
    let Ok(text) = std::str::from_utf8(source.bytes()) else { return Ok(false) };
    let (repaired, count) = apply_fixes(text, &source.compiled.diagnostics);
    if count == 0 {
        return Ok(false);
    }
    // Written to a temporary file and renamed, so that an interruption never leaves half a file.
    let temporary = path.with_extension("flowloom-fix");
    let written = std::fs::write(&temporary, repaired)
        // Whoever could read the definition still can.
        .and_then(|()| std::fs::set_permissions(&temporary, std::fs::metadata(path)?.permissions()))
        .and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| CommandError::usage(format!("{} cannot be written: {error}", path.display())))?;
    eprintln!("{}: {count} fixed", path.display());
    Ok(true)
}

fn print_report(sources: &[LoadedDefinition]) {
    for source in sources {
        diagnostics::print_diagnostics(source);
        let errors = source.compiled.diagnostics.iter().filter(|problem| problem.is_error()).count();
        let omitted = source.compiled.omitted;
        let warnings = source.compiled.diagnostics.len() - errors + omitted.warnings;
        let errors = errors + omitted.errors;
        let verdict = match (errors, warnings) {
            (0, 0) => "ok".to_owned(),
            _ => format!("{}, {}", format_count(errors, "error"), format_count(warnings, "warning")),
        };
        let format = source.compiled.format.map(|format| format!(" ({})", format.name())).unwrap_or_default();
        println!("{}{format}: {verdict}", source.name());
    }
}

fn format_count(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
