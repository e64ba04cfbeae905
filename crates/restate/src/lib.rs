//! Runs on Restate: the client that starts and wakes them, and the worker that drives them.
//!
//! The only crate that knows the SDK of Restate. What a worker needs of the program is in [`WorkerHost`].
#![warn(missing_docs)]

mod claim;
mod client;
mod entry;
mod journal;
mod projection;
mod service;
mod session;
mod sleeping;

pub use client::{RestateClient, RestateError, RunLife};
pub use service::{SessionEnd, serve_worker};
pub use session::{OpenedRun, WorkerHost};
