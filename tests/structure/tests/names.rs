//! Names: the terms of docs/glossary.md, and functions that say a verb and an object.
#![expect(clippy::print_stdout, reason = "the figures are printed")]

use std::collections::BTreeMap;

use structure::files::{list_files, read_text, relative_path};
use structure::source::{blank_text, declared_names, read_product_files};

/// Share of the functions that may have a name of one word, in percent.
const MAX_ONE_WORD_PERCENT: usize = 45;

/// Words that the glossary has replaced, each with the term to use. No name and no public text has them.
const OLD_TERMS: [(&str, &str); 31] = [
    ("begun", "started"),
    ("complaint", "problem or validation error"),
    ("complaints", "problems or validation errors"),
    ("doer", "node events"),
    ("fruitless", "failed claims"),
    ("goes on", "continue or resume"),
    ("heard", "subscription or received"),
    ("hears", "receives"),
    ("holder", "user"),
    ("keepers", "tasks"),
    ("likeness", "similarity"),
    ("mend", "fix or correct"),
    ("mended", "repaired"),
    ("offered", "available or candidate"),
    ("park", "sleep or suspend"),
    ("parked", "sleeping or suspended"),
    ("patience", "timeout"),
    ("purse", "allowance"),
    ("rehearsal", "dry run"),
    ("rehearse", "dry run"),
    ("rehearser", "dry runner"),
    ("spoken", "answer source"),
    ("stand in", "mock"),
    ("take up", "recovery"),
    ("takeup", "recovery"),
    ("teller", "encoder"),
    ("told", "progress, reported or sent"),
    ("unpark", "wake or resume"),
    ("unparked", "awake or resumed"),
    ("wish", "signal or goal"),
    ("wishes", "signals or goals"),
];

/// Words that say too little in a name, each with what to use. A sentence may have them.
const VAGUE_WORDS: [(&str, &str); 8] = [
    ("offer", "descriptor, candidate or announce"),
    ("offers", "descriptors or candidates"),
    ("parks", "sleeps or suspends"),
    ("played", "recorded, mocked or stepped"),
    ("said", "message, text or output"),
    ("say", "append, send or report"),
    ("saying", "message or turn"),
    ("speaker", "role or answer stream"),
];

/// Texts that are public or stored: folder, and end of the file's name. The migrations of the database name what they
/// rename.
const PUBLIC_TEXTS: [(&str, &str); 5] = [
    ("crates/flowloom/tests/help", ".snap"),
    ("crates/flowloom/tests/api", ".snap"),
    ("crates/store/src", ".rs"),
    ("crates/store/src", ".sql"),
    ("crates/formats/src", "schema.json"),
];

/// Migrations that created or renamed what the glossary has replaced: they are frozen. Folder, and the last such version.
const FROZEN_MIGRATIONS: [(&str, u32); 2] = [("crates/store/src", 8), ("crates/store/src/db/postgres", 2)];

/// Whether a file is a frozen migration: `schema.sql` is version 1, `schema-N.sql` version N.
fn is_frozen_migration(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else { return false };
    let version = match name.strip_prefix("schema").and_then(|rest| rest.strip_suffix(".sql")) {
        Some("") => 1,
        Some(number) => number.trim_start_matches('-').parse().expect("a version"),
        None => return false,
    };
    FROZEN_MIGRATIONS.iter().any(|(frozen, last)| *frozen == folder && version <= *last)
}

/// Names of one word that look like participles: a method of the standard library, and adjectives.
const ALLOWED_PARTICIPLES: [&str; 2] = ["elapsed", "unlimited"];

/// Verbs that end like participles.
const VERBS_IN_ED: [&str; 4] = ["embed", "exceed", "feed", "need"];

/// Whether a name of one word is a participle, which says what was done, and not what the function does.
fn is_participle(name: &str) -> bool {
    let is_one_word = split_words(name).len() == 1;
    let is_known = ALLOWED_PARTICIPLES.contains(&name) || VERBS_IN_ED.contains(&name);
    is_one_word && !is_known && (name.ends_with("ed") || IRREGULAR_PARTICIPLES.contains(&name))
}

/// Participles that do not end in `ed`.
const IRREGULAR_PARTICIPLES: [&str; 10] =
    ["broken", "chosen", "done", "given", "hidden", "known", "left", "sent", "shown", "written"];

/// Maximum number of types with one name. A name that several modules use is not specific enough.
const MAX_SAME_NAME_TYPES: usize = 2;

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

/// The first of `terms` in these words, and what to use instead.
fn find_term(terms: &[(&'static str, &'static str)], words: &[String]) -> Option<(&'static str, &'static str)> {
    let text = format!(" {} ", words.join(" "));
    terms.iter().copied().find(|(old, _)| text.contains(&format!(" {old} ")))
}

/// The replaced term in the words of a text, and what to use instead.
fn find_old_term(words: &[String]) -> Option<(&'static str, &'static str)> {
    find_term(&OLD_TERMS, words)
}

/// The replaced term in the words of a name, and what to use instead.
fn find_bad_name(words: &[String]) -> Option<(&'static str, &'static str)> {
    find_old_term(words).or_else(|| find_term(&VAGUE_WORDS, words))
}

/// The string literals of TypeScript: texts in straight quotation marks or backticks, line by line.
fn string_literals(line: &str) -> Vec<&str> {
    let mut literals = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(['"', '`']) {
        let quote = rest[start..].chars().next().expect("a quotation mark");
        let inside = &rest[start + 1..];
        let end = inside.find(quote).unwrap_or(inside.len());
        literals.push(&inside[..end]);
        rest = inside.get(end + 1..).unwrap_or_default();
    }
    literals
}

/// The identifiers and plain words of a text.
fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with(|c: char| !c.is_ascii_digit()))
}

/// The words of a text, in lower case; those of an identifier each for itself.
fn words_of(text: &str) -> Vec<String> {
    identifiers(text).flat_map(split_words).collect()
}

#[test]
fn declarations_use_the_terms_of_the_glossary() {
    let mut problems = BTreeMap::new();
    for folder in ["crates", "tests", "bench"] {
        for file in list_files(folder, "rs") {
            let path = relative_path(&file);
            let code = blank_text(&read_text(&file));
            for identifier in identifiers(&code) {
                if let Some((old, new)) = find_bad_name(&split_words(identifier)) {
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
    for (folder, ending) in PUBLIC_TEXTS {
        let (_, extension) = ending.rsplit_once('.').expect("an extension");
        let files = list_files(folder, extension).into_iter().filter(|file| relative_path(file).ends_with(ending));
        for file in files.filter(|file| !is_frozen_migration(&relative_path(file))) {
            for line in read_text(&file).lines() {
                let words = words_of(line);
                if let Some((old, new)) = find_old_term(&words) {
                    problems.push(format!("{}: instead of {old:?}, say {new}: {line}", relative_path(&file)));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_studio_uses_the_terms_of_the_glossary() {
    let mut problems = Vec::new();
    for file in list_files("web/src", "ts").into_iter().filter(|file| relative_path(file).contains("/strings")) {
        for literal in read_text(&file).lines().flat_map(string_literals) {
            let words = words_of(literal);
            if let Some((old, new)) = find_old_term(&words) {
                problems.push(format!("{}: instead of {old:?}, say {new}: {literal}", relative_path(&file)));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn functions_have_a_verb_and_an_object() {
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
fn no_function_is_a_participle() {
    let mut problems = Vec::new();
    for file in read_product_files(&["crates"]) {
        let names = declared_names(&file.code, &["fn"]).into_iter().filter(|name| is_participle(name));
        problems.extend(names.map(|name| format!("{}: {name}", file.path)));
    }
    assert!(problems.is_empty(), "say a verb and an object:\n{}", problems.join("\n"));
    assert!(is_participle("closed") && is_participle("shown"));
    assert!(!is_participle("need") && !is_participle("elapsed") && !is_participle("is_closed"));
}

#[test]
fn types_have_names_of_their_own() {
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in read_product_files(&["crates"]) {
        for name in declared_names(&file.code, &["struct", "enum", "trait", "union"]) {
            declared.entry(name.to_owned()).or_default().push(file.path.clone());
        }
    }
    declared.retain(|_, paths| paths.len() > MAX_SAME_NAME_TYPES);
    assert!(declared.is_empty(), "give these types more descriptive names: {declared:#?}");
}

#[test]
fn words_are_found_in_every_form() {
    let words = |identifier| split_words(identifier).join(" ");
    assert_eq!(words("goes_on_later"), "goes on later");
    assert_eq!(words("HttpReplyV2"), "http reply v2");
    assert_eq!(words("MAX_BYTES"), "max bytes");
    assert!(find_old_term(&split_words("TakeUpTask")).is_some() && find_old_term(&split_words("untold")).is_none());
    assert!(find_bad_name(&split_words("is_said")).is_some() && find_old_term(&words_of("what he said")).is_none());
    assert_eq!(string_literals("wire: \"Dry run\", x: `a ${b}`,"), ["Dry run", "a ${b}"]);
    assert!(
        is_frozen_migration("crates/store/src/schema-8.sql") && !is_frozen_migration("crates/store/src/schema-9.sql")
    );
}
