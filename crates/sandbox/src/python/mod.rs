//! Python blocks on the system's CPython: one locked-down process per block, whose requests its run answers.
//!
//! `launch` is the worker that locks down; `boot.py` and `runner.py` (with `aio.py` and `web.py`) run inside.
//! `interpreter` finds a Python and keeps some processes ready, `process` is one of them, and `ask` performs the
//! requests of blocks.

mod ask;
mod interpreter;
mod launch;
mod process;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::effect::{PythonReply, PythonRequest};
use flowloom_core::error::StepError;
use flowloom_runtime::effects::{Context, Host};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::config::SandboxConfig;
use crate::refusal::refused;
use interpreter::Interpreters;
pub(crate) use launch::launch;
use process::{Came, Process};
use wire::{Job, Said, Why};

/// Maximum number of requests of one block that are performed concurrently; further ones are read when one is done.
const AT_ONCE: usize = 64;

/// Runs blocks.
pub(crate) struct Blocks {
    config: Arc<SandboxConfig>,
    turns: Semaphore,
    interpreters: Interpreters,
}

impl Blocks {
    pub(crate) fn new(config: Arc<SandboxConfig>) -> Blocks {
        let turns = Semaphore::new(config.python.blocks.max(1));
        Blocks { turns, interpreters: Interpreters::new(config.clone()), config }
    }

    /// Describes how blocks run on this machine, or what is missing.
    pub(crate) async fn available(&self) -> Result<String, String> {
        let found = self.interpreters.found().await?;
        let bounds = &self.config.python;
        let (seconds, mebibytes) = (bounds.timeout.as_secs_f64(), bounds.memory_bytes >> 20);
        let (version, path, held) = (&found.version, found.view.interpreter.display(), &found.held);
        Ok(format!("works: Python {version} at {path}, {seconds} s, {mebibytes} MiB, seccomp, {held}"))
    }

    /// Runs a block. Fails with `NoSandbox`, `BlockFailed`, `BlockResult` or `BlockLimit`.
    pub(crate) async fn run(
        &self,
        request: &PythonRequest,
        host: &dyn Host,
        context: &Context,
    ) -> Result<PythonReply, StepError> {
        let _turn = self.turns.acquire().await.map_err(|_| refused("the sandbox is closed"))?;
        let (mut process, is_ready) = self.interpreters.take().await.map_err(|missing| refused(&missing))?;
        let job = Job::new(request, &context.owner, &self.config);
        process
            .give(&job)
            .map_err(|error| failed(Code::BlockFailed, format!("cannot pass the inputs to the block: {error}")))?;
        if is_ready {
            self.interpreters.refill();
        } else {
            // Starting up does not count as the block's time. The block is in the pipe already, so it starts at once.
            process.ready().await.map_err(|missing| refused(&missing))?;
        }
        let done = self.converse(&mut process, host).await;
        // The next interpreter is started only after this one ends, because this may be the last block.
        drop(process);
        self.interpreters.refill();
        done
    }

    /// Performs the block's requests until it is done.
    async fn converse(&self, process: &mut Process, host: &dyn Host) -> Result<PythonReply, StepError> {
        let bounds = &self.config.python;
        let mut left = bounds.timeout;
        let mut count = 0;
        let mut asked = FuturesUnordered::new();
        loop {
            let waits_for_itself = asked.is_empty();
            let since = Instant::now();
            let came = tokio::select! {
                Some(answer) = asked.next(), if !waits_for_itself => {
                    let answer: Vec<u8> = answer;
                    process.push(&answer);
                    None
                }
                came = process.next(), if asked.len() < AT_ONCE => Some(came),
                () = tokio::time::sleep(left), if waits_for_itself => return Err(out_of_time(bounds.timeout)),
            };
            if waits_for_itself {
                left = left.saturating_sub(since.elapsed());
            }
            match came {
                None | Some(Came::Said(Said::Ready | Said::Held(_))) => {}
                Some(Came::Said(Said::Done(reply))) => return Ok(reply),
                Some(Came::Said(Said::Failed(why, message))) => return Err(self.failure(why, message)),
                Some(Came::Said(Said::Asks(id, question))) => {
                    count += 1;
                    if count > bounds.requests {
                        let message = format!("the block made more than {} requests to its run", bounds.requests);
                        return Err(failed(Code::BlockLimit, message));
                    }
                    asked.push(ask::answer(host, id, question));
                }
                Some(Came::Said(Said::Missing(missing))) => return Err(refused(&missing)),
                Some(Came::Garbage(what)) => {
                    return Err(failed(
                        Code::BlockResult,
                        format!("the block's process sent an invalid message: {what}"),
                    ));
                }
                Some(Came::End) => return Err(ended(process).await),
            }
        }
    }

    fn failure(&self, why: Why, message: String) -> StepError {
        match why {
            Why::Raised => failed(Code::BlockFailed, message),
            Why::Result => failed(Code::BlockResult, message),
            Why::Memory => {
                let mebibytes = self.config.python.memory_bytes >> 20;
                failed(Code::BlockLimit, format!("the block was stopped: it needs more than {mebibytes} MiB of memory"))
            }
        }
    }
}

async fn ended(process: &mut Process) -> StepError {
    let how = process.ended().await;
    let code = if how.starts_with("used up") { Code::BlockLimit } else { Code::BlockFailed };
    failed(code, format!("the block's process {how} before the block returned a result"))
}

fn out_of_time(bound: Duration) -> StepError {
    failed(Code::BlockLimit, format!("the block was stopped: it ran longer than {} ms", bound.as_millis()))
}

fn failed(code: Code, message: String) -> StepError {
    StepError::new(code, message)
}
