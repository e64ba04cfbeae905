//! Whether a rename changes only a name: the changed texts must compile to the same plan, with the new name in the place of the
//! old one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use flowloom_core::diagnostic::Diagnostic;
use flowloom_core::plan::Plan;

use super::check::Checked;
use super::features::Opened;
use crate::analysis::names::Name;
use crate::analysis::rename::Replacement;

/// Before the key of an object in an expression.
const KEY_MARK: &str = "Pair(Literal(String(\"";

/// Before a number or a text that follows from a place in the source or from a name.
const PLACE_MARKS: [&str; 5] = ["start: ", "length: ", "Key(\"", "slot: \"", "at: \""];

/// Fails if the definition means something else after the replacements.
pub(super) fn check_meaning(
    opened: &Opened<'_>,
    name: &Name,
    new: &str,
    replacements: &[Replacement],
) -> Result<(), String> {
    let main = Path::new(&opened.definition.main().path);
    let entry = opened.snapshot.documents.find_by_path(main);
    let Some(mut job) = entry.and_then(|entry| opened.snapshot.new_check(&entry.uri)) else { return Ok(()) };
    let before = job.check();
    for (file, text) in replace_texts(opened, replacements) {
        let (path, text): (_, Arc<str>) = (Path::new(&file).to_owned(), text.into());
        Arc::make_mut(&mut job.open_files).insert(path.clone(), text.clone());
        if path == job.document.path {
            job.document.text = text;
        }
    }
    let after = job.check();
    if let Some(problem) = find_new_problem(&before, &after) {
        return Err(format!("{} cannot be called {new} here: {problem}", name.text));
    }
    match (&before.plan, &after.plan) {
        (Some(old_plan), Some(new_plan)) if !is_renamed(old_plan, new_plan, &name.text, new) => {
            let reason = "the definition would do something else, because this name means something of its own";
            Err(format!("{} cannot be called {new} here: {reason}", name.text))
        }
        _ => Ok(()),
    }
}

/// The texts of the changed files.
fn replace_texts(opened: &Opened<'_>, replacements: &[Replacement]) -> BTreeMap<String, String> {
    let mut ordered: Vec<&Replacement> = replacements.iter().collect();
    ordered.sort_by_key(|replacement| std::cmp::Reverse(replacement.span.start));
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for replacement in ordered {
        let Some(file) = opened.definition.find_file(&replacement.file) else { continue };
        let text = texts.entry(replacement.file.clone()).or_insert_with(|| file.index.text.to_string());
        text.replace_range(replacement.span.start..replacement.span.end(), &replacement.text);
    }
    texts
}

/// The first error or warning of a kind that a check finds more often than before. A reference that lost its variable is a
/// warning in some formats.
fn find_new_problem<'c>(before: &'c Checked, after: &'c Checked) -> Option<&'c str> {
    let (old, new) = (&before.diagnostics, &after.diagnostics);
    let count = |problems: &[Diagnostic], code| problems.iter().filter(|problem| problem.code == code).count();
    let added = new.iter().find(|problem| count(new, problem.code) > count(old, problem.code))?;
    let mut same = new.iter().filter(|problem| problem.code == added.code);
    let is_known = |problem: &&Diagnostic| old.iter().any(|one| one.message == problem.message);
    Some(&same.find(|problem| !is_known(problem)).unwrap_or(added).message)
}

/// Whether two plans differ only in a name.
fn is_renamed(before: &Plan, after: &Plan, old: &str, new: &str) -> bool {
    let (before, after) = (describe_plan(before), describe_plan(after));
    is_same_but(&before, &after, &write_inside_quotes(old), &write_inside_quotes(new))
}

/// A name as a description of a plan has it.
fn write_inside_quotes(name: &str) -> String {
    format!("{name:?}").trim_matches('"').to_owned()
}

/// A plan as text, without places in the source, without keys of steps, which follow from names, and without the slots of
/// expressions, which follow from places.
fn describe_plan(plan: &Plan) -> String {
    let whole = format!("{plan:?}");
    let mut described = String::with_capacity(whole.len());
    let mut rest = whole.as_str();
    // Every mark ends with one of these.
    while let Some(at) = rest.find([' ', '"']) {
        let (before, after) = rest.split_at(at + 1);
        described.push_str(before);
        rest = match PLACE_MARKS.iter().find(|mark| described.ends_with(*mark)) {
            Some(mark) if mark.ends_with('"') => after.find('"').map_or("", |end| &after[end..]),
            Some(_) => after.trim_start_matches(|c: char| c.is_ascii_digit()),
            None => after,
        };
    }
    described.push_str(rest);
    described
}

/// Whether two texts are the same, except that some of the words `old` of the first one are `new` in the second one. The keys
/// of objects keep their names.
fn is_same_but(before: &str, after: &str, old: &str, new: &str) -> bool {
    let (mut first, mut second) = (before, after);
    let mut is_in_word = false;
    let pair = format!("{old}: ");
    loop {
        let renamed = || Some((strip_word(first, old)?, strip_word(second, new)?));
        // In a script, `{ old }` has become `{ old: new }`.
        let expanded = || Some((strip_word(first, old)?, strip_word(second.strip_prefix(&pair)?, new)?));
        let is_key = || before[..before.len() - first.len()].ends_with(KEY_MARK);
        let found = expanded().or_else(|| renamed().filter(|_| !is_key()));
        if let Some((first_rest, second_rest)) = found.filter(|_| !is_in_word) {
            (first, second, is_in_word) = (first_rest, second_rest, true);
            continue;
        }
        match (first.chars().next(), second.chars().next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a == b => {
                (first, second, is_in_word) = (&first[a.len_utf8()..], &second[b.len_utf8()..], is_word_char(a));
            }
            _ => return false,
        }
    }
}

/// The text after a word at its start.
fn strip_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    text.strip_prefix(word).filter(|rest| !rest.starts_with(is_word_char))
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_renamed() {
        let same = |first, second| is_same_but(first, second, "text", "title");
        assert!(same("Ref(text), \"text of texts\"", "Ref(title), \"text of texts\""));
        assert!(!same("Ref(text)", "Secret(title)"));
        assert!(!same("Ref(texts)", "Ref(titles)"));
        assert!(!same("Ref(text)", "Ref(title), more"));
        assert!(!same(
            "Pair(Literal(String(\"text\")), Name(\"text\"))",
            "Pair(Literal(String(\"title\")), Name(\"title\"))"
        ));
        assert!(same(
            "Pair(Literal(String(\"text\")), Name(\"text\"))",
            "Pair(Literal(String(\"text\")), Name(\"title\"))"
        ));
        assert!(same("() => ({text})", "() => ({text: title})") && !same("() => ({text})", "() => ({text: texts})"));
        assert!(is_same_but("(order status)", "(status)", "order status", "status"));
    }
}
