//! Finds the files of the served folder that may be definitions, and derives their ids.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use flowloom_core::code::Code;
use flowloom_core::diagnostic::{Diagnostic, Span};
use flowloom_core::plan::Plan;
use flowloom_formats::graph::WORKFLOW_TABLE_FILE;
use unicode_normalization::UnicodeNormalization as _;

use super::flow_folder::FLOW_FOLDER;
use crate::folders::name_folder;

/// Maximum depth of subfolders that are searched.
const MAX_FOLDER_DEPTH: usize = 8;

/// Extensions of files that may be definitions.
const DEFINITION_EXTENSIONS: [&str; 4] = ["json", "jsonc", "mdx", "md"];

/// Folders with the parts of definitions that have a layout.
const PART_FOLDERS: [&str; 2] = ["agents", "blocks"];

/// Folders that contain parts of definitions and are skipped.
const SKIPPED_FOLDERS: [&str; 4] = ["agents", "blocks", "tools", "node_modules"];

/// The files of a definition with their modification times.
pub(super) type ModificationTimes = Vec<(PathBuf, Option<SystemTime>)>;

/// Every file of a folder that may be a definition, sorted by path.
pub fn list_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let root = folder.canonicalize().ok();
    visit_files(folder, 0, &|name| !SKIPPED_FOLDERS.contains(&name), &mut |file| {
        if file.is_symlink() && !is_link_within(&file, root.as_deref()) {
            return;
        }
        let is_hidden = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !is_hidden && may_be_definition(&file) {
            files.push(file);
        }
    });
    files.sort();
    files
}

/// Every file of a folder that may be a part of definitions with a layout of its own, such as a block. Sorted by path.
pub fn list_part_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let is_inside = folder.canonicalize().is_ok_and(|folder| is_part_folder(folder.file_name()));
    visit_files(folder, 0, &|name| name != "node_modules", &mut |file| {
        if file.is_symlink() {
            return;
        }
        let below = file.strip_prefix(folder).ok().and_then(Path::parent).unwrap_or(Path::new(""));
        let is_part = is_inside || below.iter().any(|name| is_part_folder(Some(name)));
        if is_part && file.extension().is_some_and(|end| end.eq_ignore_ascii_case("json")) {
            files.push(file);
        }
    });
    files.sort();
    files
}

fn is_part_folder(name: Option<&OsStr>) -> bool {
    name.is_some_and(|name| PART_FOLDERS.iter().any(|one| name == *one))
}

/// Whether a symbolic link leads to a file of the folder `root` or below: so are the files of a folder that Kubernetes mounts
/// from a ConfigMap.
pub(crate) fn is_link_within(link: &Path, root: Option<&Path>) -> bool {
    let target = link.canonicalize().ok();
    target.zip(root).is_some_and(|(target, root)| target.starts_with(root) && target.is_file())
}

/// Whether a path of a folder is a symbolic link to somewhere else.
pub fn leaves_folder(path: &Path, folder: &Path) -> bool {
    let resolved = path.canonicalize().ok().zip(name_folder(folder).canonicalize().ok());
    path.is_symlink() && resolved.is_some_and(|(target, folder)| !target.starts_with(folder))
}

/// Visits the files and symbolic links of a folder, and of the folders below that `enters` accepts by their names; hidden
/// folders are skipped.
fn visit_files(folder: &Path, depth: usize, enters: &dyn Fn(&str) -> bool, visit: &mut dyn FnMut(PathBuf)) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < MAX_FOLDER_DEPTH && !name.starts_with('.') && enters(&name) => {
                visit_files(&entry.path(), depth + 1, enters, visit);
            }
            Ok(kind) if kind.is_file() || kind.is_symlink() => visit(entry.path()),
            _ => {}
        }
    }
}

/// Whether a file may be a definition, by its extension, in which case does not matter.
pub(super) fn has_definition_extension(path: &Path) -> bool {
    path.extension().is_some_and(|end| DEFINITION_EXTENSIONS.iter().any(|one| end.eq_ignore_ascii_case(one)))
}

/// Whether a file may be a definition, by its name: the table of workflows is one, with the tables next to it.
fn may_be_definition(path: &Path) -> bool {
    has_definition_extension(path) || path.file_name().is_some_and(|name| name == WORKFLOW_TABLE_FILE)
}

/// Derives an id from a path: `flow/weather.json` becomes `flow.weather`. Letters, marks and symbols are kept; a letter
/// whose accent is a character of its own, as macOS writes it, is the same as the whole letter.
/// Flows in AnythingLLM's folder have the name of their file, which is their UUID.
pub fn id_from_path(file: &str) -> String {
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let stem = match stem.rsplit_once('/') {
        Some((folder, name)) if folder.rsplit('/').next() == Some(FLOW_FOLDER) => name,
        _ => stem,
    };
    let clean = |c: char| if is_id_character(c) { c } else { '.' };
    let id: String = stem.nfc().map(clean).collect();
    // Browsers take the ids `.` and `..` out of an address.
    if id.starts_with('.') { format!("_{id}") } else { id }
}

/// Whether an id keeps a character of a path: any of a script, a mark or a symbol, but of ASCII only letters, digits, `-` and
/// `_`. Invisible characters, and those that change the direction of a text, are not kept, but for those that join
/// letters.
fn is_id_character(c: char) -> bool {
    match c {
        _ if c.is_ascii() => c.is_ascii_alphanumeric() || matches!(c, '-' | '_'),
        '\u{200c}' | '\u{200d}' => true,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => false,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => false,
        _ => !c.is_whitespace() && !c.is_control(),
    }
}

/// The id that a file of the folder `root` has by its path.
pub(super) fn derive_file_id(root: &Path, file: &Path) -> String {
    id_from_path(&file.strip_prefix(root).unwrap_or(file).display().to_string())
}

/// The id of the definition in a file of the folder `root`: the one that it gives itself, or else that of its file.
pub(super) fn find_definition_id(plan: Option<&Plan>, root: &Path, file: &Path) -> String {
    plan.and_then(|plan| plan.id.clone()).unwrap_or_else(|| derive_file_id(root, file))
}

/// The definitions that share an id with another one of the folder: for each index, the problem to report. Each item is
/// an id and the path of its file.
pub(super) fn find_shared_ids(items: &[(&str, &str)]) -> BTreeMap<usize, Diagnostic> {
    let mut by_id: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, (id, _)) in items.iter().enumerate() {
        by_id.entry(id).or_default().push(index);
    }
    let shared = by_id.into_iter().filter(|(_, indexes)| indexes.len() > 1);
    let problems = shared.flat_map(|(id, indexes)| {
        let files: Vec<&str> = indexes.iter().map(|index| items[*index].1).collect();
        let message = format!("{} have the same id {id:?}, so none of them can be used", files.join(" and "));
        let problem = |index: usize| {
            Diagnostic::new_error(Code::DuplicateName, items[index].1, Span::default(), message.clone())
                .with_help("rename all of them but one, so that each has an id of its own")
        };
        indexes.iter().map(|index| (*index, problem(*index))).collect::<Vec<_>>()
    });
    problems.collect()
}

/// Reads the modification times of files.
pub(super) fn read_modification_times<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> ModificationTimes {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    paths.map(|path| (path.clone(), changed(path))).collect()
}

/// Whether files have the modification times that were read before.
pub(super) fn is_unchanged(changed: &ModificationTimes) -> bool {
    *changed == read_modification_times(changed.iter().map(|(path, _)| path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_within_the_folder_only() {
        use std::os::unix::fs::symlink;
        let all = tempfile::tempdir().expect("a folder");
        let folder = all.path().join("flows");
        std::fs::create_dir_all(folder.join("..2026_11_26")).expect("a folder");
        for file in ["flows/..2026_11_26/mounted.json", "outside.json", "flows/plain.json"] {
            std::fs::write(all.path().join(file), "{}").expect("written");
        }
        // The layout of a mounted ConfigMap.
        symlink("..2026_11_26", folder.join("..data")).expect("a link");
        symlink("..data/mounted.json", folder.join("mounted.json")).expect("a link");
        symlink("../outside.json", folder.join("outside.json")).expect("a link");
        symlink("gone.json", folder.join("dangling.json")).expect("a link");
        let names: Vec<_> =
            list_files(&folder).iter().filter_map(|file| file.file_name().map(OsStr::to_owned)).collect();
        assert_eq!(names, ["mounted.json", "plain.json"]);
    }

    #[test]
    fn ids_keep_letters_of_any_script() {
        let cases = [
            ("flow/weather.json", "flow.weather"),
            ("天气.json", "天气"),
            ("märz 2026.mdx", "märz.2026"),
            ("ma\u{308}rz cafe\u{301}.mdx", "märz.café"),
            ("a/b.c.json", "a.b.c"),
            ("+.json", "_."),
            ("ไม้.json", "ไม้"),
            ("ไม่.json", "ไม่"),
            ("हिन्दी.json", "हिन्दी"),
            ("a🎉.json", "a🎉"),
            ("a👩‍🚀.json", "a👩‍🚀"),
            ("ab\u{202e}cd\u{a0}e.json", "ab.cd.e"),
            ("plugins/agent-flows/3f2a-1.json", "3f2a-1"),
            ("agent-flows/sub/x.json", "agent-flows.sub.x"),
        ];
        for (file, id) in cases {
            assert_eq!(id_from_path(file), id, "{file}");
        }
    }

    #[test]
    fn every_definition_with_a_shared_id_is_reported() {
        let problems = find_shared_ids(&[("a", "a.json"), ("x.y", "x.y.json"), ("x.y", "x/y.json")]);
        assert_eq!(problems.keys().copied().collect::<Vec<_>>(), [1, 2]);
        assert!(problems[&1].message.contains("x.y.json and x/y.json"), "{}", problems[&1].message);
    }
}
