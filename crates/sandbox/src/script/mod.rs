//! JavaScript expressions: a pool of worker processes, each serving the runs of one user.
//!
//! `engine` evaluates inside the worker, `worker` is the worker's loop, and this module sends expressions, waits, and
//! kills workers.

mod engine;
mod wire;
mod worker;

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flowloom_core::code::Code;
use flowloom_core::effect::ScriptRequest;
use flowloom_core::error::StepError;
use flowloom_core::json;
use flowloom_core::value::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::SCRIPT_WORKER;
use crate::config::{PATIENCE, SandboxConfig};
use crate::frame::{self, Frames, PLAIN};
use crate::refusal::refused;
use wire::{Answer, Ask, Setup};
pub(crate) use worker::worker;

/// Timeout for starting a worker, on a busy machine.
const START: Duration = Duration::from_secs(10);

/// The pool of workers.
pub(crate) struct Scripts {
    config: Arc<SandboxConfig>,
    turns: Semaphore,
    idle: Mutex<Vec<Worker>>,
}

/// A worker that waits for an expression. It is killed when dropped.
struct Worker {
    owner: Arc<str>,
    to: ChildStdin,
    from: Frames<ChildStdout>,
    _child: Child,
}

impl Scripts {
    pub(crate) fn new(config: Arc<SandboxConfig>) -> Scripts {
        let workers = config.script.workers.max(1);
        Scripts { config, turns: Semaphore::new(workers), idle: Mutex::default() }
    }

    /// Describes how expressions are evaluated on this machine, or what is missing.
    pub(crate) async fn available(&self) -> Result<String, String> {
        let worker = self.start("".into()).await.map_err(|error| error.message)?;
        self.keep(worker);
        let bounds = &self.config.script;
        Ok(format!("works: {} ms, {} MiB, seccomp", bounds.timeout.as_millis(), bounds.memory_bytes >> 20))
    }

    /// Evaluates an expression for a run of the user `owner`; `None` for `undefined`. Fails with `NoSandbox`,
    /// `ExpressionFailed` or `ScriptLimit`.
    pub(crate) async fn evaluate(&self, request: &ScriptRequest, owner: &Arc<str>) -> Result<Option<Value>, StepError> {
        let names = request.names.iter().map(|(name, value)| (&**name, value.iter().collect())).collect();
        let ask = Ask { source: &request.source, names, now_ms: request.now_ms, seed: request.seed };
        let question =
            serde_json::to_vec(&ask).map_err(|error| failed(format!("cannot serialise the expression: {error}")))?;
        let _turn = self.turns.acquire().await.map_err(|_| failed("the sandbox is closed".to_owned()))?;
        let mut worker = match self.take(owner) {
            Some(worker) => worker,
            None => self.start(owner.clone()).await?,
        };
        let within = self.config.script.timeout;
        let answer = match timeout(within * PATIENCE, worker.ask(&question)).await {
            Ok(answer) => answer,
            // Dropping the worker kills it, whatever it is doing.
            Err(_) => Some(Answer::Limit(engine::out_of_time(within))),
        };
        match answer {
            Some(Answer::Value(text)) => {
                self.keep(worker);
                let value = json::parse_value(&text);
                value.map(Some).map_err(|error| failed(format!("cannot parse the value: {}", error.message)))
            }
            Some(Answer::Nothing) => {
                self.keep(worker);
                Ok(None)
            }
            Some(Answer::Threw(message)) => {
                self.keep(worker);
                Err(failed(message))
            }
            Some(Answer::Limit(bound)) => {
                let source: String = request.source.chars().take(80).collect();
                Err(StepError::new(Code::ScriptLimit, format!("the expression was stopped: {bound}: {source}")))
            }
            None => Err(failed("the worker that evaluated the expression died".to_owned())),
        }
    }

    /// A worker that has served only the user `owner`, or no user.
    fn take(&self, owner: &Arc<str>) -> Option<Worker> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |worker: &Worker| worker.owner == *owner || worker.owner.is_empty();
        let at = idle.iter().rposition(fits)?;
        let mut worker = idle.remove(at);
        worker.owner = owner.clone();
        Some(worker)
    }

    fn keep(&self, worker: Worker) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(worker);
        if idle.len() > self.config.script.workers.max(1) {
            idle.remove(0);
        }
    }

    async fn start(&self, owner: Arc<str>) -> Result<Worker, StepError> {
        let bounds = &self.config.script;
        let setup = Setup {
            timeout_ms: bounds.timeout.as_millis() as u64,
            memory_bytes: bounds.memory_bytes,
            output_bytes: bounds.output_bytes,
        };
        let mut command = Command::new(&self.config.worker);
        command.arg(SCRIPT_WORKER).env_clear().current_dir("/").process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let unstarted = |error: String| refused(&format!("{}: {error}", self.config.worker.display()));
        let mut child = command.spawn().map_err(|error| unstarted(error.to_string()))?;
        let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(unstarted("it has no pipes".to_owned()));
        };
        let mut first = Vec::new();
        frame::push(&mut first, &PLAIN, &serde_json::to_vec(&setup).unwrap_or_default());
        // A little more than a value, so that the worker can report an exceeded limit.
        let mut from = Frames::new(from, PLAIN, bounds.output_bytes + (64 << 10));
        let ready = timeout(START, async {
            to.write_all(&first).await?;
            from.next().await
        });
        match ready.await {
            Ok(Ok(Some(missing))) if missing.is_empty() => Ok(Worker { owner, to, from, _child: child }),
            Ok(Ok(Some(missing))) => Err(refused(&String::from_utf8_lossy(&missing))),
            Ok(Ok(None)) => Err(unstarted("the worker ended before it was ready".to_owned())),
            Ok(Err(error)) => Err(unstarted(error.to_string())),
            Err(_) => Err(unstarted("the worker did not become ready in time".to_owned())),
        }
    }
}

impl Worker {
    /// Sends an expression and returns the answer; `None` if the worker died or sent an invalid answer.
    async fn ask(&mut self, question: &[u8]) -> Option<Answer> {
        let mut out = Vec::new();
        frame::push(&mut out, &PLAIN, question);
        self.to.write_all(&out).await.ok()?;
        Answer::read(self.from.next().await.ok()??)
    }
}

fn failed(message: String) -> StepError {
    StepError::new(Code::ExpressionFailed, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in for a worker; the pool does not care which program it is.
    fn worker(owner: &str) -> Worker {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Worker { owner: owner.into(), to, from: Frames::new(from, PLAIN, 100), _child: child }
    }

    #[tokio::test]
    async fn a_worker_serves_one_owner() {
        let mut config = SandboxConfig::new("none", Vec::new());
        config.script.workers = 2;
        let scripts = Scripts::new(Arc::new(config));
        scripts.keep(worker("ada"));
        assert!(scripts.take(&"bob".into()).is_none());
        scripts.keep(worker(""));
        assert!(scripts.take(&"bob".into()).is_some(), "a worker that served no user may serve any");
        assert!(scripts.take(&"bob".into()).is_none());
        assert!(scripts.take(&"ada".into()).is_some());
        for owner in ["a", "b", "c"] {
            scripts.keep(worker(owner));
        }
        assert!(scripts.take(&"a".into()).is_none(), "no more workers are idle than may run");
    }
}
