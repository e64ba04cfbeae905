//! The prompts of the library `inquire`, which writes texts to the terminal as they are. Only this module uses it, so that
//! no question, help text or option reaches the terminal with characters that control it.

use flowloom_core::code::Code;
use inquire::validator::Validation;
use inquire::{Confirm, InquireError, Select, Text};

use crate::failure::CommandError;
use crate::print::replace_controls;

/// Returns why an answer is not accepted, if it is not.
pub(super) type CheckAnswer = fn(&str) -> Option<&'static str>;

/// Prompts for one line of text that `check` accepts.
pub(super) fn prompt_text(
    question: &str,
    help: Option<&str>,
    check: Option<CheckAnswer>,
) -> Result<String, CommandError> {
    let (question, help) = (replace_controls(question), help.map(replace_controls));
    let mut prompt = Text::new(&question);
    prompt.help_message = help.as_deref();
    if let Some(check) = check {
        prompt = prompt.with_validator(move |text: &str| match check(text) {
            None => Ok(Validation::Valid),
            Some(problem) => Ok(Validation::Invalid(problem.into())),
        });
    }
    prompt.prompt().map_err(prompt_failure)
}

/// Prompts for yes or no.
pub(super) fn prompt_yes_or_no(question: &str) -> Result<bool, CommandError> {
    Confirm::new(&replace_controls(question)).prompt().map_err(prompt_failure)
}

/// Lets a person choose one of the options; the position of the chosen one.
pub(super) fn prompt_choice(question: &str, options: &[String]) -> Result<usize, CommandError> {
    let shown = options.iter().map(|option| show_option(option)).collect();
    let chosen = Select::new(&replace_controls(question), shown).raw_prompt().map_err(prompt_failure)?;
    Ok(chosen.index)
}

/// An option as it is shown. It takes one line, so that it cannot look like two.
fn show_option(option: &str) -> String {
    replace_controls(option).replace(['\n', '\t'], " ")
}

/// Maps a failed prompt to an error. Ctrl-C ends the program as it does elsewhere.
fn prompt_failure(error: InquireError) -> CommandError {
    match error {
        InquireError::OperationInterrupted => CommandError::new(Code::Interrupted, "interrupted at a question"),
        InquireError::OperationCanceled => CommandError::usage("the question was not answered"),
        other => CommandError::usage(format!("the prompt failed: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_one_line_without_controls() {
        assert_eq!(show_option("a\x1b]52;c;eA==\x07\n\u{9b}2J\u{202e}b"), "a ]52;c;eA==  \u{b7}2J\u{fffd}b");
    }
}
