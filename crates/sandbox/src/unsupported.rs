//! The sandbox on unsupported systems, where untrusted code is refused.

use std::ffi::OsString;
use std::process::ExitCode;

use flowloom_core::code::Code as ErrorCode;
use flowloom_core::effect::{PythonReply, PythonRequest, ScriptRequest};
use flowloom_core::error::StepError;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{Code, Context, Host, Reply};

use crate::config::{Available, SandboxConfig};

const UNSUPPORTED_MESSAGE: &str = "the sandbox needs Linux on x86_64 or aarch64";

/// A sandbox that refuses all code.
pub struct Sandbox;

impl Sandbox {
    /// Creates the sandbox; the configuration is ignored.
    pub fn new(_config: SandboxConfig) -> Sandbox {
        Sandbox
    }

    /// No kind of code can run.
    pub async fn check_availability(&self) -> Available {
        Available { script: Err(MISSING.to_owned()), python: Err(MISSING.to_owned()) }
    }
}

/// There are no workers on this system.
pub fn worker_main(_arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    None
}

impl Code for Sandbox {
    fn run_python<'a>(
        &'a self,
        _request: &'a PythonRequest,
        _host: &'a dyn Host,
        _context: &'a Context,
    ) -> Reply<'a, PythonReply> {
        Box::pin(async { Err(StepError::new(ErrorCode::NoSandbox, MISSING)) })
    }

    fn evaluate_script<'a>(&'a self, _request: &'a ScriptRequest, _context: &'a Context) -> Reply<'a, Option<Value>> {
        Box::pin(async { Err(StepError::new(ErrorCode::NoSandbox, MISSING)) })
    }
}
