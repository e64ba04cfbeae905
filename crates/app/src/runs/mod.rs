//! Runs: started, watched, driven and summarised.

pub mod finished;
pub mod inputs;
pub mod service;
pub mod start;
pub mod summary;
pub mod supervisor;
pub mod watch;
