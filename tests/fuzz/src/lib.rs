//! Fuzzing of the readers of untrusted text, with the stable toolchain: targets, seeds, and a mutator.
//!
//! A target is an ordinary function that panics if a promise is broken, so that another fuzzer can drive it, too.

mod mutator;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

pub use mutator::Mutator;
pub use targets::{TARGETS, Target};

/// An input that breaks a promise of a target.
#[derive(Debug)]
pub struct Finding {
    /// The input.
    pub input: Vec<u8>,
    /// The message of the panic.
    pub message: String,
}

/// When fuzzing ends.
#[derive(Clone, Copy, Debug)]
pub enum FuzzLimit {
    /// After this time.
    Time(Duration),
    /// After so many inputs.
    Inputs(u64),
}

/// Feeds a target until the limit, or until an input breaks a promise. Returns the number of inputs.
pub fn fuzz_target(target: &Target, mutator: &mut Mutator, limit: FuzzLimit) -> Result<u64, Finding> {
    let since = Instant::now();
    let mut count = 0;
    loop {
        let is_over = match limit {
            FuzzLimit::Time(time) => since.elapsed() >= time,
            FuzzLimit::Inputs(inputs) => count >= inputs,
        };
        if is_over {
            return Ok(count);
        }
        let input = mutator.next_input();
        try_input(target, input)?;
        count += 1;
    }
}

fn try_input(target: &Target, input: Vec<u8>) -> Result<(), Finding> {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
    outcome.map_err(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Finding { input, message: message.unwrap_or_default() }
    })
}

/// The seeds: the texts of the attacks, and the definitions of the examples.
pub fn load_seeds(repository: &Path) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for file in list_files(&repository.join("tests/attacks"), &["json"]) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let file: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let rows = file["rows"].as_array().into_iter().flatten();
        let inputs = rows.flat_map(|row| row["inputs"].as_array().into_iter().flatten());
        seeds.extend(inputs.filter_map(|input| input.as_str().map(|text| text.as_bytes().to_vec())));
    }
    for folder in ["flow", "graph", "markdown", "pipeline", "steps"] {
        let files = list_files(&repository.join("examples").join(folder), &["json", "mdx"]);
        seeds.extend(files.iter().filter_map(|file| std::fs::read(file).ok()));
    }
    seeds
}

/// The files of a folder with these extensions, in the order of their names.
fn list_files(folder: &Path, extensions: &[&str]) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let has_extension = |path: &std::path::PathBuf| {
        path.extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| extensions.contains(&extension))
    };
    let mut files: Vec<_> = entries.filter(has_extension).collect();
    files.sort();
    files
}
