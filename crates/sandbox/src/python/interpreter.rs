//! Finds a Python interpreter, and keeps a pool of started ones.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::process::Process;
use crate::config::SandboxConfig;
use crate::lock::jail::View;

/// Timeout of the probe; the interpreter may be a wrapper script that searches for one.
const PROBE: Duration = Duration::from_secs(20);

/// A Python interpreter of this machine.
pub(super) struct Interpreter {
    pub(super) version: String,
    pub(super) view: View,
    /// Description of its isolation.
    pub(super) held: String,
    /// The runner, compiled for it.
    pub(super) codes: Vec<u8>,
}

#[derive(Deserialize)]
struct Probed {
    version: String,
    supported: bool,
    codes: String,
    view: View,
}

/// The interpreter to use, found once, and its started processes.
pub(super) struct Interpreters {
    config: Arc<SandboxConfig>,
    found: OnceCell<Result<Arc<Interpreter>, String>>,
    idle: Arc<Mutex<Idle>>,
}

/// Interpreters that have not run a block yet. Each runs one block, so it may serve any user.
#[derive(Default)]
struct Idle {
    waiting: Vec<Process>,
    starting: usize,
    wanted: usize,
}

fn lock(idle: &Mutex<Idle>) -> std::sync::MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interpreters {
    pub(super) fn new(config: Arc<SandboxConfig>) -> Interpreters {
        Interpreters { config, found: OnceCell::new(), idle: Arc::default() }
    }

    /// The interpreter for blocks, or why there is none.
    pub(super) async fn found(&self) -> Result<&Arc<Interpreter>, String> {
        self.found.get_or_init(|| self.find()).await.as_ref().map_err(Clone::clone)
    }

    async fn find(&self) -> Result<Arc<Interpreter>, String> {
        let mut problems = Vec::new();
        for path in &self.config.interpreters {
            match self.attempt(path).await {
                Ok(interpreter) => return Ok(interpreter),
                Err(error) => problems.push(format!("{}: {error}", path.display())),
            }
        }
        if problems.is_empty() {
            return Err("python3 was not found; install it, or set python in [sandbox]".to_owned());
        }
        Err(problems.join("; "))
    }

    /// Tries one interpreter by starting it in the sandbox. The process is kept for the first block.
    async fn attempt(&self, path: &Path) -> Result<Arc<Interpreter>, String> {
        let mut interpreter = probe(path).await?;
        let mut process = Process::start(&self.config, &interpreter).map_err(|error| error.to_string())?;
        process.ready().await?;
        interpreter.held.clone_from(&process.held);
        lock(&self.idle).waiting.push(process);
        Ok(Arc::new(interpreter))
    }

    /// Takes an interpreter that has not run a block, and whether it is ready.
    pub(super) async fn take(&self) -> Result<(Process, bool), String> {
        let interpreter = self.found().await?;
        let waiting = {
            let mut idle = lock(&self.idle);
            idle.wanted = (idle.wanted + 1).min(self.config.python.warm);
            std::iter::from_fn(|| idle.waiting.pop()).find_map(|mut process| process.is_alive().then_some(process))
        };
        let taken = match waiting {
            Some(process) => (process, true),
            None => (Process::start(&self.config, interpreter).map_err(|error| error.to_string())?, false),
        };
        Ok(taken)
    }

    /// Starts interpreters for future blocks, as many as were needed concurrently so far.
    pub(super) fn refill(&self) {
        let Some(Ok(interpreter)) = self.found.get() else { return };
        let missing = {
            let mut idle = lock(&self.idle);
            let missing = idle.wanted.saturating_sub(idle.waiting.len() + idle.starting);
            idle.starting += missing;
            missing
        };
        for _ in 0..missing {
            let (config, interpreter, idle) = (self.config.clone(), interpreter.clone(), Arc::downgrade(&self.idle));
            tokio::spawn(async move {
                let process = match Process::start(&config, &interpreter) {
                    Ok(mut process) => process.ready().await.ok().map(|()| process),
                    Err(_) => None,
                };
                // The sandbox may be dropped by now; then so is the interpreter.
                let Some(idle) = idle.upgrade() else { return };
                let mut idle = lock(&idle);
                idle.starting -= 1;
                idle.waiting.extend(process);
            });
        }
    }
}

/// Queries the files and folders that an interpreter consists of. Only our own code runs here.
async fn probe(path: &Path) -> Result<Interpreter, String> {
    let mut command = Command::new(path);
    command.args(["-I", "-S", "-B", "-c", include_str!("probe.py")]).kill_on_drop(true).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let sources = serde_json::json!({
        "runner": include_str!("runner.py"), "aio": include_str!("aio.py"), "web": include_str!("web.py"),
    });
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(sources.to_string().as_bytes()).await;
    }
    let output = timeout(PROBE, child.wait_with_output()).await.map_err(|_| "it does not respond".to_owned())?;
    let output = output.map_err(|error| error.to_string())?;
    let last = |text: &[u8]| String::from_utf8_lossy(text).trim().lines().last().unwrap_or_default().to_owned();
    let probed: Probed = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("it is not a usable Python interpreter: {}", last(&output.stderr)))?;
    if !probed.supported {
        return Err(format!("Python {} is too old; version 3.9 is required", probed.version));
    }
    let codes = decode(&probed.codes).ok_or_else(|| "it returned an invalid response".to_owned())?;
    Ok(Interpreter { version: probed.version, view: probed.view, held: String::new(), codes })
}

/// Decodes hexadecimal text.
fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
