//! Finds a Python interpreter, and keeps a pool of started ones.

use std::future::ready;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use flowloom_runtime::descriptors::retry_without_descriptors;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::error::{InterpreterError, InterpreterSearchError};
use super::process::BlockProcess;
use crate::config::SandboxConfig;
use crate::error::UnavailableError;
use crate::lock::jail::JailView;
use crate::lock::report::LockReport;

/// Timeout of the probe; the interpreter may be a wrapper script that searches for one.
const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// A Python interpreter of this machine.
pub(super) struct PythonInterpreter {
    pub(super) version: String,
    pub(super) view: JailView,
    /// The protections of its processes.
    pub(super) lock_report: LockReport,
    /// The runner, compiled for it.
    pub(super) codes: Vec<u8>,
}

#[derive(Deserialize)]
struct ProbeReport {
    version: String,
    supported: bool,
    codes: String,
    view: JailView,
}

/// The interpreter to use, found once, and its started processes.
pub(super) struct InterpreterPool {
    config: Arc<SandboxConfig>,
    /// Number of interpreters that may wait for a block.
    warm: usize,
    interpreter: OnceCell<Result<Arc<PythonInterpreter>, Arc<InterpreterSearchError>>>,
    idle: Arc<Mutex<IdleProcesses>>,
}

/// Interpreters that have not run a block yet. Each runs one block, so it may serve any user.
#[derive(Default)]
struct IdleProcesses {
    waiting: Vec<BlockProcess>,
    starting: usize,
    wanted: usize,
}

impl InterpreterPool {
    pub(super) fn new(config: Arc<SandboxConfig>, warm: usize) -> InterpreterPool {
        InterpreterPool { config, warm, interpreter: OnceCell::new(), idle: Arc::default() }
    }

    /// The interpreter for blocks, or why there is none.
    pub(super) async fn get_interpreter(&self) -> Result<&Arc<PythonInterpreter>, UnavailableError> {
        let found = self.interpreter.get_or_init(|| self.find_interpreter()).await;
        found.as_ref().map_err(|error| UnavailableError::NoInterpreter(error.clone()))
    }

    async fn find_interpreter(&self) -> Result<Arc<PythonInterpreter>, Arc<InterpreterSearchError>> {
        let mut problems = Vec::new();
        for path in &self.config.interpreters {
            match self.try_interpreter(path).await {
                Ok(interpreter) => return Ok(interpreter),
                Err(error) => problems.push((path.clone(), error)),
            }
        }
        Err(Arc::new(InterpreterSearchError { problems }))
    }

    /// Tries one interpreter by starting it in the sandbox. The process is kept for the first block.
    async fn try_interpreter(&self, path: &Path) -> Result<Arc<PythonInterpreter>, InterpreterError> {
        let mut interpreter = probe_interpreter(path, &self.config).await?;
        let mut process =
            BlockProcess::start_interpreter(&self.config, &interpreter).await.map_err(InterpreterError::Io)?;
        process.wait_until_ready().await?;
        interpreter.lock_report.clone_from(&process.lock_report);
        self.idle.lock().waiting.push(process);
        Ok(Arc::new(interpreter))
    }

    /// Takes an interpreter that has not run a block, and whether it is ready.
    pub(super) async fn take_process(&self) -> Result<(BlockProcess, bool), UnavailableError> {
        let interpreter = self.get_interpreter().await?;
        let waiting = {
            let mut idle = self.idle.lock();
            idle.wanted = (idle.wanted + 1).min(self.warm);
            std::iter::from_fn(|| idle.waiting.pop()).find_map(|mut process| process.is_alive().then_some(process))
        };
        if let Some(process) = waiting {
            return Ok((process, true));
        }
        let process = BlockProcess::start_interpreter(&self.config, interpreter).await.map_err(InterpreterError::Io)?;
        Ok((process, false))
    }

    /// Starts interpreters for future blocks, as many as were needed concurrently so far.
    pub(super) fn refill_idle(&self) {
        let Some(Ok(interpreter)) = self.interpreter.get() else { return };
        let missing = {
            let mut idle = self.idle.lock();
            let missing = idle.wanted.saturating_sub(idle.waiting.len() + idle.starting);
            idle.starting += missing;
            missing
        };
        for _ in 0..missing {
            let (config, interpreter, idle) = (self.config.clone(), interpreter.clone(), Arc::downgrade(&self.idle));
            tokio::spawn(async move {
                let process = match BlockProcess::start_interpreter(&config, &interpreter).await {
                    Ok(mut process) => process.wait_until_ready().await.ok().map(|()| process),
                    Err(_) => None,
                };
                // The sandbox may be dropped by now; then so is the interpreter.
                let Some(idle) = idle.upgrade() else { return };
                let mut idle = idle.lock();
                idle.starting -= 1;
                idle.waiting.extend(process);
            });
        }
    }
}

/// Queries the files and folders that an interpreter consists of. Only our own code runs here.
async fn probe_interpreter(path: &Path, config: &SandboxConfig) -> Result<PythonInterpreter, InterpreterError> {
    let mut command = Command::new(path);
    command.args(["-I", "-S", "-B", "-c", include_str!("probe.py")]).kill_on_drop(true).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = retry_without_descriptors(|| ready(command.spawn())).await.map_err(InterpreterError::Io)?;
    let sources = serde_json::json!({
        "runner": include_str!("runner.py"), "aio": include_str!("aio.py"), "web": include_str!("web.py"),
        "extra": config.extra_modules.join(" "),
    });
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(sources.to_string().as_bytes()).await;
    }
    let output = timeout(PROBE_TIMEOUT, child.wait_with_output()).await.map_err(|_| InterpreterError::ProbeTimeout)?;
    let output = output.map_err(InterpreterError::Io)?;
    let last = |text: &[u8]| String::from_utf8_lossy(text).trim().lines().last().unwrap_or_default().to_owned();
    let probed: ProbeReport = serde_json::from_slice(&output.stdout)
        .map_err(|source| InterpreterError::NotPython { last_line: last(&output.stderr), source })?;
    if !probed.supported {
        return Err(InterpreterError::TooOld { version: probed.version });
    }
    let codes = decode_hex(&probed.codes).ok_or(InterpreterError::InvalidReport)?;
    Ok(PythonInterpreter { version: probed.version, view: probed.view, lock_report: LockReport::default(), codes })
}

/// Decodes hexadecimal text.
fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
