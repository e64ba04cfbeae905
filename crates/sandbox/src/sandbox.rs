//! The sandbox as the runtime uses it, and the entry point of its workers.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::effect::{PythonReply, PythonRequest, ScriptRequest};
use flowloom_core::error::StepFailure;
use flowloom_core::value::Value;
use flowloom_runtime::effects::{CodeRunner, EffectContext, EffectFuture, SandboxHost};

use crate::config::{Availability, BlockLimits, SandboxConfig};
use crate::meter::{SandboxMeter, TimeReservation};
use crate::python::BlockRunner;
use crate::script::WorkerPool;
use crate::{PYTHON_WORKER, SCRIPT_WORKER, python, script};

/// Runs untrusted code in separate processes. Workers start when they are first needed and end when this is dropped.
pub struct Sandbox {
    scripts: Arc<WorkerPool>,
    blocks: Arc<BlockRunner>,
    meter: Option<Arc<dyn SandboxMeter>>,
    block_limits: BlockLimits,
    /// Processor time of an expression.
    script_timeout: Duration,
}

impl Sandbox {
    /// A sandbox without any started workers.
    pub fn new(config: SandboxConfig) -> Sandbox {
        let config = Arc::new(config);
        let meter = config.meter.clone();
        let block_limits = BlockLimits { timeout: config.python.timeout, requests: config.python.requests };
        let script_timeout = config.script.timeout;
        let scripts = Arc::new(WorkerPool::new(config.clone()));
        Sandbox { scripts, blocks: Arc::new(BlockRunner::new(config)), meter, block_limits, script_timeout }
    }

    /// The same sandbox with other limits of blocks, as far as they are lower. The workers are shared.
    pub fn limit_blocks(&self, limits: BlockLimits) -> Sandbox {
        let block_limits = BlockLimits {
            timeout: limits.timeout.min(self.block_limits.timeout),
            requests: limits.requests.min(self.block_limits.requests),
        };
        let (scripts, blocks, meter) = (self.scripts.clone(), self.blocks.clone(), self.meter.clone());
        Sandbox { scripts, blocks, meter, block_limits, script_timeout: self.script_timeout }
    }

    /// Reserves time for code of a user. Fails if it may not compute any longer.
    async fn reserve_time(&self, user: &str, longest: Duration) -> Result<Option<TimeReservation>, StepFailure> {
        match &self.meter {
            Some(meter) => meter.reserve_time(user, longest).await.map(Some),
            None => Ok(None),
        }
    }

    /// Determines which kinds of code can run, by starting a worker of each.
    pub async fn check_availability(&self) -> Availability {
        Availability {
            script: self.scripts.describe_availability().await,
            python: self.blocks.describe_availability().await,
            protections: self.blocks.list_protections().await,
        }
    }
}

/// Runs a worker if the program was started as one, and returns its exit code. Must be called before anything else,
/// while the process has one thread.
pub fn worker_main(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let kind = arguments.into_iter().nth(1)?;
    if kind == SCRIPT_WORKER {
        Some(script::run_worker())
    } else if kind == PYTHON_WORKER {
        Some(python::run_launcher())
    } else {
        None
    }
}

impl CodeRunner for Sandbox {
    fn run_python<'a>(
        &'a self,
        request: &'a PythonRequest,
        host: &'a dyn SandboxHost,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, PythonReply> {
        Box::pin(async move {
            let _reserved = self.reserve_time(&context.user, self.block_limits.timeout).await?;
            Ok(self.blocks.run_block(request, host, context, self.block_limits).await?)
        })
    }

    fn evaluate_script<'a>(
        &'a self,
        request: &'a ScriptRequest,
        context: &'a EffectContext,
    ) -> EffectFuture<'a, Option<Value>> {
        Box::pin(async move {
            let _reserved = self.reserve_time(&context.user, self.script_timeout).await?;
            Ok(self.scripts.evaluate_expression(request, &context.user).await?)
        })
    }
}
