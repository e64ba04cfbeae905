//! The other definitions of a project that read the files of a definition. A rename in such a file concerns them, too.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_app::config::Config;
use flowloom_app::config::project::CONFIG_FILE;
use flowloom_app::definitions::folder::list_files;
use flowloom_app::definitions::reader::OpenFiles;
use flowloom_app::definitions::source::Loader;

/// Maximum number and size of the files that are searched.
pub(super) const MAX_FILES: usize = 2_000;
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of other definitions that are compiled for one rename.
const MAX_COMPILED: usize = 200;

/// The files around a definition, with the open documents in the place of their files.
pub(super) struct ProjectFiles<'s> {
    /// The folders that the editor shows.
    pub(super) folders: &'s [PathBuf],
    pub(super) open_files: &'s OpenFiles,
    /// The configuration of the definition; without one nothing is compiled.
    pub(super) config: Option<Arc<Config>>,
}

impl ProjectFiles<'_> {
    /// The files of the project that may be definitions, except one: those of the folder with the configuration, or else of the
    /// folder in the editor, or of the file's own folder.
    pub(super) fn list_others(&self, main: &Path) -> Vec<PathBuf> {
        let configured = main.ancestors().skip(1).find(|folder| folder.join(CONFIG_FILE).is_file());
        let shown = || self.folders.iter().map(PathBuf::as_path).find(|folder| main.starts_with(folder));
        let mut files = configured.or_else(shown).map(list_files).unwrap_or_default();
        // Folders with parts of definitions are left out, unless the file is in one.
        files.extend(main.parent().into_iter().flat_map(list_files));
        files.sort();
        files.dedup();
        files.retain(|file| file != main);
        files.truncate(MAX_FILES);
        files
    }

    /// The definitions among `files` that read one of the files `read`. Texts for which `may_read` is false are not compiled.
    pub(super) fn find_readers(
        &self,
        files: Vec<PathBuf>,
        read: &HashSet<PathBuf>,
        may_read: impl Fn(&str) -> bool,
    ) -> Vec<PathBuf> {
        let Some(config) = &self.config else { return Vec::new() };
        let may_be_reader = |path: &PathBuf| read_text(self.open_files, path).is_some_and(|text| may_read(&text));
        let loader = Loader { open_files: Some(self.open_files), ..Loader::new(config) };
        let is_reader = |path: &PathBuf| {
            let source = loader.compile(path);
            let others = source.files().keys().map(Path::new).filter(|file| *file != path.as_path());
            others.map(resolve_path).any(|file| read.contains(&file))
        };
        files.into_iter().filter(may_be_reader).take(MAX_COMPILED).filter(is_reader).collect()
    }
}

/// The text of a file as the editor shows it, or else as it is stored; `None` if it is too large to be searched.
pub(super) fn read_text(open_files: &OpenFiles, path: &Path) -> Option<Arc<str>> {
    let is_small = || std::fs::metadata(path).is_ok_and(|file| file.len() <= MAX_FILE_BYTES);
    let stored = || is_small().then(|| std::fs::read_to_string(path).ok().map(Arc::from)).flatten();
    open_files.get(path).cloned().or_else(stored)
}

/// A path by which files are compared.
pub(super) fn resolve_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
