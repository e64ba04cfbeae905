//! The rules of ARCHITECTURE.md that a test can check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use structure::files::list_crates;
use structure::source::{read_product_files, string_literals};

/// Maximum number of lines of a source file; tables of data are not source files.
const MAX_FILE_LINES: usize = 500;

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Which of our crates each of our crates may use.
fn allowed_directions() -> BTreeMap<&'static str, &'static [&'static str]> {
    BTreeMap::from([
        ("flowloom-core", &[][..]),
        ("flowloom-formats", &["flowloom-core"][..]),
        ("flowloom-convert", &["flowloom-core", "flowloom-formats"][..]),
        ("flowloom-runtime", &["flowloom-core"][..]),
        ("flowloom-author", &["flowloom-core", "flowloom-formats", "flowloom-runtime"][..]),
        ("flowloom-models", &["flowloom-core", "flowloom-runtime"][..]),
        ("flowloom-models-local", &["flowloom-core", "flowloom-models", "flowloom-runtime"][..]),
        ("flowloom-tools", &["flowloom-core", "flowloom-runtime"][..]),
        ("flowloom-sandbox", &["flowloom-core", "flowloom-runtime"][..]),
        ("flowloom-restate", &["flowloom-core", "flowloom-runtime"][..]),
        ("flowloom-store", &["flowloom-core", "flowloom-runtime"][..]),
        (
            "flowloom-app",
            &[
                "flowloom-author",
                "flowloom-convert",
                "flowloom-core",
                "flowloom-formats",
                "flowloom-models",
                "flowloom-models-local",
                "flowloom-restate",
                "flowloom-runtime",
                "flowloom-sandbox",
                "flowloom-store",
                "flowloom-tools",
            ][..],
        ),
        (
            "flowloom-server",
            &[
                "flowloom-app",
                "flowloom-author",
                "flowloom-convert",
                "flowloom-core",
                "flowloom-formats",
                "flowloom-lsp",
                "flowloom-runtime",
                "flowloom-store",
                "flowloom-studio",
            ][..],
        ),
        ("flowloom-studio", &[][..]),
        ("flowloom-lsp", &["flowloom-app", "flowloom-core", "flowloom-formats"][..]),
    ])
}

#[test]
fn crates_use_only_what_they_may() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(repository_root())
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let directions = allowed_directions();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        assert_eq!(package["rust_version"], "1.95", "{name} must state the toolchain");
        let manifest = package["manifest_path"].as_str().expect("a path");
        let is_product = manifest.starts_with(&repository_root().join("crates").display().to_string());
        let Some(allowed) = directions.get(name) else {
            assert!(!is_product || name == "flowloom", "{name} has no entry in the table of allowed dependencies");
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("a name");
            let is_ours = used.starts_with("flowloom");
            let is_for_tests = dependency["kind"] == "dev";
            assert!(!is_ours || is_for_tests || allowed.contains(&used), "{name} may not use {used}");
        }
    }
}

fn source_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["crates", "tests", "bench"] {
        collect_sources(&repository_root().join(folder), &mut files);
    }
    files
}

fn collect_sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("readable").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            collect_sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Crates that the use cases and the server may not use: the command line, the terminal, and, for the use cases, HTTP.
const OUTSIDE_OF_APP: [&str; 9] =
    ["clap", "miette", "indicatif", "inquire", "axum", "hyper", "rmcp", "utoipa", "tower-http"];

#[test]
fn use_cases_and_server_know_no_terminal() {
    for (name, forbidden) in [("app", &OUTSIDE_OF_APP[..]), ("server", &OUTSIDE_OF_APP[..4])] {
        let folder = repository_root().join("crates").join(name);
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("UTF-8");
        let is_named = |word: &&&str| manifest.lines().any(|line| line.split(['.', ' ', '=']).next() == Some(**word));
        assert_eq!(forbidden.iter().find(is_named), None, "{name} may not use it");
        let mut files = Vec::new();
        collect_sources(&folder.join("src"), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).expect("UTF-8");
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for word in ["println!(", "print!("] {
                assert!(!text.contains(word), "{} uses {word}", file.display());
            }
        }
    }
}

/// Text below `flowloom` is also read over HTTP and in editors, where flags of the command line mean nothing.
#[test]
fn no_text_below_the_command_line_names_its_flags() {
    let mut broken = Vec::new();
    for file in read_product_files(&["crates"]).iter().filter(|file| !file.path.starts_with("crates/flowloom/")) {
        for literal in string_literals(&file.text).into_iter().filter(|literal| names_flag(literal)) {
            broken.push(format!("{}: {literal}", file.path));
        }
    }
    assert!(broken.is_empty(), "let crates/flowloom/src/flags.rs name the flag:\n{}", broken.join("\n"));
}

/// Whether a text has a flag after other words, such as ` --host`. A program's argument is a literal of its own.
fn names_flag(text: &str) -> bool {
    text.split([' ', '\n', '(', '`'])
        .skip(1)
        .any(|word| word.strip_prefix("--").is_some_and(|flag| flag.starts_with(|c: char| c.is_ascii_lowercase())))
}

#[test]
fn flags_are_found_in_texts() {
    assert!(names_flag("accept it with --host") && names_flag("(--lenient leaves it out)"));
    assert!(!names_flag("--quiet") && !names_flag("a -- b"));
}

#[test]
fn files_are_short_and_have_a_header() {
    let mut broken = Vec::new();
    for file in source_files() {
        let text = std::fs::read_to_string(&file).expect("UTF-8");
        let lines = text.lines().count();
        if lines > MAX_FILE_LINES {
            broken.push(format!("{} has {lines} lines", file.display()));
        }
        if !text.starts_with("//!") {
            broken.push(format!("{} does not start with //!", file.display()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_core_and_the_formats_touch_nothing_outside() {
    // Clocks, randomness and the environment are refused by clippy: see the clippy.toml of these crates.
    let forbidden = ["std::fs", "std::net", "std::process", "tokio", "async fn"];
    for file in source_files() {
        let path = file.display().to_string();
        if !["core", "formats", "convert"].iter().any(|name| path.contains(&format!("crates/{name}/src"))) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("UTF-8");
        for word in forbidden {
            assert!(!text.contains(word), "{path} uses {word}");
        }
    }
}

#[test]
fn crates_that_are_replayed_have_the_same_lints() {
    let text = |name: &str| std::fs::read_to_string(repository_root().join(name).join("clippy.toml")).expect("UTF-8");
    let rules = text("crates/core");
    assert_eq!(rules, text("crates/formats"));
    assert_eq!(rules, text("crates/convert"));
    assert_eq!(rules, text("crates/runtime"));
    let everywhere = text(".");
    for line in everywhere.lines() {
        assert!(rules.contains(line), "crates/core/clippy.toml lacks {line}");
    }
}

#[test]
fn documentation_of_public_items_names_them() {
    let mut broken = Vec::new();
    for file in read_product_files(&["crates"]) {
        let mut first: Option<&str> = None;
        for line in file.text.lines() {
            match line.strip_prefix("/// ") {
                Some(doc) => first = first.or(Some(doc)),
                None if line.starts_with("///") || line.starts_with('#') => {}
                None => {
                    let doc = first.take().filter(|_| line.starts_with("pub ")).unwrap_or_default();
                    if ["What", "Who", "Whose"].iter().any(|word| doc.split(' ').next() == Some(word)) {
                        broken.push(format!("{}: {doc}", file.path));
                    }
                }
            }
        }
    }
    assert!(broken.is_empty(), "say what the item is, not \"what …\" or \"who …\":\n{}", broken.join("\n"));
}

/// Words of which the documentation of a function that returns a `Result` has one, in lower case.
const FAILURE_WORDS: [&str; 5] = ["fails", "refuse", "reject", "cannot", "# errors"];

#[test]
fn documentation_of_public_functions_says_when_they_fail() {
    let mut broken = Vec::new();
    for file in read_product_files(&["crates"]).iter().filter(|file| file.path.contains("/src/")) {
        let mut doc = String::new();
        let mut rest = file.text.as_str();
        while let Some((line, after)) = rest.split_once('\n') {
            let trimmed = line.trim_start();
            if let Some(text) = trimmed.strip_prefix("///") {
                doc += &text.to_lowercase();
            } else if !trimmed.starts_with("#[") {
                let is_silent = !FAILURE_WORDS.iter().any(|word| doc.contains(*word));
                if is_silent && is_public_function(trimmed) && returns_result(rest) {
                    broken.push(format!("{}: {trimmed}", file.path));
                }
                doc.clear();
            }
            rest = after;
        }
    }
    assert!(broken.is_empty(), "say when the function fails:\n{}", broken.join("\n"));
}

/// Whether a line begins the declaration of a function that other crates can call.
fn is_public_function(line: &str) -> bool {
    ["pub fn ", "pub async fn ", "pub const fn "].iter().any(|start| line.starts_with(*start))
}

/// Whether the function at the beginning of the code returns a `Result`, which may be that of a module.
fn returns_result(code: &str) -> bool {
    let head = code.split(" {\n").next().unwrap_or_default();
    let returned = head.rsplit_once(") -> ").map_or("", |(_, returned)| returned);
    returned.split('<').next().is_some_and(|name| name == "Result" || name.ends_with("::Result"))
}

#[test]
fn functions_that_return_a_result_are_found() {
    assert!(is_public_function("pub async fn read(&self) -> io::Result<u8> {"));
    assert!(returns_result("pub fn read(\n    map: impl Fn(u8) -> u8,\n) -> Result<u8, ReadError> {\n}\n"));
    assert!(returns_result("pub async fn read(&self) -> io::Result<u8> {\n}\n"));
    assert!(!returns_result("pub fn check(result: Result<u8, u8>) -> TaskResult {\n}\n"));
    assert!(!returns_result("pub fn name(&self) -> &str {\n    &self.name\n}\n"));
}

#[test]
fn every_crate_warns_of_missing_documentation() {
    for name in list_crates() {
        let folder = repository_root().join("crates").join(&name).join("src");
        let root = ["lib.rs", "main.rs"].map(|file| folder.join(file)).into_iter().find(|file| file.is_file());
        let text = std::fs::read_to_string(root.expect("a crate root")).expect("UTF-8");
        assert!(text.contains("#![warn(missing_docs)]"), "{name} does not warn of missing documentation");
    }
}

/// Maximum number of lines of ARCHITECTURE.md: a code map, not a book.
const MAX_ARCHITECTURE_LINES: usize = 250;

#[test]
fn the_architecture_is_short() {
    let text = std::fs::read_to_string(repository_root().join("ARCHITECTURE.md")).expect("UTF-8");
    assert!(text.lines().count() <= MAX_ARCHITECTURE_LINES, "move reasons to docs/decisions");
}

#[test]
fn the_interpreter_awaits_only_its_own() {
    for file in source_files().into_iter().filter(|file| file.display().to_string().contains("runtime/src/interpret")) {
        let text = std::fs::read_to_string(&file).expect("UTF-8");
        for word in ["tokio", "select!", "join!", "spawn("] {
            assert!(!text.contains(word), "{} uses {word}", file.display());
        }
    }
}

#[test]
fn what_runs_does_not_know_where_it_came_from() {
    for name in ["runtime", "store", "models", "sandbox", "tools"] {
        let folder = repository_root().join("crates").join(name).join("src");
        let mut files = Vec::new();
        collect_sources(&folder, &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).expect("UTF-8");
            assert!(!text.contains("plan::Format"), "{} depends on the format", file.display());
            assert!(!text.contains("::FORMAT"), "{} depends on the format", file.display());
        }
    }
}

/// The types with a variant for each database.
const DATABASE_ENUMS: [&str; 3] = ["DbConnection::", "DbSource::", "DbRow::"];

/// Whether a code names a variant of a type with a variant for each database. Functions begin in lower case.
fn asks_for_database(code: &str) -> bool {
    DATABASE_ENUMS.iter().any(|name| {
        code.match_indices(name).any(|(at, _)| code[at + name.len()..].starts_with(|c: char| c.is_ascii_uppercase()))
    })
}

#[test]
fn only_the_databases_ask_for_the_database() {
    let files = read_product_files(&["crates/store/src"]);
    let outside = files.iter().filter(|file| !file.path.starts_with("crates/store/src/db/"));
    let broken: Vec<&str> =
        outside.filter(|file| asks_for_database(&file.code)).map(|file| file.path.as_str()).collect();
    assert!(broken.is_empty(), "move what differs to crates/store/src/db: {}", broken.join(", "));
    assert!(asks_for_database("DbRow::Sqlite(row) => row") && !asks_for_database("DbConnection::size_bytes"));
}

/// Names of the systems that the formats come from, and words of theirs, in lower case.
const ORIGINS: [&str; 11] = [
    "anythingllm",
    "anything-llm",
    "agentflow",
    "agentos",
    "2nchat",
    "lebrunel",
    "mdx",
    "safejsonparse",
    "docs/formats",
    "http error!",
    "please fix your mistakes",
];

#[test]
fn the_core_and_the_runtime_name_no_origin() {
    for name in ["core", "runtime"] {
        let mut files = Vec::new();
        collect_sources(&repository_root().join("crates").join(name).join("src"), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).expect("UTF-8").to_lowercase();
            for word in ORIGINS {
                assert!(!text.contains(word), "{} names {word}", file.display());
            }
        }
    }
}
