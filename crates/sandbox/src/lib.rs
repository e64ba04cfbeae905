//! Runs untrusted code in separate processes: JavaScript expressions and Python blocks.
//!
//! The process that holds keys and data starts workers, communicates with them and kills them; it evaluates nothing
//! itself. A worker is the same program with a hidden argument ([`worker_main`]). It locks itself down before it
//! receives any code. The lock-down is in `lock`; the two kinds of code are in `script` and `python`. If the lock-down
//! is not possible, code is refused, and the error names the missing requirement (FL1032).
#![warn(missing_docs)]

mod config;
pub mod frame;
mod meter;
mod worker_arguments;

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod error;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod lock;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod python;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod sandbox;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod script;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod unsupported;

pub use config::{Availability, BlockLimits, KernelFeatures, Protection, PythonLimits, SandboxConfig, ScriptLimits};
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use error::{SandboxError, UnavailableError};
pub use meter::{SandboxMeter, TimeReservation};
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use sandbox::{Sandbox, worker_main};
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub use unsupported::{Sandbox, worker_main};
pub use worker_arguments::{PYTHON_WORKER, SCRIPT_WORKER};
