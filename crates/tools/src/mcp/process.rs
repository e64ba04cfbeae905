//! The process of an MCP server: it has a clean environment and its own process group, and the end of its stderr is
//! kept.

use std::future::ready;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use flowloom_runtime::descriptors::retry_without_descriptors;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use super::McpConfig;
use super::error::ConnectError;

/// Number of bytes of stderr to keep.
const MAX_STDERR_BYTES: usize = 4096;

/// Maximum number of characters of stderr in a message.
const MAX_STDERR_CHARS: usize = 300;

/// A process and everything it started.
///
/// It is not waited for while this value exists: until it is reaped, its id cannot become that of another process
/// group.
pub(super) struct ServerProcess {
    child: Mutex<Option<Child>>,
    stderr_tail: Arc<Mutex<Vec<u8>>>,
}

/// Standard output and input of the process.
pub(super) type ProcessPipes = (ChildStdout, ChildStdin);

impl ServerProcess {
    /// Starts the program.
    pub(super) async fn start_program(
        config: &McpConfig,
        env: &[(String, String)],
    ) -> Result<(ServerProcess, ProcessPipes), ConnectError> {
        let mut command = Command::new(program_path(config));
        command.args(&config.args).env_clear();
        command.envs(env.iter().map(|(name, value)| (name, value)));
        if !config.folder.as_os_str().is_empty() {
            command.current_dir(&config.folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C in a terminal reaches only Flowloom, which then stops its servers.
        command.process_group(0).kill_on_drop(true);
        let mut child = retry_without_descriptors(|| ready(command.spawn()))
            .await
            .map_err(|source| ConnectError::NotStarted { command_line: command_line(config), source })?;
        let (Some(stdout), Some(stdin), Some(stderr)) = (child.stdout.take(), child.stdin.take(), child.stderr.take())
        else {
            return Err(ConnectError::NoPipes);
        };
        let tail = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(collect_stderr(stderr, tail.clone()));
        Ok((ServerProcess { child: Mutex::new(Some(child)), stderr_tail: tail }, (stdout, stdin)))
    }

    /// Kills the process and everything it started.
    pub(super) fn kill_group(&self) {
        let Some(child) = self.child.lock().take() else { return };
        if let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            // The group may be gone already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Whether it was killed.
    pub(super) fn is_killed(&self) -> bool {
        self.child.lock().is_none()
    }

    /// The last line on stderr.
    pub(super) fn last_stderr_line(&self) -> Option<String> {
        let tail = self.stderr_tail.lock();
        let text = String::from_utf8_lossy(&tail);
        let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        last.map(|line| line.chars().take(MAX_STDERR_CHARS).collect())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// A program with a folder in its name is relative to the folder of the configuration.
fn program_path(config: &McpConfig) -> std::path::PathBuf {
    let is_path = config.command.contains('/');
    if is_path { config.folder.join(&config.command) } else { Path::new(&config.command).to_owned() }
}

fn command_line(config: &McpConfig) -> String {
    std::iter::once(&config.command).chain(&config.args).map(String::as_str).collect::<Vec<_>>().join(" ")
}

async fn collect_stderr(mut stderr: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 1024];
    while let Ok(count) = stderr.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        let mut tail = tail.lock();
        tail.extend_from_slice(&buffer[..count]);
        let surplus = tail.len().saturating_sub(MAX_STDERR_BYTES);
        tail.drain(..surplus);
    }
}
