//! The program `flowloom`: the command line and the terminal.
//!
//! The only crate that knows flags and prints. Data goes to stdout, everything else to stderr.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod commands;
mod failure;
mod inputs;
mod terminal;

use std::panic::PanicHookInfo;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;

/// What shells give for a program that wrote to a closed pipe.
const CLOSED_PIPE: i32 = 141;

fn main() -> ExitCode {
    // The program is also the worker of its own sandbox: before anything else, while there is one thread.
    if let Some(code) = flowloom_sandbox::worker_main(std::env::args_os()) {
        return code;
    }
    std::panic::set_hook(quiet_pipes(std::panic::take_hook()));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap knows where each goes.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: the program cannot start its threads: {error}");
            return ExitCode::from(1);
        }
    };
    let code = runtime.block_on(commands::run(cli));
    // A local model that was interrupted stops at its next token; nobody waits for it.
    runtime.shutdown_background();
    ExitCode::from(code)
}

/// What a panic says.
type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// Ends the program without a word when whoever reads its output has had enough, as `head` has: the library's way to say so
/// is a panic.
fn quiet_pipes(usual: Hook) -> Hook {
    Box::new(move |info| {
        let said = info.payload_as_str().unwrap_or_default();
        if said.starts_with("failed printing to") && said.contains("Broken pipe") {
            std::process::exit(CLOSED_PIPE);
        }
        usual(info);
    })
}
