//! Folders as system calls read them. The folder of a file in the current folder has an empty path, which they refuse.

use std::path::Path;

/// A folder as the system calls read it: an empty path means the current folder.
pub fn name_folder(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// The folder of a file, as the system calls read it.
pub fn name_parent(file: &Path) -> &Path {
    name_folder(file.parent().unwrap_or(Path::new("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_path_is_the_current_folder() {
        assert_eq!((name_folder(Path::new("")), name_folder(Path::new("a"))), (Path::new("."), Path::new("a")));
        assert_eq!((name_parent(Path::new("f")), name_parent(Path::new("a/f"))), (Path::new("."), Path::new("a")));
    }
}
