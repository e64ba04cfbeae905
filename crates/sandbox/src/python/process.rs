//! An interpreter process in the sandbox: its channel and its printed text. Dropping it closes the channel, upon which
//! the launcher kills and reaps the interpreter.

use std::collections::VecDeque;
use std::future::ready;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::value::Value;
use flowloom_runtime::descriptors::retry_without_descriptors;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::error::{InterpreterError, MessageError, ProcessEnd};
use super::interpreter::PythonInterpreter;
use super::watch::InterpreterWatch;
use super::wire::{BlockMessage, HelloMessage, InterpreterMessage, LaunchMessage};
use crate::PYTHON_WORKER;
use crate::config::SandboxConfig;
use crate::frame::{self, FrameMark, FrameReader, PLAIN_MARK};
use crate::lock::report::LockReport;

/// Timeout for starting an interpreter, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// CPU time beyond the block's limit, in seconds: for the start, and so that the limit in real time is reached first.
const SPARE_CPU_SECONDS: u64 = 5;

/// Length of the printed line in an error message, in characters.
const MAX_SHOWN_CHARS: usize = 300;

pub(super) struct BlockProcess {
    child: Child,
    /// Open as long as the interpreter may live.
    to: Option<ChildStdin>,
    from: FrameReader<ChildStdout>,
    log: JoinHandle<Vec<u8>>,
    mark: FrameMark,
    /// Its protections, once it has started.
    pub(super) lock_report: LockReport,
    /// The kernel's information about the process, once it has started.
    pub(super) watch: Option<InterpreterWatch>,
    /// Data still to be written. It is written while frames are read, so that neither side blocks forever.
    out: VecDeque<u8>,
}

/// A message from an interpreter.
pub(super) enum ProcessMessage {
    Message(InterpreterMessage),
    /// A frame that is invalid or has unknown content.
    Invalid(MessageError),
    /// The interpreter has ended.
    End,
}

impl BlockProcess {
    /// Starts an interpreter. It receives everything but its block and prepares itself.
    pub(super) async fn start_interpreter(
        config: &SandboxConfig,
        interpreter: &PythonInterpreter,
    ) -> io::Result<BlockProcess> {
        let mut mark = FrameMark::default();
        rustix::rand::getrandom(&mut mark, rustix::rand::GetRandomFlags::empty())?;
        let bounds = &config.python;
        let launch = LaunchMessage {
            view: interpreter.view.clone(),
            boot: include_str!("boot.py").to_owned(),
            mark,
            memory_bytes: bounds.memory_bytes,
            cpu_seconds: bounds.timeout.as_secs() + SPARE_CPU_SECONDS,
            kernel: config.kernel,
            cgroup: config.cgroup.clone(),
        };
        let mut command = Command::new(&config.worker);
        command.arg(PYTHON_WORKER).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = retry_without_descriptors(|| ready(command.spawn())).await?;
        let (Some(to), Some(from), Some(log)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("the worker has no pipes"));
        };
        // A frame contains a result and little more.
        let from = FrameReader::new(from, mark, bounds.output_bytes + (64 << 10));
        let log = tokio::spawn(collect_log(log, bounds.log_bytes));
        let to = Some(to);
        let lock_report = LockReport::default();
        let mut process = BlockProcess { child, to, from, log, mark, lock_report, watch: None, out: VecDeque::new() };
        process.push_marked_frame(&PLAIN_MARK, &serde_json::to_vec(&launch)?);
        process.push_frame(&interpreter.codes);
        process.push_frame(&serde_json::to_vec(&HelloMessage { mark, output_bytes: bounds.output_bytes })?);
        Ok(process)
    }

    fn push_marked_frame(&mut self, mark: &FrameMark, payload: &[u8]) {
        let mut framed = Vec::new();
        frame::push_frame(&mut framed, mark, payload);
        self.out.extend(framed);
    }

    /// Queues a frame; it is written while frames are read.
    pub(super) fn push_frame(&mut self, payload: &[u8]) {
        let mark = self.mark;
        self.push_marked_frame(&mark, payload);
    }

    /// Sends its block.
    pub(super) fn send_block(&mut self, job: &BlockMessage<'_>) -> serde_json::Result<()> {
        self.push_frame(&serde_json::to_vec(job)?);
        Ok(())
    }

    /// The next message; also writes queued data. Can be cancelled and called again.
    pub(super) async fn next_message(&mut self) -> ProcessMessage {
        loop {
            let pending = self.out.as_slices().0;
            tokio::select! {
                frame = self.from.next_frame() => match frame.map(|frame| frame.as_deref().map(InterpreterMessage::parse_frame)) {
                    Ok(Some(Ok(message))) => return ProcessMessage::Message(message),
                    Ok(Some(Err(error))) => return ProcessMessage::Invalid(error),
                    Ok(None) => return ProcessMessage::End,
                    Err(error) => return ProcessMessage::Invalid(MessageError::Frame(error)),
                },
                written = write_some(&mut self.to, pending), if !pending.is_empty() => match written {
                    Ok(count) => drop(self.out.drain(..count)),
                    // Messages that it sent before it ended are still read.
                    Err(_) => self.out.clear(),
                },
            }
        }
    }

    /// Waits until it has imported everything and waits for a block.
    pub(super) async fn wait_until_ready(&mut self) -> Result<(), InterpreterError> {
        timeout(START_TIMEOUT, self.read_start()).await.unwrap_or(Err(InterpreterError::ReadyTimeout))
    }

    /// Reads the messages that a process sends before it runs a block.
    async fn read_start(&mut self) -> Result<(), InterpreterError> {
        loop {
            return match self.next_message().await {
                ProcessMessage::Message(InterpreterMessage::LockedDown(report)) => {
                    self.lock_report = report;
                    continue;
                }
                ProcessMessage::Message(InterpreterMessage::Started(process)) => {
                    self.watch = InterpreterWatch::open(process);
                    continue;
                }
                ProcessMessage::Message(InterpreterMessage::Ready) => Ok(()),
                ProcessMessage::Message(InterpreterMessage::Missing(missing)) => {
                    Err(InterpreterError::NotLockedDown { missing })
                }
                ProcessMessage::Message(_) => Err(InterpreterError::UnexpectedMessage),
                ProcessMessage::Invalid(error) => Err(InterpreterError::InvalidMessage(error)),
                ProcessMessage::End => Err(InterpreterError::Ended(self.find_end().await)),
            };
        }
    }

    /// Whether it still waits for a block.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How it ended, with the end of its printed text.
    pub(super) async fn find_end(&mut self) -> ProcessEnd {
        // The channel is closed, so the process has ended or is ending. A block that closed the channel itself is
        // killed.
        let exit_code = match timeout(Duration::from_millis(200), self.child.wait()).await {
            Ok(Ok(status)) => status.code(),
            _ => None,
        };
        self.to = None;
        let log = timeout(Duration::from_secs(1), &mut self.log).await;
        let log = log.ok().and_then(Result::ok).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let last_line = log.trim().lines().last().unwrap_or_default().chars().take(MAX_SHOWN_CHARS).collect();
        ProcessEnd { exit_code, last_line }
    }
}

async fn write_some(to: &mut Option<ChildStdin>, bytes: &[u8]) -> io::Result<usize> {
    match to {
        Some(to) => to.write(bytes).await,
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Keeps the end of the printed text and drops the rest, so that printing never blocks.
async fn collect_log(mut from: ChildStderr, cap: usize) -> Vec<u8> {
    let mut tail = Vec::new();
    let mut buffer = vec![0; 8 << 10];
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        tail.extend_from_slice(&buffer[..count]);
        if tail.len() > cap {
            tail.drain(..tail.len() - cap);
        }
    }
    tail
}

impl<'a> BlockMessage<'a> {
    /// A block of a run of the user `user`.
    pub(super) fn from_request(
        request: &'a flowloom_core::effect::PythonRequest,
        user: &'a Arc<str>,
        config: &'a SandboxConfig,
    ) -> BlockMessage<'a> {
        let memory = match &request.memory {
            memory @ Value::Map(_) => memory.clone(),
            _ => flowloom_core::value::Map::new().into(),
        };
        BlockMessage {
            source: &request.source,
            inputs: &request.inputs,
            user: &request.user,
            user_id: user,
            memory,
            environment: &config.environment,
        }
    }
}
