//! The program `flowloom`: the command line and the terminal.
//!
//! The only crate that knows flags and prints. Data goes to stdout, everything else to stderr.
#![warn(missing_docs)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
mod print;

mod cli;
mod commands;
mod failure;
mod flags;
mod hint;
mod input_files;
mod inputs;
mod line_diff;
mod replace_file;
mod stop;
mod style;
mod terminal;

use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use flowloom_app::project_files::keep_user_mask;
use flowloom_core::code::Code;
use flowloom_formats::markdown::is_parser_panic;
use rustix::fs::Mode;
use rustix::process::umask;

use crate::cli::Cli;
use crate::commands::results::print_json;

/// The allocator of the program, where it is known to be faster; see docs/decisions/server-allocator.md.
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Exit code for writing to a closed pipe, as shells report it (128 + SIGPIPE).
const CLOSED_PIPE_EXIT_CODE: i32 = 141;

fn main() -> ExitCode {
    // The program is also the worker of its own sandbox, and of local models. The first must come first, while the process
    // has one thread; it builds folders for another user, so it does not inherit the mask below.
    let of_user = umask(Mode::WGRP | Mode::WOTH);
    if let Some(code) = flowloom_sandbox::worker_main(std::env::args_os()) {
        return code;
    }
    // Other users have no rights at anything that the program creates, except the files of projects.
    umask(Mode::RWXG | Mode::RWXO);
    keep_user_mask(of_user.as_raw_mode());
    if let Some(code) = flowloom_models_local::worker_main(std::env::args_os()) {
        return code;
    }
    std::panic::set_hook(end_without_output(std::panic::take_hook()));
    let cli = match Cli::parse_arguments() {
        Ok(cli) => cli,
        Err(error) => {
            let wants_json = std::env::args_os().any(|argument| argument == "--json");
            if wants_json && error.kind() == clap::error::ErrorKind::DisplayVersion {
                print_json(&serde_json::json!({"version": env!("CARGO_PKG_VERSION")}));
                return ExitCode::SUCCESS;
            }
            // Help and version are not errors; clap prints each to the right stream.
            let _ = error.print();
            if let Some(hint) = cli::hint_at_input(&error) {
                eprintln!("\nhint: {hint}");
            }
            if error.use_stderr() && wants_json {
                print_json(&commands::results::build_error(Code::UsageInvalid, &cli::describe_error(&error)));
            }
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    style::set_color_choice(cli.global.color);
    // This must come before there are threads.
    let environment = cli.global.load_env_file();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: cannot start the thread pool: {error}");
            return ExitCode::from(1);
        }
    };
    let code = runtime.block_on(commands::run_command(cli, environment));
    // Work that was interrupted ends with the process; do not wait for it.
    runtime.shutdown_background();
    ExitCode::from(code)
}

/// A panic hook.
type PanicHook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;

/// Ends the program when its output cannot be written, which `println!` reports as a panic: silently if the reader has closed
/// the pipe, as `head` does, and otherwise with an error.
fn end_without_output(defaults: PanicHook) -> PanicHook {
    Box::new(move |info| match info.payload_as_str().unwrap_or_default().split_once(": ") {
        Some((what, cause)) if what.starts_with("failed printing to") => {
            if cause.contains("Broken pipe") {
                std::process::exit(CLOSED_PIPE_EXIT_CODE);
            }
            // stderr may be on the same disk.
            let _ = writeln!(std::io::stderr(), "error[{}]: the output cannot be written: {cause}", Code::UsageInvalid);
            std::process::exit(1);
        }
        _ if is_parser_panic(info) => {}
        _ => defaults(info),
    })
}
