//! Names: the terms of docs/glossary.md, and functions that say a verb and an object.
#![expect(clippy::print_stdout, reason = "the figures are printed")]

use std::collections::BTreeMap;

use structure::files::{list_files, read_text, relative_path};
use structure::source::{blank_text, declared_names, read_product_files};

/// Share of the functions that may have a name of one word, in percent.
const MAX_ONE_WORD_PERCENT: usize = 45;

/// Words that the glossary has replaced, each with the term to use.
const OLD_TERMS: [(&str, &str); 22] = [
    ("begun", "started"),
    ("doer", "node events"),
    ("fruitless", "failed claims"),
    ("goes on", "continue or resume"),
    ("heard", "subscription or received"),
    ("hears", "receives"),
    ("holder", "user"),
    ("keepers", "tasks"),
    ("likeness", "similarity"),
    ("mended", "repaired"),
    ("patience", "timeout"),
    ("purse", "allowance"),
    ("rehearsal", "dry run"),
    ("rehearse", "dry run"),
    ("rehearser", "dry runner"),
    ("spoken", "answer source"),
    ("stand in", "mock"),
    ("take up", "recovery"),
    ("takeup", "recovery"),
    ("told", "progress, reported or sent"),
    ("wish", "signal or goal"),
    ("wishes", "signals or goals"),
];

/// Texts that are public or stored: folder and extension. The migrations of the database name what they rename.
const PUBLIC_TEXTS: [(&str, &str); 3] =
    [("crates/flowloom/tests/help", "snap"), ("crates/flowloom/tests/api", "snap"), ("crates/store/src", "rs")];

/// The words of an identifier in snake case or in camel case, in lower case.
fn split_words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut follows_lower = false;
    for character in identifier.chars() {
        if character == '_' || (character.is_uppercase() && follows_lower) {
            words.push(String::new());
        }
        if character != '_' {
            words.last_mut().expect("at least one").extend(character.to_lowercase());
        }
        follows_lower = character.is_lowercase() || character.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The replaced term in these words, and what to use instead.
fn find_old_term(words: &[String]) -> Option<(&'static str, &'static str)> {
    let text = format!(" {} ", words.join(" "));
    OLD_TERMS.into_iter().find(|(old, _)| text.contains(&format!(" {old} ")))
}

/// The identifiers and plain words of a text.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with(|c: char| !c.is_ascii_digit()))
}

#[test]
fn declarations_use_the_terms_of_the_glossary() {
    let mut problems = BTreeMap::new();
    for folder in ["crates", "tests", "bench"] {
        for file in list_files(folder, "rs") {
            let path = relative_path(&file);
            let code = blank_text(&read_text(&file));
            for identifier in identifiers(&code) {
                if let Some((old, new)) = find_old_term(&split_words(identifier)) {
                    problems.insert(format!("{path}: {identifier}"), format!("instead of {old:?}, say {new}"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn help_routes_and_statements_use_the_terms_of_the_glossary() {
    let mut problems = Vec::new();
    for (folder, extension) in PUBLIC_TEXTS {
        for file in list_files(folder, extension) {
            for line in read_text(&file).lines() {
                let words: Vec<String> = identifiers(line).flat_map(split_words).collect();
                if let Some((old, new)) = find_old_term(&words) {
                    problems.push(format!("{}: instead of {old:?}, say {new}: {line}", relative_path(&file)));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn functions_say_a_verb_and_an_object() {
    let files = read_product_files(&["crates"]);
    let count = |keyword: &str| {
        let names = files.iter().flat_map(|file| declared_names(&file.code, &[keyword]));
        let (one_word, all) =
            names.fold((0, 0), |(one_word, all), name| (one_word + usize::from(split_words(name).len() == 1), all + 1));
        println!("{all} {keyword}, {one_word} of one word ({} %)", one_word * 100 / all);
        one_word * 100 / all
    };
    count("const");
    assert!(
        count("fn") <= MAX_ONE_WORD_PERCENT,
        "too many functions have a name of one word; say a verb and an object"
    );
}

#[test]
fn words_are_found_in_every_form() {
    let words = |identifier| split_words(identifier).join(" ");
    assert_eq!(words("goes_on_later"), "goes on later");
    assert_eq!(words("HttpReplyV2"), "http reply v2");
    assert_eq!(words("MAX_BYTES"), "max bytes");
    assert!(find_old_term(&split_words("TakeUpTask")).is_some() && find_old_term(&split_words("untold")).is_none());
}
