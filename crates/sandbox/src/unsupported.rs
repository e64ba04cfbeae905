//! The sandbox on unsupported systems, where untrusted code is refused.

use std::ffi::OsString;
use std::process::ExitCode;

use flowloom_core::code::Code;
use flowloom_core::effect::{PythonReply, PythonRequest, ScriptRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{CodeRunner, EffectContext, EffectFuture, SandboxHost};

use crate::config::{Availability, BlockLimits, SandboxConfig};

const UNSUPPORTED_MESSAGE: &str = "the sandbox needs Linux on x86_64 or aarch64";

/// A sandbox that refuses all code.
pub struct Sandbox;

impl Sandbox {
    /// Creates the sandbox; the configuration is ignored.
    pub fn new(_config: SandboxConfig) -> Sandbox {
        Sandbox
    }

    /// The same sandbox.
    pub fn limit_blocks(&self, _limits: BlockLimits) -> Sandbox {
        Sandbox
    }

    /// No kind of code can run.
    pub async fn check_availability(&self) -> Availability {
        let missing = || Err(UNSUPPORTED_MESSAGE.to_owned());
        Availability { script: missing(), python: missing(), protections: Vec::new() }
    }
}

/// There are no workers on this system.
pub fn worker_main(_arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    None
}

impl CodeRunner for Sandbox {
    fn run_python<'a>(
        &'a self,
        _request: &'a PythonRequest,
        _host: &'a dyn SandboxHost,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply> {
        Box::pin(async { Err(StepFailure::new(Code::NoSandbox, UNSUPPORTED_MESSAGE)) })
    }

    fn evaluate_script<'a>(
        &'a self,
        _request: &'a ScriptRequest,
        _context: &'a EffectContext,
    ) -> EffectFuture<'a, Option<Value>> {
        Box::pin(async { Err(StepFailure::new(Code::NoSandbox, UNSUPPORTED_MESSAGE)) })
    }
}
