//! The files of users, below one folder. Files directly in the folder are the operator's. Each other user has a folder
//! of their own in `.users`, and can also read the operator's files.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use flowloom_core::hash::Hash;

use super::error::FileError;
use super::file_sizes::{FileSizes, SizeChange, measure_folder};
use super::files::FileFolder;

/// The folder that contains the folders of users.
const USERS_FOLDER: &str = ".users";

/// Maximum length of the name of a user's folder, in bytes. File systems allow 255.
const MAX_NAME_BYTES: usize = 200;

/// The number of bytes that the files of a user may have; `None` if there is no limit.
pub type FileLimit = dyn Fn(&str) -> Option<u64> + Send + Sync;

/// The files that file functions can access.
#[derive(Clone)]
pub struct UserFiles {
    root: PathBuf,
    /// The user whose files are directly in `root`; `None` if all users share them.
    operator: Option<Arc<str>>,
    limit: Option<Arc<FileLimit>>,
    sizes: Arc<FileSizes>,
}

impl UserFiles {
    /// Files below `root` that all users share.
    pub fn new(root: impl Into<PathBuf>) -> UserFiles {
        UserFiles { root: root.into(), operator: None, limit: None, sizes: Arc::default() }
    }

    /// Gives each user other than `operator` a folder of their own.
    pub fn with_operator(self, operator: impl Into<Arc<str>>) -> UserFiles {
        UserFiles { operator: Some(operator.into()), ..self }
    }

    /// Limits the size of the folders of users.
    pub fn with_limit(self, limit: Arc<FileLimit>) -> UserFiles {
        UserFiles { limit: Some(limit), ..self }
    }

    /// Measures the files of a user, in bytes. `None` if the user has no folder of their own. Fails if the folder cannot be
    /// read.
    pub fn measure_bytes(&self, user: &str) -> std::io::Result<Option<u64>> {
        self.own_folder(user).map(|own| measure_folder(&own.to_path())).transpose()
    }

    /// Reads a file as UTF-8 text.
    pub(super) fn read_text(&self, user: &str, path: &str) -> Result<String, FileError> {
        let shared = self.shared_folder();
        let Some(own) = self.own_folder(user) else { return shared.read_text(path) };
        match own.read_text(path) {
            Err(FileError::Missing { .. }) if !shared.is_in_subfolder(path, USERS_FOLDER) => shared.read_text(path),
            read => read,
        }
    }

    /// Writes `content` to a file atomically, creating missing folders. Returns the number of bytes.
    pub(super) fn write_text(&self, user: &str, path: &str, content: &str) -> Result<usize, FileError> {
        let Some(own) = self.own_folder(user) else { return self.shared_folder().write_text(path, content) };
        let Some(limit) = self.limit.as_ref().and_then(|limit| limit(user)) else {
            return own.write_text(path, content);
        };
        let change = SizeChange { added: content.len() as u64, replaced: own.size_of_file(path)? };
        self.sizes.reserve_bytes(user, &own.to_path(), change, limit)?;
        own.write_text(path, content).inspect_err(|_| self.sizes.release_bytes(user, change))
    }

    fn shared_folder(&self) -> FileFolder {
        FileFolder::new(self.root.clone(), Vec::new())
    }

    /// The folder of a user; `None` for the operator, and if all users share the files.
    fn own_folder(&self, user: &str) -> Option<FileFolder> {
        let operator = self.operator.as_deref()?;
        let below = || vec![OsString::from(USERS_FOLDER), folder_name(user).into()];
        (user != operator).then(|| FileFolder::new(self.root.clone(), below()))
    }
}

/// The name of a user's folder: two users never have the same, also where the case of letters is ignored.
fn folder_name(user: &str) -> String {
    let mut name = String::new();
    for (at, byte) in user.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'@' => name.push(char::from(byte)),
            b'.' if at > 0 => name.push('.'),
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    // No encoded byte begins with "%h".
    if name.len() > MAX_NAME_BYTES { format!("%h{}", Hash::of_bytes(user.as_bytes())) } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_folder_of_their_own() {
        let names = ["ann", "Ann", "..", ".", "a/b", "ann@example.com", "安娜", &"x".repeat(256), &"X".repeat(256)];
        let folders: Vec<String> = names.iter().map(|name| folder_name(name)).collect();
        assert_eq!(folders[..6], ["ann", "%41nn", "%2e.", "%2e", "a%2fb", "ann@example.com"]);
        assert!(folders.iter().all(|name| name.len() <= MAX_NAME_BYTES), "{folders:?}");
        let distinct: std::collections::BTreeSet<String> = folders.iter().map(|name| name.to_lowercase()).collect();
        assert_eq!(distinct.len(), names.len());
    }
}
