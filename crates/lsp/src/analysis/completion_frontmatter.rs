//! Completion in the frontmatter of a Markdown workflow: keys and their values.

use std::collections::HashSet;
use std::ops::Range;

use flowloom_core::diagnostic::Span;
use flowloom_formats::markdown;

use super::completion::{Proposal, ProposalKind};
use super::json_place::{JsonPath, PathStep};
use super::schema::FormatSchema;
use super::yaml::{find_yaml_keys, find_yaml_path};

/// The texts that can take the place of `word` in the frontmatter, whose lines are `range`.
pub(super) fn list_frontmatter(text: &str, range: Range<usize>, word: Span) -> Vec<Proposal> {
    let line_start = text[..word.end()].rfind('\n').map_or(0, |at| at + 1);
    let line = &text[line_start..word.end()];
    if let Some((key, value)) = line.rsplit_once(':')
        && value.trim().chars().all(char::is_alphanumeric)
    {
        let values = list_values(key.rsplit(['{', ',', ' ']).next().unwrap_or_default());
        return values.iter().map(|value| Proposal::new(value, ProposalKind::Value, word)).collect();
    }
    list_keys(text, range, word)
}

fn list_values(key: &str) -> &'static [&'static str] {
    match key {
        "type" => &["text", "select", "file", "array"],
        "format" => &["number", "boolean"],
        "fileType" => &["text", "image"],
        "required" | "multiline" => &["true", "false"],
        "system" => &["none"],
        _ => &[],
    }
}

/// Keys that the format has at this place and that are not there yet; in a constant, those that other items of its list have.
fn list_keys(text: &str, range: Range<usize>, word: Span) -> Vec<Proposal> {
    let path = find_yaml_path(text, range.clone(), word.start);
    let keys = find_yaml_keys(text, range);
    let others = keys.iter().filter(|key| key.span != word);
    let inside = others.filter(|key| key.path.split_last().is_some_and(|(_, around)| around == path));
    let own: Vec<&str> = inside.filter_map(|key| key.path.last()).map(String::as_str).collect();
    let propose = |name: &str, meaning: &str| Proposal {
        meaning: meaning.to_owned(),
        insert: format!("{name}: "),
        ..Proposal::new(name, ProposalKind::Key, word)
    };
    if path.first().is_some_and(|section| section == "data") {
        let mut seen = HashSet::new();
        let names = own.into_iter().filter(|name| path.len() > 1 && seen.insert(*name));
        return names.map(|name| propose(name, "")).collect();
    }
    let Some(schema) = FormatSchema::new(markdown::FORMAT) else { return Vec::new() };
    let steps: JsonPath = path.into_iter().map(PathStep::Key).collect();
    let keys = schema.list_keys(None, &steps).into_iter().filter(|key| !own.contains(&key.name));
    keys.map(|key| propose(key.name, schema.describe(key.value).unwrap_or_default())).collect()
}
