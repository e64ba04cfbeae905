//! The other definitions of a project that read the files of a definition. A rename in such a file concerns them, too.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use flowloom_app::config::Config;
use flowloom_app::config::project::CONFIG_FILE;
use flowloom_app::definitions::folder::list_files;
use flowloom_app::definitions::source::Loader;

use super::check::is_markdown;
use super::features::Opened;
use super::state::Snapshot;
use super::workspace::{MAX_FILES, read_text};
use crate::analysis::rename::Replacement;

/// Maximum number of other definitions that are compiled for one rename.
const MAX_COMPILED: usize = 200;

/// The files of a project that may be definitions, except one: those of the folder with the configuration, or else of the folder
/// in the editor, or of the file's own folder.
pub(super) fn list_other_files(snapshot: &Snapshot, main: &Path) -> Vec<PathBuf> {
    let configured = main.ancestors().skip(1).find(|folder| folder.join(CONFIG_FILE).is_file());
    let shown = || snapshot.folders.iter().map(PathBuf::as_path).find(|folder| main.starts_with(folder));
    let Some(folder) = configured.or_else(shown).or_else(|| main.parent()) else { return Vec::new() };
    let mut files = list_files(folder);
    // Folders with parts of definitions are left out, unless the file is in one.
    files.extend(main.parent().into_iter().flat_map(list_files));
    files.sort();
    files.dedup();
    files.retain(|file| file != main);
    files.truncate(MAX_FILES);
    files
}

/// Those of the definitions that read one of the files. `may_read` says of a text whether it is worth compiling.
pub(super) fn find_readers(
    opened: &Opened<'_>,
    files: Vec<PathBuf>,
    read: &HashSet<PathBuf>,
    may_read: impl Fn(&Path, &str) -> bool,
) -> Vec<PathBuf> {
    let Some(config) = opened.checked.as_ref().and_then(|checked| checked.config.clone()) else { return Vec::new() };
    let is_worth_it = |path: &PathBuf| read_text(opened.snapshot, path).is_some_and(|text| may_read(path, &text));
    let candidates = files.into_iter().filter(is_worth_it).take(MAX_COMPILED);
    candidates.filter(|path| list_read_files(opened.snapshot, &config, path).any(|file| read.contains(&file))).collect()
}

/// The files that a definition reads besides its own.
fn list_read_files(snapshot: &Snapshot, config: &Config, path: &Path) -> impl Iterator<Item = PathBuf> {
    let loader = Loader { open_files: Some(snapshot.documents.open_files()), ..Loader::new(config) };
    let own = path.to_owned();
    let files: Vec<PathBuf> = loader.compile(path).files().keys().map(PathBuf::from).collect();
    files.into_iter().filter(move |file| *file != own).map(|file| resolve_path(&file))
}

/// A path by which files are compared.
pub(super) fn resolve_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Fails if another workflow includes a text that changes: it would read a variable that only this definition has.
pub(super) fn check_includers(opened: &Opened<'_>, replacements: &[Replacement]) -> Result<(), String> {
    let main = Path::new(&opened.definition.main().path);
    if !is_markdown(main) {
        return Ok(());
    }
    let changed: HashSet<PathBuf> =
        replacements.iter().map(|replacement| resolve_path(Path::new(&replacement.file))).collect();
    let own: HashSet<&Path> = opened.definition.files.iter().map(|file| Path::new(&file.path)).collect();
    let mut files = list_other_files(opened.snapshot, main);
    files.retain(|file| is_markdown(file) && !own.contains(file.as_path()));
    let readers = find_readers(opened, files, &changed, |_, text| text.contains("include"));
    let Some(reader) = readers.first() else { return Ok(()) };
    let folder = main.parent().unwrap_or(main);
    let shown = reader.strip_prefix(folder).unwrap_or(reader).display();
    Err(format!("{shown} includes a text that would change, too, and has its own names: rename it there by hand first"))
}
