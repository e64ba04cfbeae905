//! The clients that people use, as `scripts/fetch-clients.sh` installs them.
#![allow(clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where this repository begins.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of a set of clients, if they are installed; else the test says SKIP, unless FLOWLOOM_REQUIRE_CLIENTS is set.
#[allow(clippy::print_stderr)]
pub(crate) fn clients(set: &str) -> Option<PathBuf> {
    let folder = root().join(".tools/clients").join(set);
    if folder.join("pinned").exists() {
        return folder.canonicalize().ok();
    }
    assert!(std::env::var_os("FLOWLOOM_REQUIRE_CLIENTS").is_none(), "run scripts/fetch-clients.sh");
    eprintln!("SKIP: the clients are not installed: scripts/fetch-clients.sh");
    None
}

/// What a program prints; it must succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}
