//! The file of a SQLite database that is open, and whether it is still the one at its path. SQLite continues without an error
//! when its file is deleted or replaced: what it writes then is in a file without a name, and ends with the process.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::StoreError;

/// A file by its path, and by its device and number in the file system.
pub(crate) struct OpenedFile {
    path: PathBuf,
    /// `None` if it could not be looked up when it was opened.
    place: Option<(u64, u64)>,
}

impl OpenedFile {
    /// The file that was just opened at `path`.
    pub(crate) fn identify_file(path: &Path) -> OpenedFile {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let place = std::fs::metadata(&path).ok().map(|found| place_of(&found));
        OpenedFile { path, place }
    }

    /// Fails with `StoreGone` if there is no file at the path any more, or another one. What else is wrong with the path
    /// does not concern a file that is open.
    pub(crate) fn check_place(&self) -> Result<(), StoreError> {
        let is_replaced = match std::fs::metadata(&self.path) {
            Ok(found) if self.place.is_none_or(|place| place == place_of(&found)) => return Ok(()),
            Ok(_) => true,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => false,
            Err(_) => return Ok(()),
        };
        Err(StoreError::FileGone { file: self.path.clone(), is_replaced })
    }
}

fn place_of(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

#[cfg(test)]
mod tests {
    use flowloom_core::code::Code;

    use crate::db::sqlite::Sqlite;

    #[test]
    fn a_commit_to_a_file_that_is_gone_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, moved) = (folder.path().join("a.db"), folder.path().join("b.db"));
        let sqlite = Sqlite::open(&file).expect("a database");
        sqlite.run_script("PRAGMA journal_mode=WAL; create table t (a)").expect("created");
        let insert = || sqlite.run_transaction(|| sqlite.run_script("insert into t values (1)"));
        insert().expect("the file is there");
        std::fs::rename(&file, &moved).expect("moved");
        let gone = insert().expect_err("deleted");
        assert_eq!((gone.code(), gone.is_outage()), (Code::StoreGone, false));
        assert!(gone.to_string().contains("was deleted or moved"), "{gone}");
        std::fs::copy(&moved, &file).expect("copied");
        let gone = insert().expect_err("replaced").to_string();
        assert!(gone.contains("was replaced by another"), "{gone}");
        std::fs::rename(&moved, &file).expect("moved");
        insert().expect("the file is back");
        let count = sqlite.query_first("select count(*) from t", &[], |row| row.get::<i64>(0)).expect("a count");
        assert_eq!(count, Some(2), "what was refused is not stored");
    }
}
