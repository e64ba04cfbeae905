//! The worker that this crate's own tests start.

use std::process::ExitCode;

fn main() -> ExitCode {
    flowloom_sandbox::worker_main(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
