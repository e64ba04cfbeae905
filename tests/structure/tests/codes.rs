//! Every error code has a page, and a test that provokes it.

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
    let index = std::fs::read_to_string(repository_root().join("docs/errors/README.md")).expect("the index");
    for code in Code::ALL {
        let page = repository_root().join(format!("docs/errors/{code}.md"));
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let head = format!("# {code}: {}", code.title());
        assert_eq!(text.lines().next(), Some(head.as_str()), "{}", page.display());
        let row = format!("| [{code}]({code}.md) | {} |", code.title());
        assert!(index.contains(&row), "the index has no line {row}");
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
