//! The sandbox as the runtime uses it, and the entry point of its workers.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use flowloom_core::effect::{PythonReply, PythonRequest, ScriptRequest};
use flowloom_core::value::Value;
use flowloom_runtime::effects::{Code, Context, Host, Reply};

use crate::config::{Available, SandboxConfig};
use crate::python::Blocks;
use crate::script::Scripts;
use crate::{PYTHON_WORKER, SCRIPT_WORKER, python, script};

/// Runs untrusted code in separate processes. Workers start when they are first needed and end when this is dropped.
pub struct Sandbox {
    scripts: Scripts,
    blocks: Blocks,
}

impl Sandbox {
    /// A sandbox without any started workers.
    pub fn new(config: SandboxConfig) -> Sandbox {
        let config = Arc::new(config);
        Sandbox { scripts: Scripts::new(config.clone()), blocks: Blocks::new(config) }
    }

    /// Determines which kinds of code can run, by starting a worker of each.
    pub async fn available(&self) -> Available {
        Available { script: self.scripts.available().await, python: self.blocks.available().await }
    }
}

/// Runs a worker if the program was started as one, and returns its exit code. Must be called before anything else,
/// while the process has one thread.
pub fn worker_main(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let kind = arguments.into_iter().nth(1)?;
    if kind == SCRIPT_WORKER {
        Some(script::worker())
    } else if kind == PYTHON_WORKER {
        Some(python::launch())
    } else {
        None
    }
}

impl Code for Sandbox {
    fn python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn Host,
        context: &'a Context,
    ) -> Reply<'a, PythonReply> {
        Box::pin(self.blocks.run(request, host, context))
    }

    fn script<'a>(&'a self, request: &'a ScriptRequest, context: &'a Context) -> Reply<'a, Option<Value>> {
        Box::pin(self.scripts.evaluate(request, &context.owner))
    }
}
