//! The interpreter of plans and its interfaces: effect traits, the journal, the clock.
//!
//! Independent of formats, providers and databases. The only crate that spawns run tasks ([`engine`]).
#![warn(missing_docs)]

pub mod blocking;
mod branches;
pub mod causes;
pub mod child_run;
pub mod clock;
pub mod command;
pub mod descriptors;
mod divergence;
mod drive;
pub mod effects;
pub mod engine;
pub mod error;
pub mod failpoint;
pub mod fair;
pub mod fork;
pub mod inbox;
mod interpret;
pub mod journal;
mod log;
pub mod memory;
pub mod memory_quota;
pub mod metrics;
pub mod outage_log;
mod outcome;
pub mod publish;
pub mod redact;
pub mod relay;
pub mod remote;
pub mod reopen;
pub mod requests;
mod run;
pub mod schema;
mod scope;
mod semantics;
pub mod sim;
mod start_options;
mod steering;
pub mod timing;

pub use command::{CommandAction, CommandOutcome, CommandRecord, DecidedCommand, RunCommand};
pub use divergence::Divergence;
pub use engine::Engine;
pub use error::{JournalError, RunError};
pub use fork::{FollowedRun, ForkedRun, list_responses};
pub use log::{AnsweredRequests, ResetAttempts, Response, ScriptValue};
pub use outcome::RunOutcome;
pub use publish::SubscribeHandle;
pub use run::Run;
pub use semantics::{ENGINE_SEMANTICS, engine_semantics};
pub use start_options::StartOptions;
