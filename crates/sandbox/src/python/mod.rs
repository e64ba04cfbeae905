//! Python blocks on the system's CPython: one locked-down process per block, whose requests its run answers.
//!
//! `launch` is the worker that locks down; `boot.py` and `runner.py` (with `aio.py` and `web.py`) run inside.
//! `interpreter` finds a Python and keeps some processes ready, `process` is one of them, and `requests` performs
//! the requests of blocks.

pub(crate) mod error;
mod interpreter;
mod launch;
mod process;
mod requests;
mod turn;
mod watch;
mod wire;

use std::sync::Arc;

use flowloom_core::effect::{PythonReply, PythonRequest};
use flowloom_runtime::descriptors::max_sandbox_processes;
use flowloom_runtime::effects::{EffectContext, SandboxHost};
use flowloom_runtime::fair::{FairSemaphore, user_share};
use flowloom_runtime::timing::ResponseTimer;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::config::{BlockLimits, Protection, SandboxConfig};
use crate::error::{SandboxError, UnavailableError};
use crate::meter::ComputingTime;
use error::MessageError;
use interpreter::InterpreterPool;
pub(crate) use launch::run_launcher;
use process::{BlockProcess, ProcessMessage};
use turn::BlockTurn;
use wire::{BlockFailure, BlockMessage, InterpreterMessage};

/// Maximum number of requests of one block that are performed concurrently; further ones are read when one is done.
const MAX_CONCURRENT_REQUESTS: usize = 64;

/// Number of interpreters for each block that may compute; the others wait for their runs.
const PROCESSES_PER_TURN: usize = 4;

/// Descriptors of this process that an interpreter needs: its channel, its printed text, and a handle of the process.
const PROCESS_DESCRIPTORS: u64 = 4;

/// How many interpreters may run blocks, and how many more may wait for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessBounds {
    busy: usize,
    warm: usize,
}

impl ProcessBounds {
    /// The bounds that are wanted, made smaller where `most` processes are possible. At least one runs a block.
    fn new(busy: usize, warm: usize, most: usize) -> ProcessBounds {
        let warm = warm.min(most / 2);
        ProcessBounds { busy: busy.min(most - warm).max(1), warm }
    }
}

/// The next event for a block.
enum BlockEvent {
    Message(ProcessMessage),
    /// The answer to a request of the block.
    Answer(Vec<u8>),
    /// It is time to look at what the block does.
    Look,
    TimeIsOver,
}

/// Runs blocks.
pub(crate) struct BlockRunner {
    config: Arc<SandboxConfig>,
    /// One for each interpreter, whatever its block does.
    processes: FairSemaphore,
    /// One for each block that computes. A block that waits for its run has none.
    turns: FairSemaphore,
    interpreters: InterpreterPool,
}

impl BlockRunner {
    pub(crate) fn new(config: Arc<SandboxConfig>) -> BlockRunner {
        let blocks = config.python.blocks.max(1);
        let turns = FairSemaphore::new("python_blocks", blocks, user_share(blocks));
        let bounds = ProcessBounds::new(
            blocks * PROCESSES_PER_TURN,
            config.python.warm,
            max_sandbox_processes(PROCESS_DESCRIPTORS),
        );
        let processes = FairSemaphore::new("python_processes", bounds.busy, user_share(bounds.busy));
        BlockRunner { processes, turns, interpreters: InterpreterPool::new(config.clone(), bounds.warm), config }
    }

    /// Describes how blocks run on this machine, or the missing requirement.
    pub(crate) async fn describe_availability(&self) -> Result<String, String> {
        let found = self.interpreters.get_interpreter().await.map_err(|error| error.to_string())?;
        let bounds = &self.config.python;
        let (seconds, mebibytes) = (bounds.timeout.as_secs_f64(), bounds.memory_bytes >> 20);
        let (version, path) = (&found.version, found.view.interpreter.display());
        let held = found.lock_report.describe_isolation();
        Ok(format!("works: Python {version} at {path}, {seconds} s, {mebibytes} MiB, seccomp, {held}"))
    }

    /// The protections of blocks on this machine; empty if none can run.
    pub(crate) async fn list_protections(&self) -> Vec<Protection> {
        match self.interpreters.get_interpreter().await {
            Ok(found) => found.lock_report.list_protections(),
            Err(_) => Vec::new(),
        }
    }

    /// Runs a block within `limits`.
    pub(crate) async fn run_block(
        &self,
        request: &PythonRequest,
        host: &dyn SandboxHost,
        context: &EffectContext,
        limits: BlockLimits,
    ) -> Result<PythonReply, SandboxError> {
        let timer = ResponseTimer::start();
        let _process = self.processes.acquire_permit(&context.user).await;
        let time = ComputingTime::new(self.config.meter.as_deref(), &context.user);
        let turn = BlockTurn::take_turn(&self.turns, &context.user, limits.timeout, time).await;
        timer.end_queue();
        let (mut process, is_ready) = self.interpreters.take_process().await?;
        let job = BlockMessage::from_request(request, &context.user, &self.config);
        process.send_block(&job).map_err(SandboxError::InputsNotSerialized)?;
        if is_ready {
            self.interpreters.refill_idle();
        } else {
            // Starting up does not count as the block's time. The block is in the pipe already, so it starts
            // immediately.
            process.wait_until_ready().await.map_err(UnavailableError::from)?;
        }
        let done = self.serve_block(&mut process, host, turn, limits.requests).await;
        // The next interpreter is started only after this one ends, because this may be the last block.
        drop(process);
        self.interpreters.refill_idle();
        Ok(PythonReply { queued_ms: timer.queued_ms(), ..done? })
    }

    /// Performs the block's requests until it is done. Fails after more than `max_requests`.
    async fn serve_block(
        &self,
        process: &mut BlockProcess,
        host: &dyn SandboxHost,
        mut turn: BlockTurn<'_>,
        max_requests: usize,
    ) -> Result<PythonReply, SandboxError> {
        let mut count = 0;
        let mut requests = FuturesUnordered::new();
        turn.begin(process.watch.as_ref());
        loop {
            let end = turn.start_time(!requests.is_empty());
            let event = tokio::select! {
                Some(answer) = requests.next(), if !requests.is_empty() => BlockEvent::Answer(answer),
                came = process.next_message(), if requests.len() < MAX_CONCURRENT_REQUESTS => BlockEvent::Message(came),
                () = tokio::time::sleep_until(end) => BlockEvent::TimeIsOver,
                () = tokio::time::sleep_until(turn.next_look()) => BlockEvent::Look,
            };
            turn.pause_time();
            let message = match event {
                BlockEvent::TimeIsOver => return Err(turn.time_error()),
                BlockEvent::Look => {
                    turn.check_block(process.watch.as_ref()).await?;
                    continue;
                }
                BlockEvent::Answer(answer) => {
                    turn.retake_turn().await;
                    process.push_frame(&answer);
                    continue;
                }
                BlockEvent::Message(message) => message,
            };
            match message {
                ProcessMessage::Message(InterpreterMessage::Done(reply)) => return Ok(reply),
                ProcessMessage::Message(InterpreterMessage::Failed(why, message)) => {
                    return Err(self.block_failure(why, message));
                }
                ProcessMessage::Message(InterpreterMessage::Request(id, question)) => {
                    count += 1;
                    if count > max_requests {
                        return Err(SandboxError::BlockRequestsExceeded { limit: max_requests });
                    }
                    requests.push(requests::perform_request(host, id, question));
                    turn.leave_turn(process.watch.as_ref());
                }
                // The process has started long ago, so this is the block's own text.
                ProcessMessage::Message(
                    InterpreterMessage::Ready
                    | InterpreterMessage::Started(_)
                    | InterpreterMessage::LockedDown(_)
                    | InterpreterMessage::Missing(_),
                ) => return Err(SandboxError::InvalidMessage(MessageError::NotFromBlock)),
                ProcessMessage::Invalid(error) => return Err(SandboxError::InvalidMessage(error)),
                ProcessMessage::End => return Err(SandboxError::BlockEnded(process.find_end().await)),
            }
        }
    }

    fn block_failure(&self, why: BlockFailure, message: String) -> SandboxError {
        match why {
            BlockFailure::Raised => SandboxError::BlockRaised { message },
            BlockFailure::Result => SandboxError::BlockResultUnusable { message },
            BlockFailure::Memory => {
                SandboxError::BlockMemoryExceeded { limit_mebibytes: self.config.python.memory_bytes >> 20 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_mean_few_interpreters() {
        let bounds = [1, 2, 9, 1000].map(|most| ProcessBounds::new(64, 4, most));
        assert_eq!(bounds.map(|bounds| bounds.busy), [1, 1, 5, 64]);
        assert_eq!(bounds.map(|bounds| bounds.warm), [0, 1, 4, 4]);
    }
}
