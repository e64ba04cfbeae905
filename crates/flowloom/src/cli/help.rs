//! The help texts that clap does not generate, from the groups and examples in `listing`.

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _};

use super::Cli;
use super::exit_codes::find_exit_codes;
use super::listing::{GROUPS, find_examples};

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
            groups += &format!("  {literal}{name:<width$}{literal:#}  {about}\n");
        }
        groups.push('\n');
    }
    let options = render_heading(command, "Options");
    format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{options}{{options}}{{after-help}}").into()
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
        let lines = codes.iter().map(|row| format!("  {:<3}  {}", row.code, row.meaning));
        text += &lines.collect::<Vec<_>>().join("\n");
    }
    command.after_help(text)
}

/// Prints the help of the command that `words` name, such as `blocks list`; of the program if there are none. Returns the
/// exit code: 2 if there is no such command.
pub(crate) fn print_help(words: &[String]) -> u8 {
    let line = ["flowloom"].into_iter().chain(words.iter().map(String::as_str)).chain(["--help"]);
    let Err(help) = build_command().try_get_matches_from(line) else { return 0 };
    // clap prints help to stdout, and a wrong command to stderr.
    let _ = help.print();
    if help.use_stderr() { 2 } else { 0 }
}
