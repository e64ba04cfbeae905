//! [`ConfigError`]: what can be wrong with the configuration.

use std::path::{Path, PathBuf};

use flowloom_core::code::Code;
use flowloom_core::diagnostic::Position;
use flowloom_core::error::StepFailure;
use flowloom_store::StoreError;
use opentelemetry_otlp::ExporterBuildError;

use super::syntax::FileProblem;
use crate::runs::inputs::InvalidBudget;

/// An error of the configuration, with the place of the setting.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is no TOML, or has unknown or wrong settings.
    #[error("{}", list_places(path, problems))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The problems, in the order in which they were found.
        problems: Vec<FileProblem>,
    },
    /// A line of the file `.env` cannot be parsed. It is not shown, because it may contain a secret.
    #[error("{}:{line}: expected NAME=VALUE; put a value with spaces, quotes or # into quotes", path.display())]
    EnvLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A file of the project, found in a folder further up, belongs to another user.
    #[error(
        "{} belongs to another user (uid {owner}), who could run commands with it; to trust it, name the configuration \
         {} yourself",
        path.display(), path.with_file_name("flowloom.toml").display()
    )]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
    },
    /// An environment variable has a wrong value.
    #[error("invalid {variable}: {value:?}")]
    Variable {
        /// The variable.
        variable: String,
        /// Its value.
        value: String,
    },
    /// A setting has a wrong value.
    #[error("{setting} must be {expected}, not {value:?} ({origin})")]
    Value {
        /// The setting.
        setting: &'static str,
        /// The values that it may have.
        expected: String,
        /// Its value.
        value: String,
        /// Where the value comes from.
        origin: String,
    },
    /// A setting of the file has a wrong value.
    #[error("{}:{position}: {setting} must be {expected}{}", path.display(), show_value(value))]
    Setting {
        /// The file.
        path: PathBuf,
        /// The place of the value.
        position: Position,
        /// The setting.
        setting: String,
        /// The values that it may have.
        expected: String,
        /// Its value; `None` if it is a table.
        value: Option<String>,
    },
    /// The URL of the database is wrong. Messages never contain it, because it may contain a password.
    #[error("{source} ({origin})")]
    Database {
        /// The problem with the URL.
        source: StoreError,
        /// Where the URL comes from.
        origin: String,
    },
    /// The address of the trace collector is wrong.
    #[error("telemetry.otlp: {0}")]
    Telemetry(#[source] ExporterBuildError),
    /// A table of the file is wrong as a whole.
    #[error("[{table}] {problem}")]
    Table {
        /// The table.
        table: String,
        /// The problem in the table.
        problem: TableProblem,
    },
}

/// A wrong value at the end of a message. What may be a password is left out.
fn show_value(value: &Option<String>) -> String {
    let shown = value.as_ref().filter(|value| !value.contains('@'));
    shown.map(|value| format!(", not {value:?}")).unwrap_or_default()
}

/// A problem of a table.
#[derive(Debug, thiserror::Error)]
pub enum TableProblem {
    /// `[search]` has settings but no provider.
    #[error("needs a provider")]
    NoProvider,
    /// `[search]` has an unknown provider.
    #[error("provider must be one of {}, not {name:?}", known.join(", "))]
    UnknownProvider {
        /// The provider.
        name: String,
        /// The known providers.
        known: Vec<&'static str>,
    },
    /// The provider of `[search]` has no default address.
    #[error("needs the url of your {0}: http://HOST/search")]
    NoSearchUrl(String),
    /// `[engine]` has no address of a Restate server.
    #[error("restate: {0:?} is not an address; expected e.g. http://127.0.0.1:8080")]
    NoRestateUrl(String),
    /// `[engine]` names a Restate server, and runs are kept in memory.
    #[error("restate needs a database that its workers share: durability must not be memory")]
    RestateInMemory,
    /// A budget cannot be parsed.
    #[error("budget: {0}")]
    Budget(#[source] InvalidBudget),
    /// An age cannot be parsed.
    #[error("invalid age {0:?}; expected a number and a unit, such as 30d or 12h")]
    Age(String),
    /// A status is unknown or not final.
    #[error("{name:?} is not a final status; expected one of {}", expected.join(", "))]
    Status {
        /// The status.
        name: String,
        /// The final statuses.
        expected: Vec<&'static str>,
    },
    /// A quota is unknown.
    #[error("there is no quota {name}; expected one of {}", expected.join(", "))]
    Quota {
        /// The name.
        name: String,
        /// The names of all quotas.
        expected: Vec<&'static str>,
    },
    /// The amount of a quota is negative or not finite.
    #[error("{quota} must be 0 or more")]
    QuotaAmount {
        /// The quota.
        quota: &'static str,
    },
    /// An entry of `hosts` is not a host.
    #[error("hosts: {0:?} is not a host; expected e.g. shop.example, *.shop.example or 127.0.0.1:8080")]
    NotAHost(String),
    /// A function of a stored run has both an address and a workflow, or neither.
    #[error("needs either a url or a workflow")]
    UrlOrWorkflow,
    /// The schema of a function's arguments is not valid.
    #[error("parameters is not a valid JSON Schema: {0}")]
    BadSchema(String),
    /// The workflow of a function cannot be read.
    #[error("workflow cannot be read: {0}")]
    UnreadableWorkflow(String),
    /// A setting names a tool that the server does not have.
    #[error("{setting}: the server has no tool {tool}; {hint}")]
    UnknownTool {
        /// The setting.
        setting: &'static str,
        /// The tool.
        tool: String,
        /// The names that are meant or possible.
        hint: String,
    },
    /// The name of an MCP server is a namespace of built-in functions.
    #[error("is a namespace of built-in functions; choose another")]
    ReservedName,
    /// The name of an MCP server has other characters.
    #[error("is not a valid server name: use letters, digits, _ and -")]
    InvalidName,
    /// An MCP server has both a command and an address, or neither.
    #[error("needs either a command or a url")]
    CommandOrUrl,
    /// An MCP server with an address has settings of a command.
    #[error("has a url; args and env are for a command")]
    ArgumentsWithUrl,
    /// An MCP server with a command has headers.
    #[error("has a command; headers are for a url")]
    HeadersWithCommand,
}

impl ConfigError {
    /// The file that is wrong, and the place in it; `None` if it is no file.
    pub fn find_place(&self) -> Option<(&Path, Position)> {
        let start = Position { line: 1, column: 1 };
        match self {
            ConfigError::Unreadable { path, .. } | ConfigError::ForeignFile { path, .. } => Some((path, start)),
            ConfigError::Malformed { path, problems } => {
                Some((path, problems.first().map_or(start, |problem| problem.position)))
            }
            ConfigError::EnvLine { path, line } => Some((path, Position { line: *line, column: 1 })),
            ConfigError::Setting { path, position, .. } => Some((path, *position)),
            _ => None,
        }
    }

    /// An error of a whole table.
    pub(crate) fn in_table(table: impl Into<String>, problem: TableProblem) -> ConfigError {
        ConfigError::Table { table: table.into(), problem }
    }

    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            ConfigError::Unreadable { .. }
            | ConfigError::Malformed { .. }
            | ConfigError::EnvLine { .. }
            | ConfigError::ForeignFile { .. }
            | ConfigError::Variable { .. }
            | ConfigError::Value { .. }
            | ConfigError::Setting { .. }
            | ConfigError::Database { .. }
            | ConfigError::Telemetry(_)
            | ConfigError::Table { .. } => Code::ConfigInvalid,
        }
    }
}

impl From<ConfigError> for StepFailure {
    fn from(error: ConfigError) -> StepFailure {
        StepFailure::new(error.code(), error.to_string())
    }
}

/// The problems of a file, each with its place.
fn list_places(path: &Path, problems: &[FileProblem]) -> String {
    let line = |FileProblem { position, message }: &FileProblem| format!("{}:{position}: {message}", path.display());
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}
