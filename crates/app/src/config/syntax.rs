//! Messages about a configuration file that cannot be read: invalid TOML, and settings that do not exist.

use std::ops::Range;

use flowloom_core::diagnostic::{Position, find_position, find_similar_name};
use serde::de::DeserializeOwned;

use super::renamed::RENAMED_SETTINGS;
use crate::type_errors::describe_type_error;

/// Maximum number of possible settings that a message lists.
const MAX_LISTED_SETTINGS: usize = 8;

/// Maximum number of problems that are listed.
const MAX_PROBLEMS: usize = 20;

/// A problem of a configuration file.
#[derive(Debug)]
pub struct FileProblem {
    /// The place.
    pub position: Position,
    /// The problem and the line. It contains no database URL.
    pub message: String,
}

/// The problems of a file that cannot be read as `T`, with their lines. Nothing after a syntax error is reported.
pub(super) fn list_problems<T: DeserializeOwned>(text: &str) -> Vec<FileProblem> {
    let mut problems = Vec::new();
    let mut rest = text.to_owned();
    while problems.len() < MAX_PROBLEMS
        && let Err(error) = toml::from_str::<T>(&rest)
    {
        let is_syntax_error = rest.parse::<toml::Table>().is_err();
        // A syntax error after another problem comes from the omitted part.
        if problems.is_empty() || !is_syntax_error {
            problems.push(describe_error(text, &error));
        }
        match error.span().filter(|_| !is_syntax_error) {
            Some(span) => rest = leave_out(&rest, &span),
            None => break,
        }
    }
    problems.sort_by_key(|problem| (problem.position.line, problem.position.column));
    problems
}

/// A text without the lines of `span`; of a table without all of its lines. The other lines keep their places.
fn leave_out(text: &str, span: &Range<usize>) -> String {
    let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let is_table = text[start..].trim_start().starts_with('[');
    let end_of = |mark: &str, from: usize| text[from..].find(mark).map_or(text.len(), |at| from + at);
    let end = if is_table { end_of("\n[", span.start) } else { end_of("\n", span.end.max(span.start)) };
    let blank = |c: char| if c == '\n' { c } else { ' ' };
    let left_out: String = text[start..end].chars().map(blank).collect();
    format!("{}{left_out}{}", &text[..start], &text[end..])
}

fn describe_error(text: &str, error: &toml::de::Error) -> FileProblem {
    let message = error.message();
    let message = describe_unknown_setting(message).unwrap_or_else(|| describe_type_error(message.trim_end()));
    let position = find_position(text, error.span().map_or(0, |span| span.start.min(text.len())));
    let line = text.lines().nth(position.line - 1).unwrap_or_default();
    let message = hide_database_urls(&format!("{message}\n  {} | {line}", position.line));
    FileProblem { position, message }
}

/// An unknown setting with the one that is meant, or with the possible ones if they are few.
fn describe_unknown_setting(message: &str) -> Option<String> {
    let (problem, known) = message.trim_end().strip_prefix("unknown field ")?.split_once(", expected ")?;
    let name = problem.trim_matches('`');
    let known = known.strip_prefix("one of ").unwrap_or(known);
    let known = known.split(", ").flat_map(|known| known.split(" or "));
    let known: Vec<&str> = known.map(|known| known.trim_matches('`')).collect();
    let elsewhere =
        RENAMED_SETTINGS.iter().find(|(table, old, new)| !table.is_empty() && (*old == name || *new == name));
    let help = match find_similar_name(name, known.iter().copied()) {
        None if let Some((table, _, new)) = elsewhere => format!("did you mean `{new}` in [{table}]?"),
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.len() <= MAX_LISTED_SETTINGS => format!("the settings here are {}", known.join(", ")),
        None => "docs/configuration.md describes every setting".to_owned(),
    };
    Some(format!("there is no setting `{name}`; {help}"))
}

/// Hides lines with database URLs: the parser quotes the line where it stopped, which may contain a password.
fn hide_database_urls(message: &str) -> String {
    let shown =
        |line: &str| if line.contains("postgres") { "(database URL hidden)".to_owned() } else { line.to_owned() };
    message.lines().map(shown).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::ConfigFile;
    use super::*;

    fn read_error(text: &str) -> String {
        let FileProblem { position, message } =
            describe_error(text, &toml::from_str::<ConfigFile>(text).expect_err("wrong"));
        format!("{position}: {message}")
    }

    #[test]
    fn unknown_settings_have_a_suggestion_or_a_short_list() {
        for (text, expected) in [
            ("defualt_model = \"x\"", "there is no setting `defualt_model`; did you mean `default_model`?"),
            ("[sandbx]", "there is no setting `sandbx`; did you mean `sandbox`?"),
            ("likeness = 1", "there is no setting `likeness`; did you mean `similarity_threshold` in [embeddings]?"),
            ("zzz = 1", "there is no setting `zzz`; docs/configuration.md describes every setting"),
            ("[agents.a]\ntols = []", "there is no setting `tols`; did you mean `tools`?"),
            ("[models]\nzzz = 1", "there is no setting `zzz`; the settings here are alias, cache_dir, proxy"),
        ] {
            let message = read_error(text);
            let line = text.lines().count();
            assert!(message.contains(&format!(": {expected}\n  {line} | ")), "{message}");
        }
        assert!(read_error("database = postgres://ann:secret@host").contains("(database URL hidden)"));
    }

    #[test]
    fn all_problems_are_listed() {
        let text = "[server]\nbindd = \"x\"\n[sandbx]\na = 1\n[limits]\nsteps = \"many\"\nfoo = 1\n";
        let problems = list_problems::<ConfigFile>(text);
        let places: Vec<String> = problems.iter().map(|problem| problem.position.to_string()).collect();
        assert_eq!(places, ["2:1", "3:2", "6:9", "7:1"], "{problems:?}");
        assert_eq!(list_problems::<ConfigFile>("[limits]\nsteps = \n[sandbx]").len(), 1, "a syntax error is alone");
    }

    #[test]
    fn a_quota_of_the_wrong_kind_is_reported_at_its_value() {
        for (text, place) in [
            ("[quotas]\nusd_per_day = \"5\"", "2:15: "),
            ("[quotas]\n[quotas.users.ann]\n\nusd_per_day = \"5\"", "4:15: "),
        ] {
            assert!(read_error(text).starts_with(place), "{}", read_error(text));
        }
    }
}
