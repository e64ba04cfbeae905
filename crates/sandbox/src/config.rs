//! Configuration of the sandbox: worker program, interpreters and limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::meter::SandboxMeter;

/// Configuration of a [`Sandbox`](crate::Sandbox).
#[derive(Clone, Debug)]
pub struct SandboxConfig {
    /// A program that calls [`worker_main`](crate::worker_main) before anything else; usually this one.
    pub worker: PathBuf,
    /// Python interpreters to try, in order; the first that works is used.
    pub interpreters: Vec<PathBuf>,
    /// Environment variables that blocks see as `os.environ`.
    pub environment: Vec<(String, String)>,
    /// Limits of an expression.
    pub script: ScriptLimits,
    /// Limits of a Python block.
    pub python: PythonLimits,
    /// The features of the kernel that isolate blocks.
    pub kernel: KernelFeatures,
    /// A cgroup that every worker joins before it receives code: a folder with a file `cgroup.procs`.
    pub cgroup: Option<PathBuf>,
    /// Counts the time that code computes.
    pub meter: Option<Arc<dyn SandboxMeter>>,
    /// Modules with shared libraries that interpreters load in addition to those that blocks need: for tests whose
    /// attacks start from such a module.
    pub extra_modules: Vec<String>,
}

/// The features of the kernel that may isolate blocks; those that it does not have are left out. Seccomp, resource limits
/// and an unprivileged user apply in each case. Tests allow fewer features, as on older or more restricted machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFeatures {
    /// Namespaces with a minimal file system.
    pub namespaces: bool,
    /// The newest version (ABI) of Landlock; 0 for none.
    pub landlock_abi: u32,
}

impl Default for KernelFeatures {
    fn default() -> KernelFeatures {
        KernelFeatures { namespaces: true, landlock_abi: NEWEST_LANDLOCK_ABI }
    }
}

/// The newest version of Landlock whose restrictions are used: file access, TCP, devices, signals and abstract sockets.
pub(crate) const NEWEST_LANDLOCK_ABI: u32 = 6;

/// Factor between the CPU time limit of an expression and its limit in real time, because the machine may be busy.
pub(crate) const REAL_TIME_FACTOR: u32 = 10;

/// Limits of an expression.
#[derive(Clone, Debug)]
pub struct ScriptLimits {
    /// CPU time of one evaluation. In real time it may take `REAL_TIME_FACTOR` times as long.
    pub timeout: Duration,
    /// Maximum memory of the engine, in bytes.
    pub memory_bytes: usize,
    /// Maximum size of the value as JSON, in bytes.
    pub output_bytes: usize,
    /// Maximum number of concurrent workers, and of idle ones.
    pub workers: usize,
}

/// Limits of a single block.
#[derive(Clone, Copy, Debug)]
pub struct BlockLimits {
    /// Real time of the block, excluding the time it waits for its run.
    pub timeout: Duration,
    /// Maximum number of requests of the block to its run.
    pub requests: usize,
}

/// Limits of a Python block.
#[derive(Clone, Debug)]
pub struct PythonLimits {
    /// Real time of the block, excluding the time it waits for its run.
    pub timeout: Duration,
    /// Address space of the interpreter, in bytes.
    pub memory_bytes: u64,
    /// Maximum size of the result, or of one request, as JSON in bytes.
    pub output_bytes: usize,
    /// Number of bytes of printed text to keep; the rest is dropped.
    pub log_bytes: usize,
    /// Maximum number of requests of one block to its run.
    pub requests: usize,
    /// Maximum number of concurrent blocks.
    pub blocks: usize,
    /// Number of interpreters that are started in advance.
    pub warm: usize,
}

impl SandboxConfig {
    /// The default limits, with `worker` as the worker program and the given interpreters.
    pub fn new(worker: impl Into<PathBuf>, interpreters: Vec<PathBuf>) -> SandboxConfig {
        SandboxConfig {
            worker: worker.into(),
            interpreters,
            environment: Vec::new(),
            script: ScriptLimits::default(),
            python: PythonLimits::default(),
            kernel: KernelFeatures::default(),
            cgroup: None,
            meter: None,
            extra_modules: Vec::new(),
        }
    }
}

fn core_count() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            timeout: Duration::from_millis(100),
            memory_bytes: 32 << 20,
            output_bytes: 8 << 20,
            workers: core_count(),
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
            warm: core_count().min(4),
        }
    }
}

/// Which kinds of code can run on this machine: a description, or the missing requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// JavaScript expressions.
    pub script: Result<String, String>,
    /// Python blocks.
    pub python: Result<String, String>,
    /// The protections of Python blocks; empty if no block can run.
    pub protections: Vec<Protection>,
}

/// A protection of Python blocks, and whether it is active on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Its name, in one or two words.
    pub name: &'static str,
    /// Whether it is active.
    pub is_active: bool,
    /// The details of the protection, or why it is missing.
    pub detail: String,
    /// The fix for a missing protection.
    pub advice: Option<&'static str>,
}
