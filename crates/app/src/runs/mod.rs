//! Runs: started, watched, driven and summarised.

pub mod child_runs;
pub mod commands;
mod deletion;
pub mod details;
mod exposed_secrets;
pub mod family;
pub mod family_tree;
pub mod finished;
pub mod fork;
pub mod fork_error;
mod fork_names;
pub mod halting;
pub mod input_line;
pub mod inputs;
mod keyed_locks;
pub mod last;
pub(crate) mod masking;
pub mod open_steps;
mod ownership;
pub mod playback;
mod quarantine;
mod question_clock;
pub mod recovery;
mod report;
pub mod retention;
pub mod retry;
pub mod service;

pub mod start;
pub mod summary;
pub mod supervisor;
pub mod trigger;
pub mod turns;
pub(crate) mod url_credentials;
pub mod wait;
pub mod watch;
