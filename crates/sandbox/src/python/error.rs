//! Errors of Python interpreters and their messages.

use std::fmt;
use std::io;
use std::path::PathBuf;

use flowloom_core::json::JsonError;

use super::launch::SIGNAL_EXIT_BASE;

/// Why no interpreter of this machine can be used.
#[derive(Debug)]
pub struct InterpreterSearchError {
    /// The interpreters that were tried, and the problem of each.
    pub problems: Vec<(PathBuf, InterpreterError)>,
}

impl std::error::Error for InterpreterSearchError {}

impl fmt::Display for InterpreterSearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.problems.is_empty() {
            return f.write_str("python3 was not found; install it, or set python in [sandbox]");
        }
        for (index, (path, problem)) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {problem}", path.display())?;
        }
        Ok(())
    }
}

/// Why an interpreter does not start.
#[derive(Debug, thiserror::Error)]
pub enum InterpreterError {
    /// Its process cannot be started.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// It does not answer the probe.
    #[error("it does not respond")]
    ProbeTimeout,
    /// The program is not a Python interpreter.
    #[error("it is not a usable Python interpreter: {last_line}")]
    NotPython {
        /// The last line that it printed.
        last_line: String,
        /// Why its answer is not a report.
        source: serde_json::Error,
    },
    /// The version is not supported.
    #[error("Python {version} is too old; version 3.9 is required")]
    TooOld {
        /// Its version.
        version: String,
    },
    /// The probe's report contains no compiled runner.
    #[error("it returned an invalid response")]
    InvalidReport,
    /// The process cannot lock itself down; the text is from the process.
    #[error("{missing}")]
    NotLockedDown {
        /// The missing feature of the kernel.
        missing: String,
    },
    /// It sent something other than that it is ready.
    #[error("the interpreter sent an unexpected message")]
    UnexpectedMessage,
    /// It sent something that is not a message.
    #[error("the interpreter: {0}")]
    InvalidMessage(#[source] MessageError),
    /// It ended.
    #[error("the interpreter {0}")]
    Ended(ProcessEnd),
    /// It did not become ready.
    #[error("the interpreter did not become ready in time")]
    ReadyTimeout,
}

/// Why a frame from an interpreter is not a message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The frame cannot be read.
    #[error("{0}")]
    Frame(#[source] io::Error),
    /// The content is not UTF-8.
    #[error("it is not UTF-8 text")]
    NotUtf8,
    /// The content is not JSON.
    #[error("{0}")]
    NotJson(#[source] JsonError),
    /// The result of a block has another shape.
    #[error("it is not a result")]
    NotAResult,
    /// Only the start of a process sends this message, before there is a block.
    #[error("it does not belong to a block")]
    NotFromBlock,
    /// The message is of no known kind.
    #[error("it is not a known message")]
    Unknown,
}

/// How an interpreter's process ended.
#[derive(Debug)]
pub struct ProcessEnd {
    /// The exit code; `None` if the process only closed its channel.
    pub exit_code: Option<i32>,
    /// The last line that it printed, or a part of it.
    pub last_line: String,
}

impl ProcessEnd {
    /// Whether the kernel ended the process because it reached its CPU time limit.
    pub fn used_up_cpu_time(&self) -> bool {
        self.exit_code == Some(SIGNAL_EXIT_BASE + libc::SIGXCPU)
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exit_code {
            Some(_) if self.used_up_cpu_time() => f.write_str("used up its processor time")?,
            Some(code) if code > SIGNAL_EXIT_BASE => write!(f, "was ended by signal {}", code - SIGNAL_EXIT_BASE)?,
            Some(code) => write!(f, "ended with exit code {code}")?,
            None => f.write_str("closed its channel")?,
        }
        if self.last_line.is_empty() { Ok(()) } else { write!(f, ": {}", self.last_line) }
    }
}
