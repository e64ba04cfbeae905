//! The documentation names what exists: files, code, pages and anchors.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use structure::files::{list_files, read_text, relative_path, repository_root};
use structure::pages::{Page, read_pages};

/// The pages that describe the code.
const CODE_PAGES: [&str; 2] = ["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// Folders that scripts and builds create.
const CREATED_FOLDERS: [&str; 2] = [".tools", "target"];

fn read_code_pages() -> Vec<Page> {
    read_pages().into_iter().filter(|page| CODE_PAGES.contains(&page.path.as_str())).collect()
}

#[test]
fn paths_in_the_pages_about_the_code_exist() {
    let mut missing = Vec::new();
    for page in read_code_pages() {
        let spans = page.code_spans().into_iter().filter(|span| is_path(span));
        let lines = page.code_lines().into_iter().flat_map(str::split_whitespace).filter(|word| is_path(word));
        for path in spans.chain(lines.map(str::to_owned)) {
            let is_created = CREATED_FOLDERS.iter().any(|folder| path.split('/').next() == Some(folder));
            if !is_created && !repository_root().join(&path).exists() {
                missing.push(format!("{} mentions {path}", page.path));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Whether a text is a path in the repository; `/fanout/topic` is a path of a step.
fn is_path(text: &str) -> bool {
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    is_plain && text.contains('/') && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
}

#[test]
fn every_crate_is_in_the_code_map() {
    let page = read_code_pages().into_iter().find(|page| page.path == "ARCHITECTURE.md").expect("the code map");
    let headings = page.headings();
    let folders = std::fs::read_dir(repository_root().join("crates")).expect("crates/ is readable").flatten();
    for folder in folders {
        let name = folder.file_name().to_string_lossy().into_owned();
        let names_crate = |heading: &String| heading.split([':', ' ']).any(|word| word == name);
        assert!(headings.iter().any(names_crate), "the code map has no heading for crates/{name}");
    }
}

#[test]
fn code_in_the_pages_about_the_code_exists() {
    let code = read_code();
    let mut missing = Vec::new();
    for page in read_code_pages() {
        for name in page.code_spans().into_iter().filter(|span| is_code_name(span)) {
            if !contains_word(&code, &name) {
                missing.push(format!("{} mentions {name}", page.path));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The text of all source files except this crate's, with settings, scripts and workflows of CI.
fn read_code() -> String {
    let files = ["rs", "toml", "sh", "yml"].into_iter().flat_map(|extension| list_files(".", extension));
    files.filter(|file| !relative_path(file).starts_with("tests/structure")).map(|file| read_text(&file)).collect()
}

/// Whether a text is the name of a type, function, constant, setting or event: words such as `sandbox` are not.
fn is_code_name(text: &str) -> bool {
    let is_identifier = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    let is_camel_case = text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().nth(1).is_some_and(|second| second.is_ascii_lowercase());
    text.split("::").all(is_identifier) && (text.contains(['_', ':']) || is_camel_case)
}

fn contains_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

#[test]
fn make_targets_in_the_pages_exist() {
    let makefile = read_text(&repository_root().join("Makefile"));
    let mut missing = Vec::new();
    for page in read_pages() {
        let spans = page.code_spans();
        let lines = spans.iter().map(String::as_str).chain(page.code_lines());
        for line in lines.filter_map(|line| line.trim_start_matches("$ ").strip_prefix("make ")) {
            let target = line.split_whitespace().next().unwrap_or_default();
            if !makefile.lines().any(|line| line.starts_with(&format!("{target}:"))) {
                missing.push(format!("{} mentions make {target}", page.path));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn links_lead_somewhere() {
    let pages = read_pages();
    let mut broken = Vec::new();
    for page in &pages {
        for link in page.links() {
            let is_external = link.contains("://") || link.starts_with("mailto:");
            if !is_external && let Some(problem) = find_problem(page, link, &pages) {
                broken.push(format!("{}: {link}: {problem}", page.path));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Why a relative link leads nowhere; `None` if it leads somewhere.
fn find_problem(page: &Page, link: &str, pages: &[Page]) -> Option<&'static str> {
    let (target, anchor) = link.split_once('#').map_or((link, None), |(target, anchor)| (target, Some(anchor)));
    let path = match target {
        "" => page.path.clone(),
        target => resolve_path(&page.path, target),
    };
    if !repository_root().join(&path).exists() {
        return Some("there is no such file");
    }
    let anchor = anchor?;
    match pages.iter().find(|page| page.path == path) {
        Some(page) if page.anchors().contains(anchor) => None,
        Some(_) => Some("the page has no such heading"),
        None => Some("only Markdown pages have anchors"),
    }
}

/// The path from the repository root of what a page links to.
fn resolve_path(page: &str, target: &str) -> String {
    let mut path = PathBuf::new();
    for component in Path::new(page).parent().unwrap_or(Path::new("")).join(target).components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    path.display().to_string()
}

#[test]
fn the_summary_lists_every_page() {
    let pages = read_pages();
    let summary = pages.iter().find(|page| page.path == "docs/SUMMARY.md").expect("the summary");
    let listed: BTreeSet<String> = summary.links().iter().map(|link| resolve_path(&summary.path, link)).collect();
    let existing: BTreeSet<String> = pages
        .iter()
        .map(|page| page.path.clone())
        .filter(|path| path.starts_with("docs/") && *path != summary.path)
        .collect();
    assert_eq!(listed, existing);
}

/// The names of the packages that the program uses directly: those under `[dependencies]` and the like, but not for tests.
fn list_direct_dependencies() -> BTreeSet<String> {
    let manifests = list_files("crates", "toml");
    let mut names = BTreeSet::new();
    for manifest in manifests.iter().filter(|path| path.file_name().is_some_and(|name| name == "Cargo.toml")) {
        let text = read_text(manifest);
        let mut is_listed = false;
        for line in text.lines() {
            if line.starts_with('[') {
                is_listed = line.ends_with("dependencies]") && !line.contains("dev-");
            } else if let Some((name, _)) =
                line.split_once(['.', ' ', '=']).filter(|(name, _)| is_listed && !name.is_empty())
            {
                names.insert(name.to_owned());
            }
        }
    }
    names.retain(|name| !name.starts_with("flowloom") && !name.starts_with('#'));
    names
}

#[test]
fn every_direct_dependency_has_a_row_with_its_purpose() {
    let page = read_text(&repository_root().join("docs/dependencies.md"));
    let names = list_direct_dependencies();
    assert!(names.contains("tokio") && names.len() > 50, "{names:?}");
    let missing: Vec<&String> = names.iter().filter(|name| !page.contains(&format!("\n| {name} |"))).collect();
    assert!(missing.is_empty(), "docs/dependencies.md has no row for {missing:?}");
}
