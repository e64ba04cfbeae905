//! How the sandbox is set up: where its workers are and how much they may use.

use std::path::PathBuf;
use std::time::Duration;

/// What a [`Sandbox`](crate::Sandbox) is made of.
#[derive(Clone, Debug)]
pub struct SandboxConfig {
    /// A program that calls [`worker_main`](crate::worker_main) before anything else; usually this one.
    pub worker: PathBuf,
    /// Python interpreters to try, in order; the first that works is used.
    pub interpreters: Vec<PathBuf>,
    /// What blocks see as `os.environ`.
    pub environment: Vec<(String, String)>,
    /// Bounds of an expression.
    pub script: ScriptLimits,
    /// Bounds of a Python block.
    pub python: PythonLimits,
    /// How blocks are kept apart from the machine.
    pub isolation: Isolation,
}

/// How a Python block is kept apart from the machine. Seccomp, limits and an unprivileged user are part of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Namespaces with a bare file system where they are allowed, else Landlock.
    #[default]
    Best,
    /// Landlock alone, as where namespaces are not allowed.
    Landlock,
}

/// How many times the processor's time an expression may take by the clock, on a machine that does other things, too.
pub(crate) const PATIENCE: u32 = 10;

/// Bounds of an expression.
#[derive(Clone, Debug)]
pub struct ScriptLimits {
    /// The processor's time for one answer. By the clock it may take [`PATIENCE`] times as long.
    pub timeout: Duration,
    /// Bytes that the engine may hold.
    pub memory_bytes: usize,
    /// Bytes of the value, as JSON.
    pub output_bytes: usize,
    /// Workers at the same time; as many are kept idle.
    pub workers: usize,
}

/// Bounds of a Python block.
#[derive(Clone, Debug)]
pub struct PythonLimits {
    /// Time of the block's own; what it waits for its run does not count.
    pub timeout: Duration,
    /// Address space of the interpreter.
    pub memory_bytes: u64,
    /// Bytes of the result, or of one request, as JSON.
    pub output_bytes: usize,
    /// Bytes of printed text that are kept; the rest is dropped.
    pub log_bytes: usize,
    /// Requests to the run in one block.
    pub requests: usize,
    /// Blocks at the same time.
    pub blocks: usize,
    /// Interpreters that wait for a block, started when one was used.
    pub warm: usize,
}

impl SandboxConfig {
    /// The defaults, with `worker` as the program of the workers and the given interpreters.
    pub fn new(worker: impl Into<PathBuf>, interpreters: Vec<PathBuf>) -> SandboxConfig {
        SandboxConfig {
            worker: worker.into(),
            interpreters,
            environment: Vec::new(),
            script: ScriptLimits::default(),
            python: PythonLimits::default(),
            isolation: Isolation::default(),
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            timeout: Duration::from_millis(100),
            memory_bytes: 32 << 20,
            output_bytes: 8 << 20,
            workers: cores(),
        }
    }
}

impl Default for PythonLimits {
    fn default() -> PythonLimits {
        PythonLimits {
            timeout: Duration::from_secs(60),
            memory_bytes: 512 << 20,
            output_bytes: 8 << 20,
            log_bytes: 64 << 10,
            requests: 1000,
            blocks: 16,
            warm: cores().min(4),
        }
    }
}

/// Which kinds of code can run here: how, or what is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// JavaScript expressions.
    pub script: Result<String, String>,
    /// Python blocks.
    pub python: Result<String, String>,
}
