//! Every error code has a page, a line in the lists of pages, and a test that provokes it. Product code rarely compares one.
#![expect(clippy::print_stdout, reason = "the figure is printed")]

use std::path::{Path, PathBuf};

use flowloom_core::Code;
use structure::source::read_product_files;

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("readable").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn every_code_has_a_page() {
    for code in Code::ALL {
        let page = repository_root().join(format!("docs/errors/{code}.md"));
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let head = format!("# {code}: {}", code.title());
        assert_eq!(text.lines().next(), Some(head.as_str()), "{}", page.display());
    }
}

/// The numbers that follow these words in a text. A number is three digits or fewer.
fn numbers_after(text: &str, words: &str) -> Vec<u16> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let after = text.match_indices(words).map(|(at, _)| &text[at + words.len()..]);
    let digits = after.map(|rest| rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
    digits.filter_map(|digits| digits.parse().ok()).collect()
}

/// "Exit code N" is that of a command that ends with the problem, "HTTP status N" that of a request. How a run ends is
/// another question ("the run ends with exit code N").
#[test]
fn pages_state_the_exit_code_and_the_status_of_the_table() {
    let mut wrong = Vec::new();
    for code in Code::ALL {
        let page = repository_root().join(format!("docs/errors/{code}.md"));
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let category = code.category();
        let exits = [
            numbers_after(&text, "Exit code"),
            numbers_after(&text, ", exit code"),
            numbers_after(&text, "; exit code"),
        ];
        if let Some(stated) = exits.concat().iter().find(|stated| **stated != u16::from(category.exit_code())) {
            wrong.push(format!("{code}: the page states exit code {stated}, the table {}", category.exit_code()));
        }
        let statuses = numbers_after(&text, "HTTP status");
        if !statuses.is_empty() && !statuses.contains(&category.http_status()) {
            wrong.push(format!("{code}: the page states {statuses:?}, the table {}", category.http_status()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(numbers_after("Exit code 2, HTTP\nstatus 409; HTTP status 500.", "HTTP status"), [409, 500]);
}

/// Set by `make errors`: the lists are written instead of compared.
const UPDATE_VARIABLE: &str = "FLOWLOOM_UPDATE_LISTS";

/// A page with a line for each code.
struct CodeList {
    path: &'static str,
    /// The text before the code in a line.
    start: &'static str,
    render_line: fn(Code) -> String,
}

const CODE_LISTS: [CodeList; 2] = [
    CodeList {
        path: "docs/errors/README.md",
        start: "| [",
        render_line: |code| format!("| [{code}]({code}.md) | {} |", code.title()),
    },
    CodeList {
        path: "docs/SUMMARY.md",
        start: "  - [",
        render_line: |code| format!("  - [{code}: {}](errors/{code}.md)", code.title()),
    },
];

impl CodeList {
    /// The text of the page with a correct line for each code. A missing line follows that of the previous code.
    fn complete_text(&self, text: &str) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut codes = Code::ALL.to_vec();
        codes.sort_unstable();
        let mut next = 0;
        for code in codes {
            let start = format!("{}{code}", self.start);
            match lines.iter().position(|line| line.starts_with(&start)) {
                Some(at) => {
                    lines[at] = (self.render_line)(code);
                    next = at + 1;
                }
                None => {
                    lines.insert(next, (self.render_line)(code));
                    next += 1;
                }
            }
        }
        lines.join("\n") + "\n"
    }
}

#[test]
fn the_lists_have_a_line_for_every_code() {
    for list in CODE_LISTS {
        let file = repository_root().join(list.path);
        let text = std::fs::read_to_string(&file).expect("the list");
        let complete = list.complete_text(&text);
        if std::env::var_os(UPDATE_VARIABLE).is_some() {
            std::fs::write(&file, complete).expect("the list is written");
        } else if let Some(line) = complete.lines().find(|line| !text.lines().any(|present| present == *line)) {
            panic!("{} lacks a line, which `make errors` adds: {line}", list.path);
        }
    }
}

/// The folder of the pages of formats, and their list.
const FORMAT_PAGES: (&str, &str) = ("docs/formats", "docs/SUMMARY.md");

/// A list of pages with a line for each format. A missing line follows those of the other formats.
fn complete_formats(text: &str, formats: &[String]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for format in formats {
        let line = format!("- [{format}](formats/{format}.md)");
        let last = lines.iter().rposition(|line| line.contains("](formats/")).map_or(lines.len(), |last| last + 1);
        if !lines.contains(&line) {
            lines.insert(last, line);
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_lists_have_a_line_for_every_format() {
    let (folder, list) = (repository_root().join(FORMAT_PAGES.0), repository_root().join(FORMAT_PAGES.1));
    let names = std::fs::read_dir(folder).expect("readable").flatten().map(|entry| entry.file_name());
    let mut formats: Vec<String> =
        names.filter_map(|name| Some(name.to_str()?.strip_suffix(".md")?.to_owned())).collect();
    formats.sort_unstable();
    assert!(formats.iter().any(|format| format == "markdown"), "{formats:?}");
    let text = std::fs::read_to_string(&list).expect("the list");
    let complete = complete_formats(&text, &formats);
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
        std::fs::write(&list, complete).expect("the list is written");
    } else {
        assert_eq!(text, complete, "`make errors` adds the missing lines");
    }
    let added = complete_formats("- [a](formats/a.md)\n- other\n", &["a".to_owned(), "b".to_owned()]);
    assert_eq!(added, "- [a](formats/a.md)\n- [b](formats/b.md)\n- other\n");
}

#[test]
fn every_page_has_a_code() {
    for entry in std::fs::read_dir(repository_root().join("docs/errors")).expect("readable").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "README.md" {
            let code = name.strip_suffix(".md").and_then(Code::parse);
            assert!(code.is_some_and(|code| name == format!("{code}.md")), "{name} does not belong to an error code");
        }
    }
}

/// The text of all tests: test files, tests inside source files, and snapshots of diagnostics.
fn test_text() -> String {
    let mut files = Vec::new();
    for folder in ["crates", "tests/runner"] {
        collect_files(&repository_root().join(folder), &mut files);
    }
    let mut all = String::new();
    for file in files {
        let path = file.display().to_string();
        let is_snapshot = path.contains("/tests/diagnostics/") && path.ends_with(".snap");
        if !is_snapshot && !path.ends_with(".rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("UTF-8");
        let is_test = is_snapshot || path.contains("/tests/") || path.ends_with("tests.rs");
        let inside = text.find("#[cfg(test)]\nmod tests {").map_or("", |at| &text[at..]);
        all += if is_test { &text } else { inside };
    }
    all
}

/// Whether `name` occurs in `text` as a whole word.
fn contains_word(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| !text[at + name.len()..].starts_with(|c: char| c.is_alphanumeric()))
}

/// A code that no test mentions is either untested, or cannot occur and should be removed.
#[test]
fn every_code_is_provoked_by_a_test() {
    let tests = test_text();
    let missing: Vec<_> = Code::ALL
        .iter()
        .filter(|code| !contains_word(&tests, &code.to_string()) && !contains_word(&tests, &format!("Code::{code:?}")))
        .map(|code| format!("{code} {}", code.title()))
        .collect();
    assert!(missing.is_empty(), "no test provokes\n{}", missing.join("\n"));
}

/// Maximum number of comparisons with a code in product code.
const MAX_CODE_COMPARISONS: usize = 41;

/// The table of the codes, and what belongs to each.
const CODE_TABLE: &str = "crates/core/src/code.rs";

/// The number of comparisons with a code: by an operator, by `matches!`, or as the pattern of a match.
fn count_comparisons(code: &str) -> usize {
    let names_code = |text: &str| {
        let follows_word = |at: usize| text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        text.match_indices("Code::").any(|(at, _)| !follows_word(at))
    };
    let operators = code.matches("== Code::").count() + code.matches("!= Code::").count();
    let patterns = code.lines().filter_map(|line| line.split_once("=>")).filter(|(pattern, _)| {
        // A guard that compares is an operator.
        names_code(pattern.split(" if ").next().unwrap_or_default())
    });
    let macros = code.match_indices("matches!(").filter(|(at, _)| {
        let arguments = code[*at..].split([';', '{']).next().unwrap_or_default();
        let pattern = arguments.split_once(',').map_or("", |(_, pattern)| pattern);
        names_code(pattern.split(" if ").next().unwrap_or_default())
    });
    operators + patterns.count() + macros.count()
}

/// The reactions to an error match its variants. Those to a recorded failure or to a diagnostic compare its code:
/// `docs/decisions/error-codes.md`.
#[test]
fn code_comparisons_are_rare() {
    let files = read_product_files(&["crates"]);
    let mut count = 0;
    for file in files.iter().filter(|file| file.path != CODE_TABLE) {
        let found = count_comparisons(&file.code);
        count += found;
        if found > 0 {
            println!("{}: {found}", file.path);
        }
    }
    println!("{count} comparisons with a code");
    assert!(count <= MAX_CODE_COMPARISONS, "{count} comparisons; match the variants of the error instead");
    assert_eq!(count_comparisons("if error.code == Code::LimitSteps || code != Code::Cycle {"), 2);
    assert_eq!(count_comparisons("matches!(error.code, Code::Cycle | Code::LimitSteps);"), 1);
    assert_eq!(
        count_comparisons("match error.code {\n    Code::Cycle => Status::Failed,\n    _ => Code::Cycle,\n}"),
        1
    );
    assert_eq!(count_comparisons("matches!(block.code, BlockCode::Prompt { .. }); Error::Cycle => Code::Cycle,"), 0);
}
