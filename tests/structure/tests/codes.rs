//! Every error code has a page, a line in the lists of pages, and a test that provokes it.

use std::path::{Path, PathBuf};

use flowloom_core::Code;

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

/// Set by `make errors`: the lists are written instead of compared.
const UPDATE_VARIABLE: &str = "FLOWLOOM_UPDATE_LISTS";

/// A page with a line for each code.
struct CodeList {
    path: &'static str,
    /// What is before the code in a line.
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
