//! One interpreter in the sandbox: its channel, and what it printed. When this is dropped the channel closes, upon which
//! the launcher kills the interpreter and takes it from the process table.

use std::collections::VecDeque;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use flowloom_core::value::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::interpreter::Interpreter;
use super::launch::BY_SIGNAL;
use super::wire::{Hello, Job, Launch, Said};
use crate::PYTHON_WORKER;
use crate::config::{Isolation, SandboxConfig};
use crate::frame::{self, Frames, Mark, PLAIN};

/// How long an interpreter may take to start on a machine that is busy.
const START: Duration = Duration::from_secs(30);

/// Processor time beyond the block's time: for the start, and so that the clock on the wall is what ends a block.
const CPU_SPARE_SECONDS: u64 = 5;

pub(super) struct Process {
    child: Child,
    /// Open for as long as the interpreter may live.
    to: Option<ChildStdin>,
    from: Frames<ChildStdout>,
    log: JoinHandle<Vec<u8>>,
    mark: Mark,
    /// What keeps it apart from the machine, once it is started.
    pub(super) held: String,
    /// What is to be written yet. Written beside reading, so that neither side waits for the other for ever.
    out: VecDeque<u8>,
}

/// What came from an interpreter.
pub(super) enum Came {
    Said(Said),
    /// A frame that is none, or says nothing known.
    Garbage(String),
    /// The interpreter is gone.
    End,
}

impl Process {
    /// Starts an interpreter. It is told everything but its block and gets ready by itself.
    pub(super) fn start(config: &SandboxConfig, interpreter: &Interpreter) -> io::Result<Process> {
        let mut mark = Mark::default();
        rustix::rand::getrandom(&mut mark, rustix::rand::GetRandomFlags::empty())?;
        let bounds = &config.python;
        let launch = Launch {
            view: interpreter.view.clone(),
            boot: include_str!("boot.py").to_owned(),
            mark,
            memory_bytes: bounds.memory_bytes,
            cpu_seconds: bounds.timeout.as_secs() + CPU_SPARE_SECONDS,
            namespaces: config.isolation == Isolation::Best,
        };
        let mut command = Command::new(&config.worker);
        command.arg(PYTHON_WORKER).env_clear().current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(to), Some(from), Some(log)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("the worker has no pipes"));
        };
        // A frame is a result and a little around it.
        let from = Frames::new(from, mark, bounds.output_bytes + (64 << 10));
        let log = tokio::spawn(keep_log(log, bounds.log_bytes));
        let to = Some(to);
        let mut process = Process { child, to, from, log, mark, held: String::new(), out: VecDeque::new() };
        process.push_marked(&PLAIN, &serde_json::to_vec(&launch)?);
        process.push(&interpreter.codes);
        process.push(&serde_json::to_vec(&Hello { mark, output_bytes: bounds.output_bytes })?);
        Ok(process)
    }

    fn push_marked(&mut self, mark: &Mark, payload: &[u8]) {
        let mut framed = Vec::new();
        frame::push(&mut framed, mark, payload);
        self.out.extend(framed);
    }

    /// Writes a frame while the next ones are read.
    pub(super) fn push(&mut self, payload: &[u8]) {
        let mark = self.mark;
        self.push_marked(&mark, payload);
    }

    /// Gives it its block.
    pub(super) fn give(&mut self, job: &Job<'_>) -> io::Result<()> {
        self.push(&serde_json::to_vec(job)?);
        Ok(())
    }

    /// The next thing that comes; writes what is to be written meanwhile. Can be given up and called again.
    pub(super) async fn next(&mut self) -> Came {
        loop {
            let pending = self.out.as_slices().0;
            tokio::select! {
                frame = self.from.next() => match frame.map(|frame| frame.as_deref().map(Said::read)) {
                    Ok(Some(Ok(Said::Held(held)))) => self.held = held,
                    Ok(Some(Ok(said))) => return Came::Said(said),
                    Ok(Some(Err(what))) => return Came::Garbage(what),
                    Ok(None) => return Came::End,
                    Err(error) => return Came::Garbage(error.to_string()),
                },
                written = write(&mut self.to, pending), if !pending.is_empty() => match written {
                    Ok(count) => drop(self.out.drain(..count)),
                    // What it said before it went is still to be read.
                    Err(_) => self.out.clear(),
                },
            }
        }
    }

    /// Waits until it has imported everything and waits for a block; the error says what is missing.
    pub(super) async fn ready(&mut self) -> Result<(), String> {
        match timeout(START, self.next()).await {
            Ok(Came::Said(Said::Ready)) => Ok(()),
            Ok(Came::Said(Said::Missing(missing))) => Err(missing),
            Ok(Came::Said(_)) => Err("the interpreter said something unexpected".to_owned()),
            Ok(Came::Garbage(error)) => Err(format!("the interpreter: {error}")),
            Ok(Came::End) => Err(format!("the interpreter {}", self.ended().await)),
            Err(_) => Err("the interpreter did not get ready".to_owned()),
        }
    }

    /// Whether it still waits for a block.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// How it ended, in words, with the end of what it printed.
    pub(super) async fn ended(&mut self) -> String {
        // The channel is closed, so it is gone, or on its way; a block that closed the channel itself is killed.
        let status = match timeout(Duration::from_millis(200), self.child.wait()).await {
            Ok(Ok(status)) => status.code(),
            _ => None,
        };
        self.to = None;
        let log = timeout(Duration::from_secs(1), &mut self.log).await;
        let log = log.ok().and_then(Result::ok).unwrap_or_default();
        let last = String::from_utf8_lossy(&log).trim().lines().last().unwrap_or_default().to_owned();
        let how = match status {
            Some(code) if code == BY_SIGNAL + libc::SIGXCPU => "used up its processor time".to_owned(),
            Some(code) if code > BY_SIGNAL => format!("was ended by signal {}", code - BY_SIGNAL),
            Some(code) => format!("ended with exit code {code}"),
            None => "closed its channel".to_owned(),
        };
        if last.is_empty() { how } else { format!("{how}: {}", last.chars().take(300).collect::<String>()) }
    }
}

async fn write(to: &mut Option<ChildStdin>, bytes: &[u8]) -> io::Result<usize> {
    match to {
        Some(to) => to.write(bytes).await,
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Keeps the end of what is printed; the rest is dropped, so that nobody waits to print.
async fn keep_log(mut from: ChildStderr, cap: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut buffer = vec![0; 8 << 10];
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..count]);
        if kept.len() > cap {
            kept.drain(..kept.len() - cap);
        }
    }
    kept
}

impl<'a> Job<'a> {
    /// A block of a run of `owner`.
    pub(super) fn new(
        request: &'a flowloom_core::effect::PythonRequest,
        owner: &'a Arc<str>,
        config: &'a SandboxConfig,
    ) -> Job<'a> {
        let memory = match &request.memory {
            memory @ Value::Map(_) => memory.clone(),
            _ => flowloom_core::value::Map::new().into(),
        };
        Job {
            source: &request.source,
            inputs: &request.inputs,
            user: &request.user,
            user_id: owner,
            memory,
            environment: &config.environment,
        }
    }
}
