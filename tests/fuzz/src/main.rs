//! `make fuzz`: feeds every target for a time, or those that are named. Prints and saves the first input that breaks a
//! promise. An input that ends the process is left in the file of the input under way.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fuzz::{FuzzLimit, Mutator, TARGETS, Target, fuzz_target, load_seeds, save_finding, seeds_of};

/// Seconds for each target, if the first argument does not say.
const DEFAULT_SECONDS: u64 = 60;

fn main() -> ExitCode {
    let (numbers, names): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|text| text.parse::<u64>().is_ok());
    let mut numbers = numbers.iter().filter_map(|text| text.parse().ok());
    let limit = FuzzLimit::Time(Duration::from_secs(numbers.next().unwrap_or(DEFAULT_SECONDS)));
    let number = numbers.next().unwrap_or(1);
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let seeds = load_seeds(&repository);
    for target in TARGETS.iter().filter(|target| names.is_empty() || names.iter().any(|name| name == target.name)) {
        let mutator = Mutator::new(seeds_of(target, &seeds), number);
        if !feed_target(target, mutator, limit, &repository) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Feeds a target; `false` if an input breaks a promise.
fn feed_target(target: &Target, mut mutator: Mutator, limit: FuzzLimit, repository: &Path) -> bool {
    let path = std::env::temp_dir().join(format!("fuzz-{}", target.name));
    let under_way = File::create(&path).ok();
    let note_input = |input: &[u8]| {
        if let Some(file) = &under_way {
            let _ = file.write_all_at(input, 0).and_then(|()| file.set_len(input.len() as u64));
        }
    };
    println!("{}: the input under way is in {}", target.name, path.display());
    match fuzz_target(target, &mut mutator, limit, note_input) {
        Ok(count) => {
            println!("{}: {count} inputs", target.name);
            true
        }
        Err(finding) => {
            eprintln!("{}: {}\n{:?}", target.name, finding.message, String::from_utf8_lossy(&finding.input));
            match save_finding(target, repository, &finding) {
                Ok(path) => eprintln!("saved as {}", path.display()),
                Err(error) => eprintln!("it cannot be saved: {error}"),
            }
            false
        }
    }
}
