//! `make fuzz`: feeds every target for a time. Prints the first input that breaks a promise.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fuzz::{FuzzLimit, Mutator, TARGETS, fuzz_target, load_seeds};

/// Seconds for each target, if the first argument does not say.
const DEFAULT_SECONDS: u64 = 60;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let seconds = arguments.next().unwrap_or(DEFAULT_SECONDS);
    let number = arguments.next().unwrap_or(1);
    let seeds = load_seeds(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    for target in &TARGETS {
        let mut mutator = Mutator::new(seeds.clone(), number);
        match fuzz_target(target, &mut mutator, FuzzLimit::Time(Duration::from_secs(seconds))) {
            Ok(count) => println!("{}: {count} inputs", target.name),
            Err(finding) => {
                eprintln!("{}: {}\n{:?}", target.name, finding.message, String::from_utf8_lossy(&finding.input));
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
