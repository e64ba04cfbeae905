//! `flowloom convert FILE --to FORMAT`: writes a definition in another format, and reports what became of each part.

use std::path::Path;

use flowloom_app::definitions::convert::{ConversionOptions, ConvertedDefinition, convert_loaded};
use flowloom_app::definitions::find::find_definition;
use flowloom_app::definitions::source::{self, LoadedDefinition, Loader};
use flowloom_convert::Fate;
use flowloom_formats::markdown;
use serde_json::json;

use super::results::print_json;
use crate::cli::{ConvertArgs, Global};
use crate::failure::{CommandError, CommandResult};
use crate::replace_file::{check_new_file, replace_file};
use crate::terminal::diagnostics;
use crate::terminal::report::clean_line;

/// Exit code if nothing was written, because of losses.
const REFUSED_EXIT: u8 = 1;

pub(crate) fn convert_file(global: &Global, arguments: &ConvertArgs) -> CommandResult {
    let format = source::parse_format(arguments.format.as_deref())?;
    let Some(to) = source::parse_format(Some(&arguments.to))? else {
        return Err(CommandError::usage("name the format of the result with --to"));
    };
    if let Some(out) = &arguments.out {
        check_extension(out, to == markdown::FORMAT)?;
    }
    let config = global.load_config()?;
    let file = find_definition(&config, &arguments.file)?;
    let loader = Loader { format, ..Loader::new(&config) };
    let loaded = loader.compile(&file);
    let is_jsonc = arguments.out.as_ref().is_some_and(|out| out.extension().is_some_and(|end| end == "jsonc"));
    let options =
        ConversionOptions { to, is_strict: arguments.strict, has_comments: is_jsonc || to == markdown::FORMAT };
    let converted = match convert_loaded(loaded, options, &loader) {
        Ok(converted) => converted,
        Err(invalid) => {
            let message = format!("{} has errors, so it cannot be converted", invalid.name());
            return Err(CommandError::report_invalid_definition(&invalid, message));
        }
    };
    if let (Some(out), Some(text)) = (&arguments.out, &converted.text) {
        reject_own_source(&converted.source, out)?;
        check_new_file(out, arguments.force)?;
        replace_file(out, text)?;
    }
    match global.json {
        true => print_json(&describe_conversion(&converted, arguments)),
        false => print_conversion(&converted, arguments),
    }
    Ok(if converted.is_refused { REFUSED_EXIT } else { 0 })
}

/// Fails if no command could read the result under this name.
fn check_extension(out: &Path, is_markdown: bool) -> Result<(), CommandError> {
    let end = out.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let fits = |ends: [&str; 2]| ends.contains(&end.as_str());
    let wanted = match is_markdown {
        true if !fits(["mdx", "md"]) => "mdx",
        false if fits(["mdx", "md"]) || fits(["yaml", "yml"]) => "json",
        _ => return Ok(()),
    };
    let name = out.with_extension(wanted);
    let message = format!("{} would not be read as the result; name it {}", out.display(), name.display());
    Err(CommandError::usage(message))
}

/// Fails if the result would replace a file of the definition: losses of the conversion would be irreversible.
fn reject_own_source(source: &LoadedDefinition, out: &Path) -> Result<(), CommandError> {
    let Ok(out) = out.canonicalize() else { return Ok(()) };
    let is_out = |file: &String| Path::new(file).canonicalize().is_ok_and(|file| file == out);
    match source.files().keys().any(is_out) {
        true => Err(CommandError::usage(format!("{} is a file of the definition; name another one", out.display()))),
        false => Ok(()),
    }
}

fn describe_conversion(converted: &ConvertedDefinition, arguments: &ConvertArgs) -> serde_json::Value {
    json!({
        "file": converted.source.name(),
        "format": converted.source.compiled.format.map(|format| format.to_string()),
        "to": arguments.to,
        "text": converted.text,
        "kept": converted.count(Fate::Kept),
        "differently": converted.count(Fate::Differently),
        "lost": converted.count(Fate::Lost),
        "kept_by_kind": converted.count_kept_by_kind(),
        "omitted": converted.count_omitted(),
        "findings": converted.describe_findings(),
    })
}

fn print_conversion(converted: &ConvertedDefinition, arguments: &ConvertArgs) {
    diagnostics::print_diagnostics(&converted.source);
    let format = converted.source.compiled.format.map(|format| format.to_string()).unwrap_or_default();
    let kept = if arguments.verbose { converted.list_kept() } else { Vec::new() };
    for (place, construct) in kept {
        eprintln!("kept: {}  {}:{place}", clean_line(construct), converted.source.name());
    }
    eprintln!("{} ({format}) to {}: {}", converted.source.name(), arguments.to, converted.summarize());
    match (&converted.text, &arguments.out) {
        (Some(text), None) => print!("{text}"),
        (Some(_), Some(out)) => eprintln!("{} written", out.display()),
        (None, _) => eprintln!("nothing was written"),
    }
}
