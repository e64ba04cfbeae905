//! Runs on Restate: the client that starts and wakes them, and the worker that drives them.
//!
//! The only crate that knows the SDK of Restate. What a worker needs of the program is in [`WorkerHost`].
#![warn(missing_docs)]

mod admin;
mod claim;
mod client;
mod drain;
mod endpoint;
mod entry;
mod journal;
mod names;
mod projection;
mod service;
mod session;
mod sleeping;

pub use admin::{Deployment, Discovery, RestateAdmin};
pub use client::{RestateClient, RestateError, RunLife, StartOutcome};
pub use endpoint::serve_worker;
pub use names::RunServices;
pub use service::SessionEnd;
pub use session::{OpenedRun, WorkerHost};
