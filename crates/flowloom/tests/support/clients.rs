//! External clients, installed by `scripts/fetch-clients.sh`.
#![allow(clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Root of the repository.
pub(crate) fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of a set of clients. If it is not installed, prints SKIP, or panics if FLOWLOOM_REQUIRE_CLIENTS is set.
#[allow(clippy::print_stderr)]
pub(crate) fn find_clients(set: &str) -> Option<PathBuf> {
    let folder = repository_root().join(".tools/clients").join(set);
    if folder.join("pinned").exists() {
        return folder.canonicalize().ok();
    }
    assert!(std::env::var_os("FLOWLOOM_REQUIRE_CLIENTS").is_none(), "run scripts/fetch-clients.sh");
    eprintln!("SKIP: the clients are not installed: scripts/fetch-clients.sh");
    None
}

/// Runs a program that must succeed. Returns its output.
pub(crate) fn run_successfully(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}
