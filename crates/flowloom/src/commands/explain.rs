//! `flowloom explain`, `schema` and `man`: commands that need neither a run nor a database.

use std::path::Path;

use flowloom_app::error_pages;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::find_similar_name;
use flowloom_formats::markdown;

use super::results::print_json;
use crate::cli::{self, Global};
use crate::failure::{CommandError, CommandResult};
use crate::style::{Style, paint_text};
use crate::terminal::width::{stdout_columns, wrap_page};

/// Writes the man pages of all commands.
pub(crate) fn write_man_pages(global: &Global, folder: &Path) -> CommandResult {
    let failed = |error| CommandError::usage(format!("{} cannot be written: {error}", folder.display()));
    let count = cli::write_man_pages(folder).map_err(failed)?;
    let text = format!("{count} pages in {}", folder.display());
    super::results::print_result(global, serde_json::json!({"folder": folder, "pages": count}), &text);
    Ok(0)
}

/// Prints a completion script.
pub(crate) fn print_completions(global: &Global, shell: clap_complete::Shell) -> CommandResult {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::build_command(), "flowloom", &mut script);
    let script = String::from_utf8_lossy(&script);
    match global.json {
        true => print_json(&serde_json::json!({"shell": shell.to_string(), "script": script})),
        false => print!("{script}"),
    }
    Ok(0)
}

/// Prints the help of the command that `words` name, such as `blocks list`; of the program if there are none.
pub(crate) fn print_help(global: &Global, words: &[String]) -> CommandResult {
    let help = cli::find_help(words);
    if !global.json {
        // clap prints help to stdout, and a wrong command to stderr.
        let _ = help.print();
    } else if help.use_stderr() {
        return Err(CommandError::usage(cli::describe_error(&help)));
    } else {
        print_json(&serde_json::json!({"help": help.to_string()}));
    }
    Ok(if help.use_stderr() { 2 } else { 0 })
}

pub(crate) fn explain_code(global: &Global, text: &str) -> CommandResult {
    if text == "prompt" {
        return Ok(print_prompt(global));
    }
    let Some(code) = Code::parse(text) else {
        let known: Vec<String> = Code::ALL.iter().map(Code::to_string).collect();
        let meant = find_similar_name(text, known.iter().map(String::as_str));
        let advice = meant.map_or_else(
            || "codes look like FL0105, and are printed in brackets: error[FL0105]".to_owned(),
            |meant| format!("did you mean {meant}?"),
        );
        return Err(CommandError::usage(format!("there is no code {text:?}; {advice}")));
    };
    let page = error_pages::find_page(code);
    if global.json {
        print_json(&serde_json::json!({"code": code, "title": code.title(), "page": page}));
        return Ok(0);
    }
    match page {
        Some(page) => match stdout_columns() {
            Some(columns) => println!("{}", paint_headings(&wrap_page(page, columns))),
            None => print!("{}", paint_headings(page)),
        },
        None => println!("{code}: {}", code.title()),
    }
    Ok(0)
}

/// A page with its headings in the style of headings.
fn paint_headings(page: &str) -> String {
    let mut is_code = false;
    let mut paint = |line: &str| {
        is_code ^= line.starts_with("```");
        let text = line.trim_end_matches('\n');
        match !is_code && line.starts_with('#') {
            true => paint_text(Style::Heading, text) + &line[text.len()..],
            false => line.to_owned(),
        }
    };
    page.split_inclusive('\n').map(&mut paint).collect()
}

/// Prints the system prompt of Markdown workflows.
fn print_prompt(global: &Global) -> u8 {
    match global.json {
        true => print_json(&serde_json::json!({"prompt": markdown::DEFAULT_SYSTEM_PROMPT})),
        false => println!("{}", markdown::DEFAULT_SYSTEM_PROMPT),
    }
    0
}

pub(crate) fn print_schema(name: &str) -> CommandResult {
    match flowloom_formats::find_format(name).and_then(flowloom_formats::format_schema) {
        Some(text) => {
            print!("{text}");
            Ok(0)
        }
        None => {
            let names: Vec<_> = flowloom_formats::formats().map(|format| format.to_string()).collect();
            Err(CommandError::usage(format!("no schema for {name:?}; expected one of {}", names.join(", "))))
        }
    }
}
