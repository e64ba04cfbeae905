//! A simulation: the real engine in several processes that share a database, on one thread and virtual time. A seed
//! chooses the runs, the commands, the faults and the order of everything, and reproduces them exactly.
//!
//! The ideas are those of FoundationDB, madsim, turmoil and shuttle: all sources of chance are replaced, the scheduler
//! chooses the next task at random, and an oracle checks promises instead of expected outputs.

mod child_oracle;
mod child_runs;
mod choices;
mod clients;
mod connection;
mod database;
mod effects;
mod executor;
mod faults;
mod observed;
mod oracle;
mod plans;
mod process;
mod schedule;
mod search;
mod world;

pub mod patches;

/// The exit code of a search that found nothing, but ran fewer schedules than it should have.
pub const TOO_FEW_SCHEDULES: u8 = 3;

pub use schedule::{FailedSchedule, Settings, run_schedule, shrink_schedule};
pub use search::{SearchReport, search_schedules};
