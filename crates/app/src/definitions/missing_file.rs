//! Why the file of a definition cannot be read. A missing file is reported with a similar name in the same folder.

use std::fs;
use std::io;
use std::path::Path;

use flowloom_core::diagnostic::find_similar_name;

use crate::folders::name_parent;

/// Maximum number of files of a folder whose names are compared.
const MAX_COMPARED_FILES: usize = 10_000;

/// The message that the definition `name`, at `path`, cannot be read.
pub(super) fn describe_read_error(path: &Path, name: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => match find_similar_file(path) {
            Some(meant) => format!("there is no file {name}; did you mean {meant}?"),
            None => format!("there is no file {name}"),
        },
        _ => format!("{name} cannot be read: {error}"),
    }
}

/// The path of the file in the same folder whose name is most like that of `path`.
pub(super) fn find_similar_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let entries = fs::read_dir(name_parent(path)).ok()?.flatten().take(MAX_COMPARED_FILES);
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_dir()));
    let mut names: Vec<String> = files.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    // An extension that both have does not make short names similar.
    let (stem, extension) = split_extensions(name);
    let (same, others): (Vec<&str>, Vec<&str>) =
        names.iter().map(String::as_str).partition(|other| split_extensions(other).1 == extension);
    let similar = find_similar_name(stem, same.iter().map(|other| split_extensions(other).0));
    let meant = match similar {
        Some(stem) => format!("{stem}{extension}"),
        None => find_similar_name(name, others)?.to_owned(),
    };
    Some(path.with_file_name(meant).display().to_string())
}

/// The name of a file before its extensions, and the extensions, such as `.flow.json`.
fn split_extensions(name: &str) -> (&str, &str) {
    name.split_at(name.find('.').unwrap_or(name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_names_the_similar_one() {
        let place = tempfile::tempdir().expect("a folder");
        let path = |name: &str| place.path().join(name);
        fs::write(path("state.json"), "{}").expect("written");
        fs::create_dir(path("statues.json")).expect("created");
        let describe = |name: &str| {
            let error = fs::read(path(name)).expect_err("it cannot be read");
            describe_read_error(&path(name), name, &error)
        };
        let similar = path("state.json").display().to_string();
        assert_eq!(describe("statue.json"), format!("there is no file statue.json; did you mean {similar}?"));
        assert_eq!(describe("other.json"), "there is no file other.json");
        let misspelt = format!("there is no file state.jsno; did you mean {similar}?");
        assert_eq!(describe("state.jsno"), misspelt);
        fs::write(path("h.json"), "{}").expect("written");
        assert_eq!(describe("z.json"), "there is no file z.json");
        assert_eq!(describe("H.json"), format!("there is no file H.json; did you mean {}?", path("h.json").display()));
        assert_eq!(describe("lost/state.json"), "there is no file lost/state.json");
        assert!(describe("statues.json").starts_with("statues.json cannot be read: "));
    }
}
