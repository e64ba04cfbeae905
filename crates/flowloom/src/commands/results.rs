//! Prints the results of commands to stdout.

use flowloom_app::runs::summary;
use flowloom_core::code::Code;

use crate::cli::Global;

/// An error as `--json` prints it.
pub(crate) fn build_error(code: Code, message: &str) -> serde_json::Value {
    serde_json::json!({"error": {"code": code, "message": message}})
}

/// Prints a JSON value to stdout.
pub(super) fn print_json(value: &impl serde::Serialize) {
    println!("{}", summary::to_indented_json(value));
}

/// Prints the result of a command: as JSON with `--json`, otherwise as text, if there is any.
pub(super) fn print_result(global: &Global, value: serde_json::Value, text: &str) {
    match global.json {
        true => print_json(&value),
        false if text.is_empty() => {}
        false => println!("{text}"),
    }
}
