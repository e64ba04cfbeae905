//! The help texts that clap does not generate, from the groups and examples in `listing`.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory as _};

use super::exit_codes::find_exit_codes;
use super::listing::{GROUPS, find_examples};
use super::{Cli, MAX_HELP_COLUMNS};
use crate::hint::quote_text;
use crate::terminal::width::{stdout_columns, wrap_hanging};

/// The last lines of `flowloom --help`.
const EPILOGUE: &str = "For the options and examples of a command: flowloom COMMAND --help";

/// The command line, with its complete help texts.
pub(crate) fn build_command() -> Command {
    let command = Cli::command();
    let template = render_template(&command);
    add_examples(command, "").help_template(template).after_help(EPILOGUE)
}

/// The template of `flowloom --help`. clap lists all subcommands under one heading, so the groups are part of the
/// template.
fn render_template(command: &Command) -> StyledStr {
    let names = GROUPS.iter().flat_map(|group| group.commands);
    let width = names.map(|name| name.len()).max().unwrap_or_default();
    let mut groups = String::new();
    for group in &GROUPS {
        groups += &render_heading(command, group.title);
        for name in group.commands {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(StyledStr::to_string).unwrap_or_default();
            let literal = command.get_styles().get_literal();
            let line = format!("  {literal}{name:<width$}{literal:#}  {}\n", wrap_about(&about, width + 4));
            groups += &line;
        }
        groups.push('\n');
    }
    let options = render_heading(command, "Options");
    format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{options}{{options}}{{after-help}}").into()
}

/// The description of a command within the terminal, with further lines in column `indent`.
fn wrap_about(about: &str, indent: usize) -> String {
    let columns = stdout_columns().unwrap_or(MAX_HELP_COLUMNS).min(MAX_HELP_COLUMNS);
    wrap_hanging(&format!("{}{about}", " ".repeat(indent)), columns, indent).trim_start().to_owned()
}

fn render_heading(command: &Command, title: &str) -> String {
    let header = command.get_styles().get_header();
    format!("{header}{title}:{header:#}\n")
}

/// Appends the examples and the exit codes of a command and of its subcommands to their help. `path` names the command,
/// such as `blocks list`.
fn add_examples(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|subcommand| {
        let path = format!("{path} {}", subcommand.get_name());
        add_examples(subcommand, path.trim_start())
    });
    let Some(examples) = find_examples(path) else { return command };
    let mut text = format!("{}  {}", render_heading(&command, "Examples"), examples.join("\n  "));
    if let Some(codes) = find_exit_codes(path) {
        text += &format!("\n\n{}", render_heading(&command, "Exit codes"));
        let lines = codes.map(|row| format!("  {:<3}  {}", row.code, row.meaning));
        text += &lines.collect::<Vec<_>>().join("\n");
    }
    command.after_help(text)
}

/// The help of the command that `words` name, or the error that there is no such command.
pub(crate) fn find_help(words: &[String]) -> clap::Error {
    let line = ["flowloom"].into_iter().chain(words.iter().map(String::as_str)).chain(["--help"]);
    let mut command = build_command();
    match command.try_get_matches_from_mut(line) {
        Err(help) => help,
        Ok(_) => command.error(clap::error::ErrorKind::DisplayHelp, ""),
    }
}

/// How an input is given, if an argument that a command does not have looks like one: `topic=x` or `--topic`.
pub(crate) fn hint_at_input(error: &clap::Error) -> Option<String> {
    let command = std::env::args().nth(1)?;
    let is_unknown = error.kind() == clap::error::ErrorKind::UnknownArgument;
    // A misspelt option is no input.
    if !is_unknown || error.get(ContextKind::SuggestedArg).is_some() || !INPUT_COMMANDS.contains(&command.as_str()) {
        return None;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = argument.strip_prefix("--").unwrap_or(argument);
    match name.split_once('=') {
        _ if name.starts_with('-') => None,
        Some((name, value)) => Some(format!("an input is given with -i {name}={}", quote_text(value))),
        None if argument.starts_with("--") => Some(format!("an input is given with -i {name}=VALUE")),
        None => None,
    }
}

/// The commands that take inputs with `-i`.
const INPUT_COMMANDS: [&str; 3] = ["run", "plan", "dev"];

/// The problem with the command line, in one line.
pub(crate) fn describe_error(error: &clap::Error) -> String {
    let text = error.to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a subcommand is missing; --help lists them".to_owned();
    }
    // Usage and advice follow.
    let lines = text.trim().trim_start_matches("error: ").lines().map(str::trim);
    lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
