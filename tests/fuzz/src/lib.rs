//! Fuzzing of the readers of untrusted text, with the stable toolchain: targets, seeds, and a mutator.
//!
//! A target is an ordinary function that panics if a promise is broken, so that another fuzzer can drive it, too.

mod http_head;
mod mutator;
mod streams;
mod targets;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flowloom_core::hash::Hash;
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

/// Feeds a target until the limit, or until an input breaks a promise. Each input is given to `note_input` before. Returns
/// the number of inputs.
pub fn fuzz_target(
    target: &Target,
    mutator: &mut Mutator,
    limit: FuzzLimit,
    mut note_input: impl FnMut(&[u8]),
) -> Result<u64, Finding> {
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
        note_input(&input);
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

/// The seeds of a target: the common ones, and the same number of its own.
pub fn seeds_of(target: &Target, common: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let own = target.seeds.iter().map(|seed| seed.to_vec()).cycle();
    let count = if target.seeds.is_empty() { 0 } else { common.len() };
    common.iter().cloned().chain(own.take(count)).collect()
}

/// The folder with the inputs that once broke a promise of a target.
pub fn findings_folder(repository: &Path, target: &Target) -> PathBuf {
    repository.join("tests/fuzz/findings").join(target.name)
}

/// Feeds a target the inputs that once broke a promise. Returns their number.
pub fn replay_findings(target: &Target, repository: &Path) -> Result<usize, Finding> {
    let entries = std::fs::read_dir(findings_folder(repository, target)).into_iter().flatten().flatten();
    let inputs: Vec<Vec<u8>> = entries.filter_map(|entry| std::fs::read(entry.path()).ok()).collect();
    inputs.iter().try_for_each(|input| try_input(target, input.clone()))?;
    Ok(inputs.len())
}

/// Saves an input that breaks a promise, so that it is replayed from now on.
pub fn save_finding(target: &Target, repository: &Path, finding: &Finding) -> io::Result<PathBuf> {
    let folder = findings_folder(repository, target);
    std::fs::create_dir_all(&folder)?;
    let name = Hash::of_bytes(&finding.input).to_string().chars().take(16).collect::<String>();
    let path = folder.join(name);
    std::fs::write(&path, &finding.input)?;
    Ok(path)
}

/// The files of a folder with these extensions, in the order of their names.
fn list_files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let has_extension = |path: &PathBuf| {
        path.extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|extension| extensions.contains(&extension))
    };
    let mut files: Vec<_> = entries.filter(has_extension).collect();
    files.sort();
    files
}
