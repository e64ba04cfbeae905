//! The worker program for this crate's own tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    flowloom_sandbox::worker_main(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
