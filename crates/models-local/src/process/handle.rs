//! The parent's side of one model process.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::protocol::{Reply, WorkerRequest};
use super::worker::WORKER_ARGUMENT;
use crate::error::LocalModelError;
use crate::language::error::GenerationError;
use crate::language::{AnswerJob, GeneratedText};

/// A model process prints no stack trace with a debugger when it aborts. Its threads wait for each other actively for a
/// moment only: on a busy machine they would otherwise take the cores from the thread they wait for.
const WORKER_ENVIRONMENT: [(&str, &str); 2] = [("GGML_NO_BACKTRACE", "1"), ("GOMP_SPINCOUNT", "1000")];
/// How long a process may take to stop an answer, before it is killed.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a process that closed its pipe may take to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of what a process printed last is kept to explain its end.
const MAX_OUTPUT_BYTES: usize = 16 << 10;

/// A running model process. It is killed when this is dropped.
pub(super) struct ModelProcess {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Reads what the process prints, so that it never waits for a reader, and returns the end of it. `None` once that was
    /// used.
    printed: Option<JoinHandle<Vec<u8>>>,
}

impl ModelProcess {
    /// Starts a process and waits until the model is loaded.
    pub(super) async fn start(program: &Path, file: &Path) -> Result<ModelProcess, LocalModelError> {
        let mut command = Command::new(program);
        // The environment has secrets that a model does not need.
        command.arg(WORKER_ARGUMENT).arg(file).env_clear().envs(WORKER_ENVIRONMENT).kill_on_drop(true);
        // Ctrl-C in a terminal reaches only Flowloom. The process ends when its pipe is closed, so it does not outlive it.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(LocalModelError::NotStarted)?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(LocalModelError::NotStarted(std::io::Error::other("it has no pipes")));
        };
        let output = BufReader::new(output).lines();
        let mut process = ModelProcess { child, input, output, printed: Some(tokio::spawn(collect_end(errors))) };
        match process.next_reply().await? {
            Reply::Ready => Ok(process),
            Reply::NotLoaded(message) => {
                let logged = process.last_error_line().await;
                let reason = if logged.is_empty() { message } else { logged };
                Err(LocalModelError::NotLoaded { file: file.to_owned(), reason })
            }
            other => Err(LocalModelError::UnexpectedMessage(format!("{other:?}"))),
        }
    }

    /// Has one answer generated, and passes its text to `show` as it arrives. Once `stop` is cancelled the process is
    /// asked to stop, and this still waits for it.
    pub(super) async fn generate_answer(
        &mut self,
        job: AnswerJob,
        stop: &CancellationToken,
        mut show: impl FnMut(&str),
    ) -> Result<GeneratedText, LocalModelError> {
        self.send_request(&WorkerRequest::Answer(Box::new(job))).await?;
        loop {
            let reply = tokio::select! {
                biased;
                () = stop.cancelled() => return self.cancel_answer().await,
                reply = self.next_reply() => reply?,
            };
            match reply {
                Reply::Text(text) => show(&text),
                Reply::Answered(generated) => return Ok(generated),
                Reply::Failed(error) => return Err(LocalModelError::Generation(error)),
                other => return Err(LocalModelError::UnexpectedMessage(format!("{other:?}"))),
            }
        }
    }

    async fn cancel_answer(&mut self) -> Result<GeneratedText, LocalModelError> {
        self.send_request(&WorkerRequest::Cancel).await?;
        let stopped = async {
            while matches!(self.next_reply().await?, Reply::Text(_)) {}
            Ok(())
        };
        match timeout(CANCEL_TIMEOUT, stopped).await {
            Ok(result) => result.and(Err(LocalModelError::Generation(GenerationError::Cancelled))),
            Err(_) => Err(LocalModelError::NotStopped),
        }
    }

    async fn send_request(&mut self, request: &WorkerRequest) -> Result<(), LocalModelError> {
        let mut line =
            serde_json::to_vec(request).map_err(|error| LocalModelError::UnexpectedMessage(error.to_string()))?;
        line.push(b'\n');
        let sent = async {
            self.input.write_all(&line).await?;
            self.input.flush().await
        };
        match sent.await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.explain_end().await),
        }
    }

    /// Cancelling this future loses nothing: a line that has arrived in part stays in the buffer.
    async fn next_reply(&mut self) -> Result<Reply, LocalModelError> {
        match self.output.next_line().await {
            Ok(Some(line)) => {
                serde_json::from_str(&line).map_err(|error| LocalModelError::UnexpectedMessage(error.to_string()))
            }
            Ok(None) | Err(_) => Err(self.explain_end().await),
        }
    }

    async fn explain_end(&mut self) -> LocalModelError {
        let output_end = self.last_error_line().await;
        let status = timeout(EXIT_TIMEOUT, self.child.wait()).await.ok().and_then(Result::ok);
        let ended = status.map_or_else(|| "closed its pipe".to_owned(), describe_status);
        LocalModelError::Crashed { ended, output_end }
    }

    /// The last line that the process printed; empty if there is none.
    async fn last_error_line(&mut self) -> String {
        let Some(printed) = self.printed.take() else { return String::new() };
        let printed = timeout(EXIT_TIMEOUT, printed).await.ok().and_then(Result::ok).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        printed.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned()
    }
}

/// Reads everything, and returns the last [`MAX_OUTPUT_BYTES`].
async fn collect_end(mut output: ChildStderr) -> Vec<u8> {
    let (mut end, mut buffer) = (Vec::new(), [0; 1024]);
    while let Ok(count @ 1..) = output.read(&mut buffer).await {
        end.extend_from_slice(&buffer[..count]);
        let surplus = end.len().saturating_sub(MAX_OUTPUT_BYTES);
        end.drain(..surplus);
    }
    end
}

fn describe_status(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was ended by signal {signal}");
    }
    format!("ended with {status}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The terminal sends the signal of Ctrl-C to a whole group.
    #[tokio::test]
    async fn ctrl_c_does_not_reach_a_model_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("model");
        let script = "#!/bin/sh\nread pid name state parent group rest < /proc/self/stat\n\
                      test $pid = $group && echo '\"ready\"' || echo '{\"not_loaded\":\"in the group of its parent\"}'\n\
                      read request\n";
        std::fs::write(&program, script).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("set");
        let started = ModelProcess::start(&program, Path::new("model.gguf")).await;
        assert!(started.is_ok(), "{:?}", started.err());
    }
}
