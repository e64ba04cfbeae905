//! The tests of a definition: files in a folder `tests` that name it.

use std::path::{Path, PathBuf};

use flowloom_core::json::parse_value;
use flowloom_core::value::Value;

/// Name of the folder of tests, next to a definition or in its project.
const TESTS_FOLDER: &str = "tests";

/// Maximum number of files that are searched.
const MAX_TESTS: usize = 500;

/// The tests of the definition at `path`, in its folder and in that of its project.
pub(super) fn find_tests(path: &Path, project: &Path) -> Vec<PathBuf> {
    let Ok(path) = path.canonicalize() else { return Vec::new() };
    let mut folders: Vec<PathBuf> = path.parent().into_iter().map(|folder| folder.join(TESTS_FOLDER)).collect();
    folders.extend(project.join(TESTS_FOLDER).canonicalize().ok().filter(|folder| !folders.contains(folder)));
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|file| file.extension().is_some_and(|end| end == "json"));
    let mut tests: Vec<PathBuf> = files.take(MAX_TESTS).filter(|file| names_definition(file, &path)).collect();
    tests.sort();
    tests
}

/// Whether a file is a test of the definition at a resolved path.
fn names_definition(test: &Path, definition: &Path) -> bool {
    let named = || {
        let content = parse_value(&std::fs::read_to_string(test).ok()?).ok()?;
        let named = content.get("definition").and_then(Value::as_str)?.to_owned();
        test.parent()?.join(named).canonicalize().ok()
    };
    named().is_some_and(|named| named == definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_name_their_definition() {
        let place = tempfile::tempdir().expect("a folder");
        let root = place.path();
        std::fs::create_dir_all(root.join("flows/tests")).expect("created");
        std::fs::create_dir_all(root.join("tests")).expect("created");
        let files = [
            ("flows/a.json", "{}"),
            ("flows/tests/one.json", r#"{"definition": "../a.json"}"#),
            ("flows/tests/other.json", r#"{"definition": "../b.json"}"#),
            ("flows/tests/broken.json", "{"),
            ("tests/two.json", r#"{"definition": "../flows/a.json"}"#),
        ];
        files.iter().for_each(|(file, text)| std::fs::write(root.join(file), text).expect("written"));
        let found = find_tests(&root.join("flows/a.json"), root);
        let names: Vec<_> = found.iter().filter_map(|file| file.file_stem()?.to_str()).collect();
        assert_eq!(names, ["one", "two"]);
    }
}
