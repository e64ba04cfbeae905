//! Kills the program at random times and at named places, disturbs what it depends on, and checks what its journal
//! promises.
#![warn(missing_docs)]

mod board;
mod campaign;
mod child_runs;
mod cluster;
mod definitions;
mod effects;
mod failpoints;
mod faults;
mod http;
mod model;
mod oracle;
mod own_postgres;
mod program;
mod races;
mod random;
mod run_client;
mod terminal;

pub use campaign::{CampaignReport, kill_servers, kill_servers_and_set_clocks};
pub use cluster::kill_cluster;
pub use failpoints::{FAILPOINTS, HITS, UNREACHED, kill_at_failpoints};
pub use faults::{SCENARIOS, Scenario};
pub use program::DatabaseKind;
pub use terminal::kill_commands;
