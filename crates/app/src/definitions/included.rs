//! Distinguishes texts that are only included from definitions.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use flowloom_core::plan::Format;
use flowloom_formats::markdown;

use super::found::has_action;
use crate::config::Config;

/// A file of a folder with definitions.
pub(super) struct ReadFile {
    own: PathBuf,
    /// The other files that were read for it.
    included: BTreeSet<PathBuf>,
    /// Whether it may be there only to be included.
    is_text: bool,
}

impl ReadFile {
    /// A file, with the files that were read for it. They may include itself.
    pub(super) fn new<'a>(own: &Path, files: impl Iterator<Item = &'a Path>, is_text: bool) -> ReadFile {
        let files: Vec<&Path> = files.collect();
        // A definition of one file neither includes another one nor is included.
        if files.len() < 2 && !is_text {
            return ReadFile { own: own.to_owned(), included: BTreeSet::new(), is_text };
        }
        let own = canonicalize_path(own);
        let included = files.into_iter().map(canonicalize_path).filter(|path| *path != own).collect();
        ReadFile { own, included, is_text }
    }
}

fn canonicalize_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether a definition may be there only to be included: Markdown without an action.
pub(super) fn is_text(format: Option<Format>, bytes: &[u8], config: &Config) -> bool {
    format == Some(markdown::FORMAT) && !has_action(bytes, config)
}

/// Which of the files are texts that another one includes. Two files that include each other are both definitions.
pub(super) fn find_included(files: &[ReadFile]) -> Vec<bool> {
    let mut includers: HashMap<&Path, Vec<&Path>> = HashMap::new();
    for file in files {
        file.included.iter().for_each(|included| includers.entry(included).or_default().push(&file.own));
    }
    let is_included = |file: &ReadFile| {
        includers.get(file.own.as_path()).is_some_and(|all| all.iter().any(|other| !file.included.contains(*other)))
    };
    files.iter().map(|file| file.is_text && is_included(file)).collect()
}
