//! Errors of commands: printed as one line on stderr with code and hint, and mapped to an exit code.

use flowloom_app::blocks::BlockError;
use flowloom_app::config::error::ConfigError;
use flowloom_app::definitions::error::DefinitionError;
use flowloom_app::definitions::source::LoadedDefinition;
use flowloom_app::error::AppError;
use flowloom_app::keys::UnknownScope;
use flowloom_app::runs::client_calls::NotAnAnswer;
use flowloom_app::runs::inputs::InvalidBudget;
use flowloom_app::runs::open_steps::NoOpenStep;
use flowloom_app::schedule_error::ScheduleError;
use flowloom_app::times::InvalidTime;
use flowloom_app::workflow_tests::file::TestFileError;
use flowloom_core::code::Code;
use flowloom_core::diagnostic::find_similar_name;
use flowloom_core::error::StepFailure;
use flowloom_core::id::RunId;
use flowloom_core::status::Status;
use flowloom_runtime::causes::log_causes;
use flowloom_runtime::{JournalError, RunError};
use flowloom_server::ServeError;
use flowloom_store::StoreError;

use crate::flags::{append_hint, hint_for_error, hint_for_failure, hint_for_serve};
use crate::hint;
use crate::style::{Style, paint_text};
use crate::terminal::diagnostics::print_diagnostics;

/// An error that ends a command.
#[derive(Clone, Debug)]
pub(crate) struct CommandError {
    /// The exit code of the program.
    pub(crate) exit: u8,
    /// The error code.
    pub(crate) code: Code,
    /// The failure, in one sentence.
    pub(crate) message: String,
    /// The run that the program left because it was stopped.
    pub(crate) left: Option<LeftRun>,
    /// The problems of the definition that the command needs, as JSON.
    pub(crate) problems: Vec<serde_json::Value>,
}

/// Whether a run continues without this program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeftRun {
    pub(crate) run: RunId,
    pub(crate) status: Status,
}

/// The result of a command: the exit code of a finished command, or an error.
pub(crate) type CommandResult = Result<u8, CommandError>;

/// An error as the terminal shows it. `place` is empty, or ` at ` and a path.
pub(crate) fn format_error(code: Code, place: &str, message: &str) -> String {
    format!("error[{code}]{place}: {message}")
}

/// Prints the error of a run or of its step to stderr.
pub(crate) fn print_failure(code: Code, place: &str, message: &str) {
    print_error(code, place, &append_hint(message, hint_for_failure(code)));
}

/// Prints an error to stderr.
pub(crate) fn print_error(code: Code, place: &str, message: &str) {
    let label = paint_text(Style::Bad, &format!("error[{code}]"));
    eprintln!("{label}{place}: {message}");
}

impl CommandError {
    /// An error outside of a run, with the exit code of its error code.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> CommandError {
        CommandError {
            exit: code.category().exit_code(),
            code,
            message: message.into(),
            left: None,
            problems: Vec::new(),
        }
    }

    /// Prints the problems of a definition, and returns the error that it cannot be used. That its file cannot be read is one
    /// error, and not a problem of a definition.
    pub(crate) fn report_invalid_definition(source: &LoadedDefinition, message: impl Into<String>) -> CommandError {
        if let [only] = source.compiled.diagnostics.as_slice()
            && only.code == Code::Unreadable
        {
            let error = CommandError::new(Code::Unreadable, only.message.clone());
            return CommandError { problems: source.problems(), ..error };
        }
        print_diagnostics(source);
        CommandError { problems: source.problems(), ..CommandError::usage(message) }
    }

    /// The program was stopped while it drove a run.
    pub(crate) fn of_interruption(run: RunId) -> CommandError {
        let (resume, cancel) =
            (hint::command_line(&format!("resume {run}")), hint::command_line(&format!("cancel {run}")));
        let message =
            format!("interrupted; finished steps are stored; continue with {resume}, or cancel with {cancel}");
        CommandError {
            left: Some(LeftRun { run, status: Status::Interrupted }),
            ..CommandError::new(Code::Interrupted, message)
        }
    }

    /// The program was stopped while a worker drove a run, which continues.
    pub(crate) fn of_detachment(run: RunId) -> CommandError {
        let (show, cancel) =
            (hint::command_line(&format!("show {run} --follow")), hint::command_line(&format!("cancel {run}")));
        let message = format!(
            "stopped following; the run stays with Restate and its workers; follow it with {show}, or cancel with {cancel}"
        );
        CommandError {
            left: Some(LeftRun { run, status: Status::Running }),
            ..CommandError::new(Code::Interrupted, message)
        }
    }

    /// Adds the name that was probably meant, if no object has the given one.
    pub(crate) fn suggest_known_name<N: AsRef<str>>(mut self, given: &str, known: &[N]) -> CommandError {
        let is_known = known.iter().any(|name| name.as_ref() == given);
        let meant = find_similar_name(given, known.iter().map(AsRef::as_ref)).filter(|_| !is_known);
        self.message.extend(meant.map(|meant| format!("; did you mean {meant}?")));
        self
    }

    /// A usage error, with exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> CommandError {
        CommandError::new(Code::UsageInvalid, message)
    }
}

impl From<AppError> for CommandError {
    /// The causes go to the log.
    fn from(error: AppError) -> CommandError {
        log_causes(error.code(), &error);
        let message = append_hint(&error.to_string(), hint_for_error(&error)).into_owned();
        CommandError::new(error.code(), message)
    }
}

impl From<TestFileError> for CommandError {
    fn from(error: TestFileError) -> CommandError {
        log_causes(error.code(), &error);
        CommandError::new(error.code(), error.to_string())
    }
}

impl From<ServeError> for CommandError {
    fn from(error: ServeError) -> CommandError {
        log_causes(error.code(), &error);
        let message = append_hint(&error.to_string(), hint_for_serve(&error)).into_owned();
        CommandError::new(error.code(), message)
    }
}

/// The errors that commands meet, each through [`AppError`].
macro_rules! command_error_from {
    ($($error:ty),*) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> CommandError {
                AppError::from(error).into()
            }
        })*
    };
}

command_error_from!(
    BlockError,
    ConfigError,
    DefinitionError,
    InvalidBudget,
    JournalError,
    NoOpenStep,
    NotAnAnswer,
    RunError,
    ScheduleError,
    StepFailure,
    StoreError,
    InvalidTime,
    UnknownScope
);
