//! Finds the agents of a graph in the folders above it, up to the root of its project: 2nChat keeps all agents in one
//! folder, next to that of its graphs.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use flowloom_formats::graph::AGENT_SETTINGS_FILE;

use super::reader::{FileReader, read_files_below, resolve_folder};
use crate::folders::name_folder;

/// A folder above that of a definition.
pub(super) struct FolderAbove {
    /// Its path, as it follows from that of the definition.
    pub(super) path: PathBuf,
    /// The root of the project, without symbolic links. Nothing outside is read.
    project: PathBuf,
}

/// The folders above that of a definition, the nearest first, up to the root of the project; none if it is elsewhere.
pub(super) fn list_folders_above(path: &Path, project: &Path) -> Vec<FolderAbove> {
    let project = name_folder(project).canonicalize().ok();
    let (Some(project), Some(inside)) = (project, resolve_folder(path)) else { return Vec::new() };
    let Ok(below) = inside.strip_prefix(&project) else { return Vec::new() };
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let above = std::iter::successors(Some(folder), |folder| Some(find_parent(folder))).skip(1);
    above.take(below.components().count()).map(|path| FolderAbove { path, project: project.clone() }).collect()
}

/// Reads the agents in the nearest folder that has some, if the definition lacks an agent. Returns `false` if there was
/// nothing to read.
pub(super) fn read_agents_above(
    missing: &[String],
    above: &mut impl Iterator<Item = FolderAbove>,
    patterns: &[&str],
    reader: FileReader<'_>,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> bool {
    let lacks_agent = missing.iter().any(|file| file.ends_with(AGENT_SETTINGS_FILE));
    lacks_agent && above.any(|folder| read_files_below(&folder.path, &folder.project, patterns, reader, files))
}

/// The folder of a folder. One that is given by its place relative to the current folder may be above that.
fn find_parent(folder: &Path) -> PathBuf {
    match folder.components().next_back() {
        Some(Component::Normal(_)) => folder.parent().unwrap_or(Path::new("")).to_owned(),
        Some(Component::CurDir) | None => PathBuf::from(".."),
        _ => folder.join(".."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_above_are_named_from_the_definition_on() {
        let project = tempfile::tempdir().expect("a folder");
        let root = project.path();
        std::fs::create_dir_all(root.join("a/b")).expect("folders");
        std::fs::write(root.join("a/b/g.json"), "{}").expect("a file");
        let list = |project: &Path| -> Vec<PathBuf> {
            list_folders_above(&root.join("a/b/g.json"), project).into_iter().map(|folder| folder.path).collect()
        };
        assert_eq!(list(root), [root.join("a"), root.to_owned()]);
        assert_eq!(list(&root.join("a")), [root.join("a")]);
        // A definition in the root, and one outside of the project.
        assert_eq!(list(&root.join("a/b")), Vec::<PathBuf>::new());
        assert_eq!(list(Path::new("")), Vec::<PathBuf>::new());
    }

    #[test]
    fn parents_of_relative_folders() {
        let cases = [("", ".."), (".", ".."), ("..", "../.."), ("a", ""), ("a/b", "a"), ("/a", "/")];
        for (folder, parent) in cases {
            assert_eq!(find_parent(Path::new(folder)), Path::new(parent), "{folder}");
        }
    }
}
