//! The flags that help with an error. The messages of other crates are also read over HTTP and in editors, so they name no
//! flags; the terminal adds these hints.

use std::borrow::Cow;

use flowloom_app::config::error::ConfigError;
use flowloom_app::error::AppError;
use flowloom_core::code::Code;
use flowloom_runtime::RunError;
use flowloom_server::ServeError;
use flowloom_store::{BackupError, Corruption, StoreError};

/// The hint of an error of a use case.
pub(crate) fn hint_for_error(error: &AppError) -> Option<&'static str> {
    match error {
        AppError::Store(error) => hint_for_store(error),
        AppError::Config(ConfigError::ForeignFile { .. }) => Some("name it with --config to trust it"),
        AppError::Run(RunError::NothingFailed) => Some("name it with --from PATH"),
        AppError::Failed(failure) | AppError::Run(RunError::Rejected(failure)) => hint_for_input(failure.code),
        _ => None,
    }
}

/// The hint of the failure with which a start was rejected.
fn hint_for_input(code: Code) -> Option<&'static str> {
    (code == Code::InputMissing).then_some("give it with -i NAME=VALUE")
}

/// The hint of an error of the server's start.
pub(crate) fn hint_for_serve(error: &ServeError) -> Option<&'static str> {
    match error {
        ServeError::App(error) => hint_for_error(error),
        ServeError::PublicUrl(_) => Some("set it with --public-url, or with public_url in [server]"),
        _ => None,
    }
}

fn hint_for_store(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::Outage(error) => hint_for_store(error),
        StoreError::Sqlite(_) if error.is_read_only() => Some(OR_OTHER_FOLDER),
        StoreError::Sqlite(_) if error.is_damage() => Some(READ_DATA),
        StoreError::FolderInUse(_) => Some(OTHER_FOLDER),
        StoreError::FolderIsFile(_) | StoreError::Newer { is_file: true, .. } => Some(OR_OTHER_FOLDER),
        // The command reads the database of the data folder, and the file may be a backup.
        StoreError::Corrupt(
            Corruption::Backup { .. }
            | Corruption::File(_)
            | Corruption::NotSqlite(_)
            | Corruption::SchemaVersion(_)
            | Corruption::Empty,
        ) => None,
        StoreError::Corrupt(_) => Some(READ_DATA),
        StoreError::ReadableByOthers { .. } => {
            Some("or use it as it is with --allow-readable, or the setting allow_readable")
        }
        StoreError::Backup(BackupError::DatabaseExists(_)) => Some("--replace replaces it with the backup"),
        StoreError::Backup(BackupError::Damaged { .. }) => Some("--allow-damage restores it as it is"),
        _ => None,
    }
}

const OTHER_FOLDER: &str = "choose another folder with --data-dir";
const OR_OTHER_FOLDER: &str = "or choose another folder with --data-dir";
const READ_DATA: &str = "flowloom doctor --read-data reads all of it";

/// The hint of an error that a step recorded.
pub(crate) fn hint_for_failure(code: Code) -> Option<&'static str> {
    (code == Code::ModelNone).then_some("name one with --model provider:model")
}

/// The hints of errors in definitions.
const DEFINITION_HINTS: [(Code, &str); 3] = [
    (Code::UnknownFormat, "or name the format with --as"),
    (Code::DanglingEdge, "--lenient leaves it out"),
    (Code::ConversionLoss, "leave out --strict to convert the rest"),
];

/// The hint of a problem of a definition; warnings have none.
pub(crate) fn hint_for_diagnostic(code: Code, is_error: bool) -> Option<&'static str> {
    let hint = DEFINITION_HINTS.iter().find(|(known, _)| *known == code).map(|(_, hint)| *hint);
    hint.filter(|_| is_error)
}

/// A message with a hint at its end.
pub(crate) fn append_hint<'m>(message: &'m str, hint: Option<&str>) -> Cow<'m, str> {
    match hint {
        Some(hint) => Cow::Owned(format!("{message}; {hint}")),
        None => Cow::Borrowed(message),
    }
}
