//! JavaScript expressions: a pool of worker processes, each serving the runs of one user.
//!
//! `engine` evaluates inside the worker, `worker` is the worker's loop, and this module sends expressions, waits, and
//! kills workers.

mod engine;
pub(crate) mod error;
mod wire;
mod worker;

use std::future::ready;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::effect::ScriptRequest;
use flowloom_core::json;
use flowloom_core::value::Value;
use flowloom_runtime::descriptors::{max_sandbox_processes, retry_without_descriptors};
use flowloom_runtime::fair::FairSemaphore;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::SCRIPT_WORKER;
use crate::config::{REAL_TIME_FACTOR, SandboxConfig};
use crate::error::{SandboxError, UnavailableError};
use crate::frame::{self, FrameReader, PLAIN_MARK};
use crate::lock::raw::CPU_TIME_SIGNAL;
use crate::meter::ComputingTime;
use error::{ExceededLimit, WorkerError};
use wire::{ScriptAnswer, ScriptSetup, SentExpression};
pub(crate) use worker::run_worker;

/// Timeout for starting a worker, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for the end of a worker that has closed its channel.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Length of an expression in an error message, in characters.
const MAX_SHOWN_CHARS: usize = 80;

/// Descriptors of this process that a worker needs: its channel, and a handle of the process.
const WORKER_DESCRIPTORS: u64 = 3;

/// The pool of workers.
pub(crate) struct WorkerPool {
    config: Arc<SandboxConfig>,
    /// How many workers may evaluate, and how many may be idle.
    workers: usize,
    turns: FairSemaphore,
    idle: Mutex<Vec<ScriptWorker>>,
}

/// A worker that waits for an expression. It is killed when dropped.
struct ScriptWorker {
    user: Arc<str>,
    to: ChildStdin,
    from: FrameReader<ChildStdout>,
    child: Child,
}

impl WorkerPool {
    pub(crate) fn new(config: Arc<SandboxConfig>) -> WorkerPool {
        // The same number may be idle.
        let workers = config.script.workers.clamp(1, (max_sandbox_processes(WORKER_DESCRIPTORS) / 2).max(1));
        let turns = FairSemaphore::new("expressions", workers, workers);
        WorkerPool { config, workers, turns, idle: Mutex::default() }
    }

    /// Describes how expressions are evaluated on this machine, or the missing requirement.
    pub(crate) async fn describe_availability(&self) -> Result<String, String> {
        let started = self.start_worker("".into()).await;
        let worker = started.map_err(|error| SandboxError::from(error).to_string())?;
        self.return_worker(worker);
        let bounds = &self.config.script;
        Ok(format!("works: {} ms, {} MiB, seccomp", bounds.timeout.as_millis(), bounds.memory_bytes >> 20))
    }

    /// Evaluates an expression for a run of the user `user`; `None` for `undefined`.
    pub(crate) async fn evaluate_expression(
        &self,
        request: &ScriptRequest,
        user: &Arc<str>,
    ) -> Result<Option<Value>, SandboxError> {
        let names = request.names.iter().map(|(name, value)| (&**name, value.iter().collect())).collect();
        let ask = SentExpression { source: &request.source, names, now_ms: request.now_ms, seed: request.seed };
        let question = serde_json::to_vec(&ask).map_err(SandboxError::ExpressionNotSerialized)?;
        let _turn = self.turns.acquire_permit(user).await;
        let mut worker = match self.take_worker(user) {
            Some(worker) => worker,
            None => self.start_worker(user.clone()).await?,
        };
        let mut time = ComputingTime::new(self.config.meter.as_deref(), user);
        time.start();
        let answer = self.answer_in_time(&mut worker, &question).await;
        drop(time);
        match answer {
            Some(ScriptAnswer::Value(text)) => {
                self.return_worker(worker);
                json::parse_value(&text).map(Some).map_err(SandboxError::ValueNotJson)
            }
            Some(ScriptAnswer::Undefined) => {
                self.return_worker(worker);
                Ok(None)
            }
            Some(ScriptAnswer::Threw(message)) => {
                self.return_worker(worker);
                Err(SandboxError::ExpressionThrew { message })
            }
            Some(ScriptAnswer::Limit(limit)) => {
                let expression = request.source.chars().take(MAX_SHOWN_CHARS).collect();
                Err(SandboxError::ExpressionStopped { limit, expression })
            }
            None => Err(SandboxError::WorkerDied),
        }
    }

    /// The answer of a worker to an expression; `None` if the worker died for a reason that is not a limit.
    async fn answer_in_time(&self, worker: &mut ScriptWorker, question: &[u8]) -> Option<ScriptAnswer> {
        let within = self.config.script.timeout;
        let timed_out = ScriptAnswer::Limit(ExceededLimit::from_timeout(within));
        match timeout(within * REAL_TIME_FACTOR, worker.send_expression(question)).await {
            Ok(Some(answer)) => Some(answer),
            Ok(None) => worker.used_up_cpu_time().await.then_some(timed_out),
            // Dropping the worker kills it, whatever it is doing.
            Err(_) => Some(timed_out),
        }
    }

    /// A worker that has served only the user `user`, or no user.
    fn take_worker(&self, user: &Arc<str>) -> Option<ScriptWorker> {
        let mut idle = self.idle.lock();
        let fits = |worker: &ScriptWorker| worker.user == *user || worker.user.is_empty();
        let at = idle.iter().rposition(fits)?;
        let mut worker = idle.remove(at);
        worker.user = user.clone();
        Some(worker)
    }

    fn return_worker(&self, worker: ScriptWorker) {
        let mut idle = self.idle.lock();
        idle.push(worker);
        if idle.len() > self.workers {
            idle.remove(0);
        }
    }

    async fn start_worker(&self, user: Arc<str>) -> Result<ScriptWorker, UnavailableError> {
        let bounds = &self.config.script;
        let setup = ScriptSetup {
            timeout_ms: bounds.timeout.as_millis() as u64,
            memory_bytes: bounds.memory_bytes,
            output_bytes: bounds.output_bytes,
            cgroup: self.config.cgroup.clone(),
        };
        let mut command = Command::new(&self.config.worker);
        command.arg(SCRIPT_WORKER).env_clear().current_dir("/").process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let unstarted = |source| UnavailableError::WorkerNotStarted { program: self.config.worker.clone(), source };
        let child = retry_without_descriptors(|| ready(command.spawn())).await;
        let mut child = child.map_err(|error| unstarted(WorkerError::Io(error)))?;
        let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(unstarted(WorkerError::NoPipes));
        };
        let mut first = Vec::new();
        frame::push_frame(&mut first, &PLAIN_MARK, &serde_json::to_vec(&setup).unwrap_or_default());
        // A little more than a value, so that the worker can report an exceeded limit.
        let mut from = FrameReader::new(from, PLAIN_MARK, bounds.output_bytes + (64 << 10));
        let ready = timeout(START_TIMEOUT, async {
            to.write_all(&first).await?;
            from.next_frame().await
        });
        match ready.await {
            Ok(Ok(Some(missing))) if missing.is_empty() => Ok(ScriptWorker { user, to, from, child }),
            Ok(Ok(Some(missing))) => {
                Err(UnavailableError::NotLockedDown { missing: String::from_utf8_lossy(&missing).into_owned() })
            }
            Ok(Ok(None)) => Err(unstarted(WorkerError::Ended)),
            Ok(Err(error)) => Err(unstarted(WorkerError::Io(error))),
            Err(_) => Err(unstarted(WorkerError::Timeout)),
        }
    }
}

impl ScriptWorker {
    /// Sends an expression and returns the answer; `None` if the worker died or sent an invalid answer.
    async fn send_expression(&mut self, question: &[u8]) -> Option<ScriptAnswer> {
        let mut out = Vec::new();
        frame::push_frame(&mut out, &PLAIN_MARK, question);
        self.to.write_all(&out).await.ok()?;
        ScriptAnswer::from_frame(self.from.next_frame().await.ok()??)
    }

    /// Whether the kernel ended the worker, because its expression used too much CPU time.
    async fn used_up_cpu_time(&mut self) -> bool {
        match timeout(END_TIMEOUT, self.child.wait()).await {
            Ok(Ok(status)) => status.signal() == Some(CPU_TIME_SIGNAL),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in for a worker; the pool does not care which program it is.
    fn test_worker(user: &str) -> ScriptWorker {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        ScriptWorker { user: user.into(), to, from: FrameReader::new(from, PLAIN_MARK, 100), child }
    }

    #[tokio::test]
    async fn a_worker_serves_one_owner() {
        let mut config = SandboxConfig::new("none", Vec::new());
        config.script.workers = 2;
        let scripts = WorkerPool::new(Arc::new(config));
        scripts.return_worker(test_worker("ada"));
        assert!(scripts.take_worker(&"bob".into()).is_none());
        scripts.return_worker(test_worker(""));
        assert!(scripts.take_worker(&"bob".into()).is_some(), "a worker that served no user may serve any");
        assert!(scripts.take_worker(&"bob".into()).is_none());
        assert!(scripts.take_worker(&"ada".into()).is_some());
        for user in ["a", "b", "c"] {
            scripts.return_worker(test_worker(user));
        }
        assert!(scripts.take_worker(&"a".into()).is_none(), "no more workers are idle than may run");
    }
}
