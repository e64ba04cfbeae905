//! Every command has a group, examples that parse, and a help text that fits a terminal.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Command, FromArgMatches as _};

use super::Cli;
use super::help::build_command;
use super::listing::{GROUPS, find_examples};

/// Width that every help text fits.
const MAX_HELP_COLUMNS: usize = 80;

/// Every command and subcommand with its path, such as `blocks list`; the path of the program itself is empty. The
/// commands named `help`, which clap adds, are left out.
pub(super) fn list_commands() -> Vec<(String, Command)> {
    let mut root = build_command();
    root.build();
    let mut commands = Vec::new();
    collect_commands(&root, "", &mut commands);
    commands
}

fn collect_commands(command: &Command, path: &str, commands: &mut Vec<(String, Command)>) {
    commands.push((path.to_owned(), command.clone()));
    for subcommand in command.get_subcommands() {
        let path = format!("{path} {}", subcommand.get_name());
        collect_commands(subcommand, path.trim_start(), commands);
    }
}

#[test]
fn every_command_is_in_one_group() {
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
    grouped.sort_unstable();
    let root = build_command();
    let mut declared: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
    declared.sort_unstable();
    assert_eq!(grouped, declared);
}

#[test]
fn every_command_has_examples() {
    for (path, _) in list_commands().iter().filter(|(path, _)| !path.is_empty()) {
        let examples = find_examples(path).unwrap_or_else(|| panic!("`{path}` has no examples"));
        for example in examples {
            assert!(example.starts_with(&format!("flowloom {path}")), "{example:?} is not an example of `{path}`");
            check_example(example);
        }
    }
}

/// Parses an example as the program would. A redirection of its output belongs to the shell.
fn check_example(example: &str) {
    let words = shlex::split(example).unwrap_or_else(|| panic!("a quote is not closed: {example}"));
    let words: Vec<String> = words.into_iter().take_while(|word| word != ">").collect();
    let parsed = build_command().try_get_matches_from(&words).and_then(|matches| Cli::from_arg_matches(&matches));
    assert!(parsed.is_ok(), "{example}\n{}", parsed.unwrap_err());
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in words.iter().filter(|word| word.starts_with("examples/")) {
        assert!(repository.join(file).exists(), "{file} does not exist: {example}");
    }
}

#[test]
fn every_help_text_is_under_snapshot() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(&folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut names = BTreeSet::new();
    for (path, _) in list_commands() {
        let help = render_help(&path);
        for line in help.lines() {
            assert!(line.chars().count() <= MAX_HELP_COLUMNS, "a line of the help of `{path}` is too long: {line}");
        }
        let name = format!("flowloom {path}").trim_end().replace(' ', "-");
        settings.bind(|| insta::assert_snapshot!(name.as_str(), help));
        names.insert(format!("{name}.snap"));
    }
    let files = std::fs::read_dir(folder).expect("the folder of the snapshots").flatten();
    let files: BTreeSet<String> = files
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".snap"))
        .collect();
    assert_eq!(files, names, "a snapshot belongs to no command");
}

/// The output of `flowloom COMMAND --help`.
fn render_help(path: &str) -> String {
    let words = ["flowloom"].into_iter().chain(path.split_whitespace()).chain(["--help"]);
    let command = build_command().term_width(MAX_HELP_COLUMNS);
    command.try_get_matches_from(words).expect_err("help is reported as an error").to_string()
}
