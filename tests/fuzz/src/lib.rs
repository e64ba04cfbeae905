//! Fuzz targets for the readers of untrusted text, and their corpora.
//!
//! `make fuzz` searches for new inputs with libFuzzer. Tests replay the inputs that it found before: those that reach
//! different code (`corpus`), and those that once broke a promise (`findings`).

mod http_head;
mod streams;
mod targets;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

pub use targets::{TARGETS, Target};

/// Feeds a target the inputs of its corpus and its findings, below `folder`. Returns their number.
///
/// # Errors
///
/// The file with the first input that breaks a promise, and the message of the panic.
pub fn replay_inputs(target: &Target, folder: &Path) -> Result<usize, String> {
    let mut count = 0;
    for kind in ["corpus", "findings"] {
        for path in list_files(&folder.join(kind).join(target.name)).unwrap_or_default() {
            let input = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            try_input(target, &input).map_err(|message| format!("{}: {message}", path.display()))?;
            count += 1;
        }
    }
    Ok(count)
}

fn try_input(target: &Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })
}

/// The files of a folder, in the order of their names.
fn list_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = entries.collect::<io::Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}
