//! The interpreter of plans and its interfaces: effect traits, the journal, the clock.
//!
//! Independent of formats, providers and databases. The only crate that spawns run tasks ([`engine`]).
#![warn(missing_docs)]

pub mod causes;
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
pub mod sim;

pub use command::{CommandAction, CommandOutcome, CommandRecord, DecidedCommand, RunCommand};
pub use divergence::Divergence;
pub use engine::{Engine, StartOptions};
pub use error::{JournalError, RunError};
pub use fork::{ForkedRun, list_responses};
pub use log::{Response, ScriptValue};
pub use outcome::RunOutcome;
pub use publish::SubscribeHandle;
pub use run::Run;

/// Version of the interpreter's semantics. Runs created under another version are rejected.
pub const ENGINE_SEMANTICS: u32 = 1;

/// The version of the interpreter's semantics that this process has: [`ENGINE_SEMANTICS`], or the variable
/// `FLOWLOOM_ENGINE_SEMANTICS`, with which a test starts the program as another version.
#[cfg(debug_assertions)]
pub fn engine_semantics() -> u32 {
    use std::sync::LazyLock;

    #[allow(clippy::disallowed_methods, reason = "a test chooses the version of the program that it starts")]
    static SEMANTICS: LazyLock<u32> = LazyLock::new(|| {
        std::env::var("FLOWLOOM_ENGINE_SEMANTICS").ok().and_then(|text| text.parse().ok()).unwrap_or(ENGINE_SEMANTICS)
    });
    *SEMANTICS
}

/// The version of the interpreter's semantics that this process has.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn engine_semantics() -> u32 {
    ENGINE_SEMANTICS
}
