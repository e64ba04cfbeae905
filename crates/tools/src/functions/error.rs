//! Errors of functions and of their files.

use std::io;
use std::path::PathBuf;

use flowloom_core::code::Code;
use flowloom_core::error::Retry;
use flowloom_core::json::JsonError;

/// Why a function has no result.
#[derive(Debug, thiserror::Error)]
pub enum FunctionError {
    /// No function has this id.
    #[error("there is no function {function}; {}", suggest_function(similar.as_deref(), known))]
    Unknown {
        /// The id.
        function: String,
        /// An id that is probably meant.
        similar: Option<String>,
        /// All ids.
        known: Vec<String>,
    },
    /// A required argument is missing.
    #[error("{function} needs the argument {argument:?}")]
    ArgumentMissing {
        /// The function.
        function: &'static str,
        /// The argument.
        argument: &'static str,
    },
    /// A web search would send a secret to the search engine.
    #[error("the secret {name} cannot be in the query of a web search: it would reach the search engine")]
    SecretInQuery {
        /// Name of the secret.
        name: String,
    },
    /// The agent has no grant.
    #[error("Agent {agent} denied: {function}")]
    Denied {
        /// The agent.
        agent: String,
        /// The function.
        function: String,
    },
    /// No agent of this name is configured.
    #[error("there is no agent {agent}; {}", suggest_agents(agent, known))]
    UnknownAgent {
        /// The agent.
        agent: String,
        /// The configured agents.
        known: Vec<String>,
    },
    /// No search engine is configured.
    #[error("tool::web_search needs a search provider; set one in [search] of the configuration")]
    NoSearchProvider,
    /// The address of the search engine is wrong.
    #[error("the url of [search] is not valid: {0}")]
    InvalidSearchUrl(#[source] url::ParseError),
    /// The response of the search engine is not JSON.
    #[error("cannot read the response of the search provider {provider}: {source}")]
    SearchResponseNotJson {
        /// The search engine.
        provider: &'static str,
        /// The reason.
        source: JsonError,
    },
    /// The response of the search engine is of another kind.
    #[error("cannot read the response of the search provider {provider}: it is not a JSON object")]
    SearchResponseNotAnObject {
        /// The search engine.
        provider: &'static str,
    },
    /// An endpoint took too long.
    #[error("the function {function} did not answer within {limit_ms} ms")]
    EndpointTimeout {
        /// The function.
        function: String,
        /// The timeout of the function, in milliseconds.
        limit_ms: u64,
    },
    /// An endpoint or a search engine answered with an error status; the text is its own.
    #[error("{endpoint} answered with status {status}{}", after_colon(excerpt))]
    ErrorStatus {
        /// The endpoint that responded.
        endpoint: String,
        /// The status.
        status: u16,
        /// The start of the response.
        excerpt: String,
        /// Whether a retry may succeed.
        retry: Retry,
    },
    /// No folder for files is configured.
    #[error("{function} needs a folder; set files.root in the configuration")]
    NoFileFolder {
        /// The function.
        function: &'static str,
    },
    /// The files to write are not given by path.
    #[error("\"files\" of write_files must be an object of strings by path")]
    FilesNotAnObject,
}

/// Why a file cannot be read or written. The path may contain a secret.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path leads out of the folder.
    #[error("{path:?} is outside the folder of files.root, {}", root.display())]
    Outside {
        /// The path.
        path: String,
        /// The folder.
        root: PathBuf,
    },
    /// The path contains a symbolic link.
    #[error("{path} contains a symbolic link; symbolic links are not followed")]
    SymbolicLink {
        /// The path.
        path: String,
    },
    /// The path has no last component.
    #[error("{path:?} is not a file name in the folder of files.root")]
    NoFileName {
        /// The path.
        path: String,
    },
    /// The path leads to a folder, a pipe or a device.
    #[error("{path} is not a file")]
    NotAFile {
        /// The path.
        path: String,
    },
    /// There is no such file.
    #[error("{path} does not exist")]
    Missing {
        /// The path.
        path: String,
    },
    /// The file or its new content is too large.
    #[error("{path} is too large; a file may have at most {limit_bytes} bytes")]
    TooLarge {
        /// The path.
        path: String,
        /// Maximum size.
        limit_bytes: usize,
    },
    /// The file contains something other than text.
    #[error("{path} is not UTF-8 text")]
    NotUtf8 {
        /// The path.
        path: String,
    },
    /// The folder of all files cannot be opened.
    #[error("cannot open the folder of files.root, {}: {source}", root.display())]
    RootNotOpened {
        /// The folder.
        root: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file, or a folder of its path, cannot be opened or created.
    #[error("cannot open {path}: {source}")]
    NotOpened {
        /// The path.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    NotRead {
        /// The path.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    NotWritten {
        /// The path.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// The files of the user would be larger than their quota.
    #[error(
        "the files of the user {user} have {used_bytes} of {limit_bytes} bytes (quota file_bytes); \
         replace files with smaller ones, or ask the operator to delete some"
    )]
    QuotaExceeded {
        /// The user.
        user: String,
        /// The size before.
        used_bytes: u64,
        /// The maximum size.
        limit_bytes: u64,
    },
    /// The size of the user's files cannot be measured.
    #[error("cannot measure the files of the user: {source}")]
    FolderNotMeasured {
        /// The reason.
        source: io::Error,
    },
    /// The thread of the operation panicked.
    #[error("the file operation was aborted: {0}")]
    Aborted(#[source] tokio::task::JoinError),
}

fn suggest_function(similar: Option<&str>, known: &[String]) -> String {
    match similar {
        Some(similar) => format!("did you mean {similar}?"),
        None => format!("known functions: {}", known.join(", ")),
    }
}

fn suggest_agents(agent: &str, known: &[String]) -> String {
    match known {
        [] => format!("configure it in flowloom.toml: [agents.{agent}] with the tools that it may call"),
        known => format!("the configured agents are: {}", known.join(", ")),
    }
}

fn after_colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}

impl FunctionError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            FunctionError::Unknown { .. } => Code::FunctionUnknown,
            FunctionError::ArgumentMissing { .. } | FunctionError::FilesNotAnObject => Code::ArgumentMissing,
            FunctionError::SecretInQuery { .. } => Code::SecretPlace,
            FunctionError::Denied { .. } | FunctionError::UnknownAgent { .. } => Code::CapabilityDenied,
            FunctionError::InvalidSearchUrl(_) => Code::ConfigInvalid,
            FunctionError::NoFileFolder { .. } => Code::FileDenied,
            FunctionError::NoSearchProvider
            | FunctionError::SearchResponseNotJson { .. }
            | FunctionError::SearchResponseNotAnObject { .. }
            | FunctionError::EndpointTimeout { .. }
            | FunctionError::ErrorStatus { .. } => Code::FunctionFailed,
        }
    }

    /// Whether a retry may succeed.
    pub fn retry(&self) -> Retry {
        match self {
            FunctionError::EndpointTimeout { .. } => Retry::Maybe,
            FunctionError::ErrorStatus { retry, .. } => *retry,
            _ => Retry::Never,
        }
    }
}

impl FileError {
    /// The error code.
    pub fn code(&self) -> Code {
        match self {
            FileError::Outside { .. } | FileError::SymbolicLink { .. } => Code::FileDenied,
            FileError::QuotaExceeded { .. } => Code::QuotaExceeded,
            FileError::NoFileName { .. }
            | FileError::NotAFile { .. }
            | FileError::Missing { .. }
            | FileError::TooLarge { .. }
            | FileError::NotUtf8 { .. }
            | FileError::RootNotOpened { .. }
            | FileError::NotOpened { .. }
            | FileError::NotRead { .. }
            | FileError::NotWritten { .. }
            | FileError::FolderNotMeasured { .. }
            | FileError::Aborted(_) => Code::FileFailed,
        }
    }
}
