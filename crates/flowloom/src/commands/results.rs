//! Prints the results of commands to stdout, and their errors.

use flowloom_app::runs::summary;
use flowloom_core::code::Code;

use crate::cli::Global;
use crate::failure::{CommandError, LeftRun, print_error};
use crate::print;

/// Prints an error and returns the exit code. `is_run`: the command prints the summary of a run.
pub(super) fn report_error(error: CommandError, json: bool, is_run: bool) -> u8 {
    let CommandError { exit, code, message, left, problems } = error;
    match left {
        Some(LeftRun { run, status }) if json => print_json(&summary::summarize_left_run(run, status, &message)),
        // A command that has printed its value with the reason prints no second one.
        None if !json || print::has_printed() => {}
        None if is_run => print_json(&summary::summarize_rejection(None, code, &message)),
        None => {
            let mut value = build_error(code, &message);
            if !problems.is_empty() {
                value["problems"] = problems.into();
            }
            print_json(&value);
        }
        Some(_) => {}
    }
    print_error(code, "", &message);
    print_explanation(code);
    exit
}

/// Prints the command that explains an error.
pub(super) fn print_explanation(code: Code) {
    eprintln!("  for details: flowloom explain {code}");
}

/// An error as `--json` prints it.
pub(crate) fn build_error(code: Code, message: &str) -> serde_json::Value {
    serde_json::json!({"error": {"code": code, "message": message}})
}

/// Prints a JSON value to stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) {
    print::write_json(value, true);
}

/// Prints a JSON value to stdout, as one line.
pub(super) fn print_json_line(value: &impl serde::Serialize) {
    print::write_json(value, false);
}

/// Prints the result of a command: as JSON with `--json`, otherwise as text, if there is any.
pub(super) fn print_result(global: &Global, value: serde_json::Value, text: &str) {
    match global.json {
        true => print_json(&value),
        false if text.is_empty() => {}
        false => println!("{text}"),
    }
}
